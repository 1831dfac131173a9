"""The verb `compact`: one directory of a Hive table, without a cluster."""

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.cli.directories import directories_json, directory_options, nothing_because, request_of
from compaction_operator.driver.merge.runner import Done, LocalRunner, Outcome
from compaction_operator.driver.merge.tasks import SizedTask
from compaction_operator.driver.offline import Compacted, compact_directory
from compaction_operator.storage import resolve_location


@click.command()
@directory_options
def compact(location: str, output: str, write_ids: str, **options: Any) -> None:
    """Compact one directory in place and keep the old directories. STOP ALL READERS AND WRITERS FIRST."""
    done = compact_directory(
        resolve_location(location),
        write_ids=ValidWriteIdList.parse(write_ids),
        request=request_of(**options),
        runner=_Shown() if sys.stderr.isatty() else LocalRunner(),
    )
    if done.plan.outputs:
        click.echo("compacted in place: this is safe only if no reader or writer ran at the same time", err=True)
    click.echo(json.dumps(_compact_json(done)) if output == "json" else _compact_text(done))


class _Shown(LocalRunner):
    """Shows on a terminal how much of the input is merged."""

    def run(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
        """Return the outcome of each task, as LocalRunner does."""
        size = sum(piece.bytes for piece in work)
        if not size:
            return super().run(work, done)
        with click.progressbar(length=size, label="merging", file=sys.stderr) as bar:

            def advance(merged: int) -> None:
                bar.update(merged - bar.pos)
                done(merged)

            return super().run(work, advance)


def _compact_json(done: Compacted) -> dict[str, Any]:
    totals = done.totals
    return {
        **directories_json(done),
        "bytes_ingested": totals.bytes_ingested,
        "bytes_copied": totals.bytes_copied,
        "bytes_rewritten": totals.bytes_rewritten,
        "write_amplification": totals.write_amplification,
        "cpu_seconds": done.cpu_milliseconds / 1000,
        "rows_in": totals.rows_in,
        "rows_out": totals.rows_out,
        "delete_events_in": totals.delete_events_in,
        "delete_events_out": totals.delete_events_out,
    }


def _compact_text(done: Compacted) -> str:
    totals = done.totals
    if not done.plan.outputs:
        lines = [f"nothing to compact: {nothing_because(done)}"]
    else:
        lines = [f"wrote     {output.name}" for output in done.plan.outputs]
        lines.append(f"rows      {totals.rows_in} in, {totals.rows_out} out")
        lines.append(f"bytes     {totals.bytes_copied} copied, {totals.bytes_rewritten} rewritten")
        lines.append(f"deletes   {totals.delete_events_in} in, {totals.delete_events_out} out")
    lines += [f"apart     {done.apart}"] if done.apart else []
    lines += [f"obsolete  {entry.name}  ({entry.reason})" for entry in done.plan.obsolete]
    return "\n".join(lines)
