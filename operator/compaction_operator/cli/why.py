"""The verb `why`: about a table it asks a running controller, about a resource it reads its status."""

from collections.abc import Iterator
from datetime import datetime

import click

from compaction_operator.api.cleanup import KIND as CLEANUP_KIND
from compaction_operator.api.compaction import KIND as COMPACTION_KIND
from compaction_operator.api.policy import KIND as POLICY_KIND
from compaction_operator.cli.options import (
    Named,
    ResourceName,
    context_option,
    operator_option,
    output_option,
    print_json,
    program,
)
from compaction_operator.cli.standing import Standing, standing
from compaction_operator.cli.terminal import age, pairs, printable
from compaction_operator.controller.kube.times import utc_now


class _Subject(ResourceName):
    """A resource as KIND/NAME, or a table."""

    name = "subject"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> "Named | str":  # type: ignore[override]
        """Return the resource, or the table as it was given."""
        return super().convert(value, param, ctx) if "/" in value else value


@click.command()
@click.argument(
    "subject",
    metavar="DATABASE.TABLE|KIND/NAME",
    type=_Subject(COMPACTION_KIND, CLEANUP_KIND, POLICY_KIND),
)
@click.option(
    "-n", "--namespace", help="Of a resource. Of a table: ask the policies of this namespace, by default all."
)
@click.option("--policy", help="Of a table: ask the policies of this name.")
@click.option("--warehouse", help="Of a table: ask the policies of this warehouse.")
@operator_option
@click.option("--url", help="Ask the controller at this address, such as http://localhost:8081, and no API server.")
@context_option
@output_option
def why(
    subject: Named | str,
    *,
    namespace: str | None,
    operator: str,
    url: str | None,
    context: str | None,
    output: str,
    **which: str | None,
) -> None:
    """Say why a resource waits or failed, or a table was (not) picked.

    ccl/NAME and tcomp/NAME: whom it waits for and since when. DATABASE.TABLE: what each policy decided at its last
    look.
    """
    if isinstance(subject, str):
        _why_table(
            {"table": subject, "namespace": namespace, **which},
            operator=operator,
            url=url,
            context=context,
            output=output,
        )
        return
    if given := [name for name, value in {"url": url, **which}.items() if value is not None]:
        raise click.UsageError(f"--{given[0]} is for a table, not for {subject.kind}s")
    from compaction_operator.cli.cluster import Cluster, read_one  # noqa: PLC0415 - Kubernetes

    known, _ = read_one(Cluster(context), subject.kind, namespace=namespace, name=subject.name)
    found = standing(known, program(), asked=operator, context=context)
    if output == "json":
        print_json(found.to_json())
        return
    for line in lines(found, utc_now()):
        click.echo(line)


def _why_table(
    query: dict[str, str | None], *, operator: str, url: str | None, context: str | None, output: str
) -> None:
    from compaction_operator.controller.kube.ask import ask  # noqa: PLC0415 - Kubernetes
    from compaction_operator.policy.text import lines_of  # noqa: PLC0415 - a table's

    given = {name: value for name, value in query.items() if value is not None}
    answers = ask(given, operator=operator, url=url, context=context)
    if output == "json":
        print_json([one.to_json() for one in answers])
        return
    for line in lines_of(answers):
        click.echo(line)


def lines(found: Standing, now: datetime) -> Iterator[str]:
    """Yield what a status says of a resource, with what to do."""
    of = f" of {found.table}" if found.table else ""
    place = f"{found.namespace}/{found.resource}{of} (warehouse {found.warehouse})"
    yield f"{place}: {found.state.lower()} ({found.reason})"
    if found.message:
        yield f"  {printable(found.message)}"
    yield from pairs(_details(found, now))


def _details(found: Standing, now: datetime) -> Iterator[tuple[str, str]]:
    yield "since", f"{found.since}, {age(found.since, now)} ago"
    for who in found.waits_for:
        yield "waits for", who
    if more := found.waits_for_count - len(found.waits_for):
        yield "waits for", f"and {more} more"
    if found.progress:
        yield "progress", found.progress
    if found.attempt:
        yield "attempt", str(found.attempt)
    if found.next_attempt:
        yield "next attempt", found.next_attempt
    if found.overdue:
        yield "overdue", found.overdue
    if found.operator:
        yield "handled by", f"the operator of namespace {found.operator}"
    for name in found.cleanups:
        yield "cleanups", f"ccl/{name}"
    for step in found.steps:
        yield "what to do", step
