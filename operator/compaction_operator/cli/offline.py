"""The verbs `plan` and `compact`: one directory of a Hive table, without a cluster."""

import json
from typing import Any

import click

from compaction_operator.acid.plan import Layout, why_nothing
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.model import counted, format_size, parse_size
from compaction_operator.cli.options import output_option
from compaction_operator.driver.merge.partition import Request
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.driver.offline import Compacted, Planned, compact_directory, plan_directory
from compaction_operator.orc import DEFAULT_TASK_MEMORY
from compaction_operator.storage import resolve_location


class SizeType(click.ParamType[int]):
    """A size option such as 512MiB, converted to bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the bytes, or fail with the parse error."""
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _directory_options(command: Any) -> Any:
    """Add the options that `plan` and `compact` share."""
    options = [
        click.option("--location", required=True, help="Directory of one unpartitioned table or one partition."),
        click.option(
            "--type",
            "kind",
            required=True,
            type=click.Choice(["minor", "major"], case_sensitive=False),
            help="Compaction type.",
        ),
        click.option(
            "--write-ids",
            required=True,
            metavar="LIST",
            help="Valid write ids in Hive's format: db.table:highWatermark:minOpen:open,..:aborted,..",
        ),
        click.option(
            "--layout",
            type=click.Choice([layout.value for layout in Layout]),
            default=Layout.HIVE3.value,
            show_default=True,
            help="Output names: hive3 is bare, hive4 appends _v<transaction>.",
        ),
        click.option("--visibility-txn", type=click.IntRange(min=1), help="Transaction id for hive4's _v suffix."),
        click.option(
            "--valid-txns",
            metavar="LIST",
            help="Valid transactions, required for _v directories: highWatermark:minOpen:open,..:aborted,..",
        ),
        click.option(
            "--schema",
            metavar="TYPE",
            help="The table's current columns, as struct<a:int,b:string>. Default: the columns of the newest file.",
        ),
        click.option(
            "--task-memory",
            type=SizeType(),
            default=format_size(DEFAULT_TASK_MEMORY),
            show_default=True,
            help="Maximum memory for rows.",
        ),
        output_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@_directory_options
def plan(location: str, output: str, write_ids: str, **options: Any) -> None:
    """Show what a compaction of one directory would do. Writes nothing."""
    planned = plan_directory(
        resolve_location(location), write_ids=ValidWriteIdList.parse(write_ids), request=_request(**options)
    )
    click.echo(json.dumps(_plan_json(planned)) if output == "json" else _plan_text(planned))


@click.command()
@_directory_options
def compact(location: str, output: str, write_ids: str, **options: Any) -> None:
    """Compact one directory in place and keep the old directories. STOP ALL READERS AND WRITERS FIRST."""
    done = compact_directory(
        resolve_location(location),
        write_ids=ValidWriteIdList.parse(write_ids),
        request=_request(**options),
        runner=LocalRunner(),
    )
    if done.plan.outputs:
        click.echo("compacted in place: this is safe only if no reader or writer ran at the same time", err=True)
    click.echo(json.dumps(_compact_json(done)) if output == "json" else _compact_text(done))


def _request(
    *,
    kind: str,
    layout: str,
    visibility_txn: int | None,
    valid_txns: str | None,
    schema: str | None,
    task_memory: int,
) -> Request:
    """Return the options as a request. Raises ValueError for options that conflict."""
    if layout == Layout.HIVE4.value and visibility_txn is None:
        raise ValueError("--layout hive4 needs --visibility-txn, the transaction id for its _v suffix")
    if layout == Layout.HIVE3.value and visibility_txn is not None:
        raise ValueError("--visibility-txn is for --layout hive4: Hive 3 cannot read a _v suffix")
    return Request(
        type=CompactionType(kind.capitalize()),
        layout=Layout(layout),
        visibility_txn=visibility_txn,
        valid_txns=ValidTxnList.parse(valid_txns) if valid_txns is not None else None,
        row_type=schema,
        task_memory=task_memory,
    )


def _plan_json(found: Planned) -> dict[str, Any]:
    return {**_directories_json(found), "forecast": _forecast_json(found)}


def _directories_json(found: Planned | Compacted) -> dict[str, Any]:
    planned = found.plan
    return {
        "base": planned.best_base.name if planned.best_base else None,
        "deltas": [delta.name for delta in planned.deltas],
        "obsolete": [{"name": entry.name, "reason": entry.reason} for entry in planned.obsolete],
        "output_directories": [output.name for output in planned.outputs],
        "kept_apart": found.apart,
    }


def _forecast_json(found: Planned) -> dict[str, Any] | None:
    if found.problem:
        return {"problem": found.problem}
    if found.forecast is None or found.run is None:
        return None
    numbers = found.forecast.model_dump(exclude={"cpu_milliseconds"})
    cpu_seconds = found.forecast.cpu_milliseconds / 1000
    return {**numbers, "cpu_seconds": cpu_seconds, "pods": found.run.pods, "seconds": found.run.seconds}


def _plan_text(found: Planned) -> str:
    planned = found.plan
    lines = [f"base      {planned.best_base.name if planned.best_base else 'none'}"]
    lines += [f"delta     {delta.name}" for delta in planned.deltas]
    lines += [f"original  {file.name}" for file in planned.originals]
    lines += [f"write     {output.name}" for output in planned.outputs] or [f"write     nothing: {_why_nothing(found)}"]
    lines += [f"apart     {found.apart}"] if found.apart else []
    lines += [f"obsolete  {entry.name}  ({entry.reason})" for entry in planned.obsolete]
    return "\n".join(lines + _forecast_lines(found))


def _why_nothing(found: Planned | Compacted) -> str:
    return "its deltas stay apart" if found.apart else why_nothing(found.plan)


def _forecast_lines(found: Planned) -> list[str]:
    if found.problem:
        return [f"forecast  none: {found.problem}"]
    if found.forecast is None or found.run is None:
        return []
    expected, run = found.forecast, found.run
    return [
        f"read      {counted(expected.files_in, 'file')}, {counted(expected.bytes_in, 'byte')}",
        f"bytes     {expected.bytes_copied} copied, about {expected.bytes_rewritten} rewritten",
        f"rows      {expected.rows_removed} removed",
        f"cost      about {expected.cpu_milliseconds / 1000:.2f} CPU seconds, {counted(run.pods, 'pod')}, "
        f"{counted(run.seconds, 'second')}",
    ]


def _compact_json(done: Compacted) -> dict[str, Any]:
    totals = done.totals
    return {
        **_directories_json(done),
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
        lines = [f"nothing to compact: {_why_nothing(done)}"]
    else:
        lines = [f"wrote     {output.name}" for output in done.plan.outputs]
        lines.append(f"rows      {totals.rows_in} in, {totals.rows_out} out")
        lines.append(f"bytes     {totals.bytes_copied} copied, {totals.bytes_rewritten} rewritten")
        lines.append(f"deletes   {totals.delete_events_in} in, {totals.delete_events_out} out")
    lines += [f"apart     {done.apart}"] if done.apart else []
    lines += [f"obsolete  {entry.name}  ({entry.reason})" for entry in done.plan.obsolete]
    return "\n".join(lines)
