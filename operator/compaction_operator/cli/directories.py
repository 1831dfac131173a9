"""One directory of a Hive table: the options that say how to compact it, and what a plan of it says."""

from typing import Any

import click

from compaction_operator.acid.plan import Layout, why_nothing
from compaction_operator.acid.write_ids import ValidTxnList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.model import counted, format_size, parse_size
from compaction_operator.cli.options import output_option
from compaction_operator.driver.merge.partition import Request
from compaction_operator.driver.offline import Compacted, Planned
from compaction_operator.orc import DEFAULT_TASK_MEMORY


class SizeType(click.ParamType[int]):
    """A size option such as 512MiB, converted to bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the bytes, or fail with the parse error."""
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def directory_options(command: Any, *, required: bool = True) -> Any:
    """Add the options that `plan` and `compact` share; `plan` may be asked about a table instead of a directory."""
    options = [
        click.option("--location", required=required, help="Directory of one unpartitioned table or one partition."),
        click.option(
            "--type",
            "kind",
            required=True,
            type=click.Choice(["minor", "major"], case_sensitive=False),
            help="Compaction type.",
        ),
        click.option(
            "--write-ids",
            required=required,
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


def request_of(
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


def plan_json(found: Planned) -> dict[str, Any]:
    """Return a plan with its forecast, for scripts."""
    return {**directories_json(found), "forecast": _forecast_json(found)}


def directories_json(found: Planned | Compacted) -> dict[str, Any]:
    """Return what a plan, or what was done by it, reads, writes and makes obsolete."""
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


def plan_text(found: Planned) -> str:
    """Return a plan with its forecast, for people."""
    planned = found.plan
    lines = [f"base      {planned.best_base.name if planned.best_base else 'none'}"]
    lines += [f"delta     {delta.name}" for delta in planned.deltas]
    lines += [f"original  {file.name}" for file in planned.originals]
    lines += [f"write     {output.name}" for output in planned.outputs] or [
        f"write     nothing: {nothing_because(found)}"
    ]
    lines += [f"apart     {found.apart}"] if found.apart else []
    lines += [f"obsolete  {entry.name}  ({entry.reason})" for entry in planned.obsolete]
    return "\n".join(lines + _forecast_lines(found))


def nothing_because(found: Planned | Compacted) -> str:
    """Return why a plan writes nothing."""
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
