"""`python -m sandbox.playground` installs the operator and makes sample tables; `… sql` runs statements on them."""

import os
import readline  # noqa: F401 - gives `input` a history
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from compaction_operator.hudi import BUNDLES
from compaction_operator.metastore import MetastoreError
from sandbox.harness.cluster import CommandError
from sandbox.harness.settings import MOUNT, Settings, SettingsError, load
from sandbox.harness.stage import Stage, Warehouse
from sandbox.harness.tables import TABLE_TXN_001, TRY_IT
from sandbox.harness.wait import WaitTimeoutError
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import SmallTable
from sandbox.playground.client import SqlClient
from sandbox.playground.effects import StatementError

HIVE_TABLES = (
    ("default", TABLE_TXN_001, "table_txn_001"),
    ("default", TRY_IT, "try_it"),
    ("sales", TABLE_TXN_001, "returns"),
    ("sales", TRY_IT, "orders"),
)
"""The tables that the samples name, and two for the sample policy."""
HUDI_TABLE = f"{MOUNT}/lake/orders"
NEXT = """
The operator runs, and these are its tables: {tables}.
In another terminal, with the `export` line of `make sandbox-status`:
  make sql SQL="SELECT * FROM try_it"
  kubectl apply -n {namespace} -f manifests/samples/minor.yaml
  kubectl get tcomp,ccl -n {namespace} -w
A reader that holds up a cleanup: `make sql`, then BEGIN, then SELECT * FROM table_txn_001; COMMIT lets it go.
make sandbox-down ends all of it."""


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Install the operator on the running sandbox, and make sample tables that are not there yet."""
    try:
        context.obj = load()
        if context.invoked_subcommand is None:
            _prepare(context.obj)
    except (SettingsError, CommandError, WaitTimeoutError) as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.option("--user", default=os.environ.get("USER", "you"), show_default=True, help="whom the metastore sees")
@click.argument("statement", required=False)
@click.pass_obj
def sql(settings: Settings, user: str, statement: str | None) -> None:
    """Run STATEMENT, or each line of the standard input: SELECT, INSERT, UPDATE, DELETE, and BEGIN … COMMIT to read."""
    with Stage(settings).connect() as warehouse:
        client = SqlClient(warehouse, user)
        try:
            failed = [one for one in ([statement] if statement else _lines(user)) if not _run(client, one)]
        finally:
            client.close()
    if failed and (statement or not sys.stdin.isatty()):
        raise SystemExit(1)


def _lines(user: str) -> Iterator[str]:
    """Yield what a person types, with a prompt, or what a pipe brings."""
    if not sys.stdin.isatty():
        yield from filter(str.strip, sys.stdin)
        return
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            if line := input(f"{user}> ").strip():
                yield line


def _run(client: SqlClient, statement: str) -> bool:
    """Run a statement and print what it says; returns whether it succeeded."""
    try:
        for line in client.run(statement):
            click.echo(line)
    except (StatementError, MetastoreError, CommandError, WaitTimeoutError) as error:
        click.echo(f"error: {error}", err=True)
        return False
    return True


def _prepare(settings: Settings) -> None:
    stage = Stage(settings)
    click.echo("playground: the operator")
    stage.prepare()
    stage.operator.install(ui=True)
    with stage.connect() as warehouse:
        made = [*_hive_tables(warehouse), *_hudi_table(stage)]
    click.echo(NEXT.format(tables=", ".join(made), namespace=settings.namespace))


def _hive_tables(warehouse: Warehouse) -> list[str]:
    known = warehouse.admin.managed_tables()
    for database, fixture, name in HIVE_TABLES:
        if (database, name) not in known:
            click.echo(f"playground: table {database}.{name}")
            warehouse.writer.create(fixture, database=database, name=name)
    return [f"{database}.{name}" for database, _, name in HIVE_TABLES]


def _hudi_table(stage: Stage) -> list[str]:
    """Write the Hudi table of the samples, a base file and five log blocks, where the warehouse is a volume."""
    if stage.settings.storage != "file":
        return []
    if "lake" not in stage.toolbox.names(MOUNT):
        click.echo(f"playground: Hudi table {HUDI_TABLE}")
        with TemporaryDirectory() as folder, HudiSession(max(BUNDLES)) as session:
            table = SmallTable(session.spark, Path(folder, "orders"))
            for number in range(6):
                table.upsert(range(100 if number == 0 else 10), ts=number)
            stage.toolbox.put(HUDI_TABLE, table.location)
    return [HUDI_TABLE]


if __name__ == "__main__":
    main()
