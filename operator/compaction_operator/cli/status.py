"""The verb `status`: what runs and how far, what waits for whom, and what failed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import click

from compaction_operator.api.policy import KIND as POLICY_KIND
from compaction_operator.cli.options import context_option, output_option, print_json, program
from compaction_operator.cli.standing import Standing, State, standing, worth_a_line
from compaction_operator.cli.terminal import Cell, Row, age, table
from compaction_operator.controller.kube.times import utc_now

COLOURS = {State.RUNNING: "green", State.WAITING: "yellow", State.FAILED: "red"}
_HEADINGS = ("NAMESPACE", "RESOURCE", "TABLE", "TYPE", "REASON", "FOR", "PROGRESS")


@dataclass(frozen=True)
class Which:
    """Which resources are shown: those in some namespaces, and those of one table. Empty means all."""

    namespaces: tuple[str, ...] = ()
    table: str = ""

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> "Which":
        """Parse `NAMESPACE/`, `DATABASE.TABLE` and `NAMESPACE/DATABASE.TABLE`; a location is a Hudi table's name.

        Raises UsageError for anything else, and for two tables.
        """
        found = [(("", one) if _is_location(one) else _split(one)) for one in arguments]
        tables = {table for _, table in found if table}
        if len(tables) > 1:
            raise click.UsageError(f"{' and '.join(sorted(tables))}: name one table")
        return cls(tuple(dict.fromkeys(name for name, _ in found if name)), next(iter(tables), ""))

    def is_about(self, one: Standing) -> bool:
        """Whether a resource is shown."""
        return not self.table or one.table.lower() == self.table.lower()


def _is_location(text: str) -> bool:
    return text.startswith("/") or "://" in text


def _split(text: str) -> tuple[str, str]:
    namespace, slash, name = text.rpartition("/")
    if "/" in namespace or (name and "." not in name) or not (namespace or name) or (slash and not namespace):
        raise click.UsageError(f"{text!r}: write NAMESPACE/ or DATABASE.TABLE")
    return namespace, name


@click.command()
@click.argument("which", nargs=-1, metavar="[NAMESPACE/]... [DATABASE.TABLE]")
@click.option("-n", "--namespace", "namespaces", multiple=True, help="The same as NAMESPACE/; may be repeated.")
@context_option
@output_option
def status(which: tuple[str, ...], *, namespaces: tuple[str, ...], context: str | None, output: str) -> None:
    """Show what runs, what waits for whom, what failed, and what to do next.

    Without NAMESPACE/ it shows all namespaces, or your current one if you may list only that.
    """
    wanted = Which.parse((*(f"{name}/" for name in namespaces), *which))
    from compaction_operator.cli.cluster import Cluster, read_all  # noqa: PLC0415 - Kubernetes

    found = read_all(Cluster(context), wanted.namespaces)
    for note in found.notes:
        click.echo(note, err=True)
    every = (standing(resource, program(), context=context) for resource in found.resources)
    stands = [one for one in every if wanted.is_about(one)]
    if output == "json":
        print_json([one.to_json() for one in stands])
        return
    for line in lines(stands, utc_now()):
        click.echo(line)


def lines(stands: Iterable[Standing], now: datetime) -> Iterator[str]:
    """Yield a table for each state, with the message and the next steps below each row, and the counts of all."""
    known = tuple(stands)
    shown = sorted(worth_a_line(known), key=lambda one: (one.namespace, one.table, one.since))
    for state in (State.RUNNING, State.WAITING, State.FAILED):
        rows = [_row(one, now) for one in shown if one.state is state]
        if rows:
            yield click.style(state.upper(), fg=COLOURS[state], bold=True)
            yield from table(_HEADINGS, rows)
            yield ""
    yield _counts(known)


def _row(one: Standing, now: datetime) -> Row:
    texts = (one.namespace, one.resource, one.table, one.type)
    cells = (*map(Cell, texts), Cell(one.reason, COLOURS[one.state]), Cell(age(one.since, now)), Cell(_progress(one)))
    return Row(cells, tuple(_below(one)))


def _progress(one: Standing) -> str:
    attempt = f"attempt {one.attempt}" if one.attempt and one.attempt > 1 else ""
    return ", ".join(filter(None, (one.progress, attempt)))


def _below(one: Standing) -> Iterator[str]:
    if one.state is State.RUNNING:
        return
    yield one.message
    if one.overdue:
        yield click.style(f"overdue: {one.overdue}", fg="red")
    yield from (f"next: {step}" for step in one.steps)


def _counts(known: Sequence[Standing]) -> str:
    if not known:
        return "nothing to show"
    counts = Counter(one.state for one in known if one.kind != POLICY_KIND)
    return ", ".join(f"{counts[state]} {state.lower()}" for state in State)
