"""The verb `plan`: of a table by its metastore, or of one directory without a cluster."""

import json
import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.config import Warehouse
from compaction_operator.api.model import format_size
from compaction_operator.api.stores import STORES_VARIABLE
from compaction_operator.cli.configured import alone_in_pod, chosen, load, local_file, run_in_pod
from compaction_operator.cli.directories import directory_options, plan_json, plan_text, request_of
from compaction_operator.cli.options import context_option, operator_option, print_json
from compaction_operator.driver.offline import plan_directory
from compaction_operator.storage import resolve_location

if TYPE_CHECKING:
    from compaction_operator.driver.live import PartitionPlan, Question

LIVE_MEMORY = 64 << 20
"""Bytes of rows at a time, unless --task-memory says otherwise: the controller's pod has little memory."""
OF_A_TABLE = ("partitions", "config", "warehouse", "context")
OF_A_DIRECTORY = ("location", "write_ids", "layout", "visibility_txn", "valid_txns", "schema")


@click.command()
@click.argument("table", required=False, metavar="[DATABASE.TABLE]")
@partial(directory_options, required=False)
@click.option("--partition", "partitions", multiple=True, metavar="SPEC", help="Of a table, such as year=2026; repeat.")
@click.option("--config", type=click.Path(dir_okay=False), help="Of a table: plan by this configuration, from here.")
@click.option("--warehouse", help="Of a table: its warehouse. Default: the only one.")
@operator_option
@context_option
@click.pass_context
def plan(click_context: click.Context, /, table: str | None, **options: Any) -> None:
    """Show what a compaction of a table, or of one directory (--location), would do. Writes nothing.

    Of a table it asks the metastore, and plans each partition as a driver would now: in the controller's pod, or with
    --config from here.
    """
    _require_fitting(click_context, of_table=table is not None)
    if table is None:
        _plan_directory(**{name: one for name, one in options.items() if name not in (*OF_A_TABLE, "operator")})
        return
    memory = options["task_memory"] if _is_given(click_context, "task_memory") else LIVE_MEMORY
    names = ("kind", "partitions", "warehouse", "output")
    asked = _Asked(table=_ref(table), task_memory=memory, **{name: options[name] for name in names})
    if local := local_file(options["config"]):
        with alone_in_pod(local):
            _plan_table(local, asked)
    else:
        sys.exit(run_in_pod(asked.again(), operator=options["operator"], context=options["context"]).returncode)


def _require_fitting(context: click.Context, *, of_table: bool) -> None:
    for name in OF_A_DIRECTORY if of_table else OF_A_TABLE:
        if _is_given(context, name):
            option = {"partitions": "partition"}.get(name, name).replace("_", "-")
            raise click.UsageError(f"--{option} is for {'a directory, not a table' if of_table else 'a table'}")


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _plan_directory(*, location: str | None, write_ids: str | None, output: str, **options: Any) -> None:
    if location is None or write_ids is None:
        raise click.UsageError("name a table, such as sales.orders, or give --location and --write-ids")
    planned = plan_directory(
        resolve_location(location), write_ids=ValidWriteIdList.parse(write_ids), request=request_of(**options)
    )
    click.echo(json.dumps(plan_json(planned)) if output == "json" else plan_text(planned))


def _ref(table: str) -> TableRef:
    database, dot, name = table.partition(".")
    if not (database and dot and name) or "." in name:
        raise click.UsageError(f"{table!r}: write DATABASE.TABLE, such as sales.orders")
    return TableRef(database=database, name=name)


def _plan_table(path: Path, asked: "_Asked") -> None:
    from compaction_operator.driver.live import obstacles, plan_table  # noqa: PLC0415 - the metastore's client
    from compaction_operator.metastore import MetastoreClient  # noqa: PLC0415 - so is this

    config = load(path)
    known = chosen(config, asked.warehouse, path)
    if len(known) > 1:
        raise ValueError(f"--warehouse: name one of {', '.join(one.name for one in known)}")
    os.environ[STORES_VARIABLE] = known[0].stores.model_dump_json(by_alias=True)
    question = asked.question(known[0], root=config.volume_root(known[0]))
    with MetastoreClient(known[0].metastore) as client:
        table, found = plan_table(client, question)
        for note in obstacles(client, question, table):
            click.echo(f"now kept out: {note}", err=True)
        if asked.output == "json":
            print_json([_json(one) for one in found])
            return
        for one in found:
            click.secho(one.partition or str(asked.table), bold=True)
            click.echo("\n".join(f"  {line}" for line in _text(one).splitlines()))


def _json(one: "PartitionPlan") -> dict[str, Any]:
    return {"partition": one.partition, **({"problem": one.problem} if one.planned is None else plan_json(one.planned))}


def _text(one: "PartitionPlan") -> str:
    return f"refused   {one.problem}" if one.planned is None else plan_text(one.planned)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What is asked about a table."""

    table: TableRef
    kind: str
    partitions: tuple[str, ...]
    warehouse: str | None
    task_memory: int
    output: str

    def again(self) -> list[str]:
        """Return the arguments with which the same is asked in the controller's pod."""
        more = [part for spec in self.partitions for part in ("--partition", spec)]
        more += ["--warehouse", self.warehouse] if self.warehouse else []
        memory = format_size(self.task_memory)
        return ["plan", str(self.table), "--type", self.kind, "--task-memory", memory, "--output", self.output, *more]

    def question(self, warehouse: Warehouse, *, root: str) -> "Question":
        """Return it for the planner."""
        from compaction_operator.driver.live import Question  # noqa: PLC0415 - the metastore's client

        type_ = CompactionType(self.kind.capitalize())
        return Question(warehouse, self.table, type_, self.partitions, root=root, task_memory=self.task_memory)
