"""Command line: `run` (the controller), `job` (in the driver pod), `plan` and `compact` (one directory).

`history` reads receipts, and `why` asks a running controller.
"""

import json
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import click

from compaction_operator import __version__, logs
from compaction_operator.acid.plan import Layout, why_nothing
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.model import counted, format_size, parse_size
from compaction_operator.api.request import REQUEST_VARIABLE
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.merge.calibration import measured_factor
from compaction_operator.driver.merge.partition import Request
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.driver.offline import Compacted, Planned, compact_directory, plan_directory
from compaction_operator.orc import DEFAULT_TASK_MEMORY, OrcError
from compaction_operator.receipts import Head, about, rows, stored, verify
from compaction_operator.storage import Storage, StorageError, open_storage, resolve_location

BAD_INPUT = (StorageError, OrcError, JobError, ValueError, OSError)
"""Errors that a user can fix. They are reported in one line, without a traceback."""


class SizeType(click.ParamType[int]):
    """A size option such as 512MiB, converted to bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the bytes, or fail with the parse error."""
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Compact Hive ACID and Hudi tables on Kubernetes."""


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
        click.option(
            "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@cli.command()
@_directory_options
def plan(location: str, output: str, write_ids: str, **options: Any) -> None:
    """Show what a compaction of one directory would do. Writes nothing."""
    planned = plan_directory(
        resolve_location(location), write_ids=ValidWriteIdList.parse(write_ids), request=_request(**options)
    )
    click.echo(json.dumps(_plan_json(planned)) if output == "json" else _plan_text(planned))


@cli.command()
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


@cli.command()
def calibrate() -> None:
    """Print how many times the reference machine's CPU time a small merge takes here. The image's build stores it."""
    click.echo(f"{measured_factor():.3f}")


@cli.command()
@click.option("--config", required=True, type=click.Path(dir_okay=False), help="The operator's configuration (YAML).")
@click.option("--verbose", is_flag=True, help="Also log debug messages.")
def run(config: str, verbose: bool) -> None:
    """Run the controller."""
    from compaction_operator.controller.app import run as run_controller  # noqa: PLC0415 - kopf is the controller's

    _log(logging.DEBUG if verbose else logging.INFO)
    run_controller(config)


@cli.command()
def job() -> None:
    """Run one compaction in a driver pod. The controller starts this command."""
    if lacking := [name for name in (REQUEST_VARIABLE, "POD_NAME", "POD_UID") if name not in os.environ]:
        raise click.UsageError(f"the controller starts `job` in a pod; the environment lacks {', '.join(lacking)}")
    from compaction_operator.driver.main import main as run_driver  # noqa: PLC0415 - Spark and Kubernetes

    _log(logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    code = run_driver()
    logging.shutdown()
    sys.stdout.flush()
    # NB: a call to a store that was given up may return while Python shuts down, and abort the process. The driver has
    # said how it ended, so nothing may change its exit code.
    os._exit(code)


@cli.command()
@click.argument("table")
@click.option("-n", "--namespace", help="Ask the policies of this namespace. Default: of all namespaces.")
@click.option("--policy", help="Ask the policies of this name.")
@click.option("--warehouse", help="Ask the policies of this warehouse.")
@click.option(
    "--operator",
    metavar="NAMESPACE/SERVICE",
    envvar="COMPACTION_OPERATOR",
    default="compaction-system/compaction-operator",
    show_default=True,
    help="The operator's Service. Also from the environment variable COMPACTION_OPERATOR.",
)
@click.option("--url", help="Ask the controller at this address, such as http://localhost:8081, and no API server.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format.")
def why(table: str, *, operator: str, url: str | None, output: str, **which: str | None) -> None:
    """Say why policies picked a table (database.name), or did not, at their last look."""
    from compaction_operator.controller.kube.ask import AskError, ask  # noqa: PLC0415 - Kubernetes

    query = {"table": table, **{name: value for name, value in which.items() if value is not None}}
    try:
        answers = ask(query, operator=operator, url=url)
    except AskError as error:
        _fail(str(error), 1)
    if output == "json":
        click.echo(json.dumps([one.to_json() for one in answers], indent=2))
        return
    from compaction_operator.policy.text import lines_of  # noqa: PLC0415 - this verb's

    for line in lines_of(answers):
        click.echo(line)


@cli.command()
@click.argument("table", required=False)
@click.option("--location", help="The folder of the receipts.")
@click.option(
    "--config", type=click.Path(dir_okay=False), help="Or the operator's configuration (YAML), which names it."
)
@click.option("--warehouse", help="The warehouse in the configuration. Default: the only one with receipts.")
@click.option("--json", "as_json", is_flag=True, help="Print the receipts as they are stored, one line each.")
@click.option("--verify", "verifies", is_flag=True, help="Find receipts that were altered or are missing.")
@click.option("--head", metavar="NUMBER:SHA256", help="With --verify: a newest receipt of before, which must be there.")
def history(
    table: str | None,
    *,
    location: str | None,
    config: str | None,
    warehouse: str | None,
    as_json: bool,
    verifies: bool,
    head: str | None,
) -> None:
    """Show what was compacted and deleted, in all tables or in one (database.name), from the receipts."""
    storage, folder = _receipts_folder(location, config, warehouse)
    lines = stored(storage, folder)
    if verifies:
        _verify(lines, Head.parse(head) if head else None)
        return
    chosen = about(lines, table)
    texts = (line.decode().rstrip() for line, _ in chosen) if as_json else rows(receipt for _, receipt in chosen)
    for text in texts:
        click.echo(text)


def _receipts_folder(location: str | None, config: str | None, warehouse: str | None) -> tuple[Storage, str]:
    """Return where the receipts are. Raises ValueError, naming the option, if that is not clear."""
    if location is not None:
        folder = resolve_location(location)
        return open_storage(folder), folder
    if config is None:
        raise ValueError("give --location, the folder of the receipts, or --config, the operator's configuration")
    from compaction_operator.controller.app import load_config  # noqa: PLC0415 - kopf is the controller's
    from compaction_operator.controller.work import opener  # noqa: PLC0415 - so is this

    known = load_config(Path(config))
    found = [one for one in known.warehouses if one.receipts and warehouse in (None, one.name)]
    if len(found) != 1 or found[0].receipts is None:
        names = ", ".join(one.name for one in found) or "none"
        raise ValueError(f"--warehouse: name one that keeps receipts; {config} has {names}")
    folder = found[0].receipts.location
    return opener(known, found[0])(folder), folder


def _verify(lines: Iterable[tuple[int, bytes]], known: Head | None) -> None:
    verdict = verify(lines, known=known)
    for finding in verdict.findings:
        click.echo(finding)
    if verdict.findings:
        sys.exit(1)
    click.echo(f"{verdict.count} receipts, none altered or missing; head {verdict.head}")


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


def _log(level: int) -> None:
    logging.basicConfig(level=level, format=logs.TEXT, stream=sys.stderr)


def _fail(message: str, code: int) -> NoReturn:
    print("compaction-operator: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(code)


def main() -> None:
    """Run the command line. Errors that a user can fix end it with one line on standard error."""
    try:
        cli.main(prog_name="compaction-operator", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as asked:
        print(asked.format_message(), file=sys.stderr)
        sys.exit(asked.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), error.exit_code)
    except click.Abort:
        _fail("interrupted", 130)
    except BAD_INPUT as error:
        _fail(str(error) or type(error).__name__, 1)
