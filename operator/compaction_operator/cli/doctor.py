"""The verb `doctor`: it checks what the operator needs, where its configuration is."""

import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType

import click
from pydantic import TypeAdapter, ValidationError

from compaction_operator.api.config import OperatorConfig
from compaction_operator.cli.configured import NotRunInPodError, alone_in_pod, chosen, load, local_file, run_in_pod
from compaction_operator.cli.findings import Finding, Level, Report, Subject
from compaction_operator.cli.options import context_option, operator_option, output_option, print_json

COLOURS = {Level.OK: "green", Level.INFO: "cyan", Level.WARNING: "yellow", Level.FAILED: "red"}
_WIDTH = max(map(len, Level)) + 2
_FINDINGS = TypeAdapter(tuple[Finding, ...])


@click.command()
@click.option("--config", type=click.Path(dir_okay=False), help="Check by this configuration (YAML), from here.")
@click.option("--warehouse", help="Check this warehouse only.")
@operator_option
@context_option
@output_option
def doctor(config: str | None, *, warehouse: str | None, operator: str, context: str | None, output: str) -> None:
    """Check metastore, storage, settings, rights and namespaces of each warehouse.

    Without --config it runs in the controller's pod, by kubectl exec. It takes a shared lock in each metastore, writes
    a hidden folder into each folder of tables, and removes both. Exit code 1: a check failed.
    """
    local = local_file(config)
    found = _here(local, warehouse, context) if local else _in_pod(operator, warehouse, context)
    shown = []
    for title, group in groupby(found, key=lambda one: one.warehouse):
        if output == "text":
            click.secho(f"warehouse {title}" if title else "all warehouses", bold=True)
        for one in group:
            shown.append(one)
            if output == "text":
                click.echo("\n".join(lines(one)))
    if output == "json":
        print_json([one.to_json() for one in shown])
    else:
        click.echo(summary(shown))
    if any(one.level is Level.FAILED for one in shown):
        sys.exit(1)


def lines(found: Finding) -> Iterator[str]:
    """Yield a finding's lines."""
    level = click.style(f"{found.level:{_WIDTH}}", fg=COLOURS[found.level])
    yield f"  {level}{found.subject:11}{found.message}"
    if found.change:
        yield f"  {'':{_WIDTH}}{'change':11}{found.change}"


def summary(shown: Iterable[Finding]) -> str:
    """Return how many checks ended how."""
    counts = Counter(one.level for one in shown)
    return ", ".join(f"{counts[level]} {level}" for level in reversed(Level))


def _here(path: Path, only: str | None, context: str | None) -> Iterator[Finding]:
    """Yield the findings of this process. Raises ValueError, naming the file, for a configuration that is unusable.

    Raises BusyError, before it loads anything large.
    """
    with _ended_by_sigterm(), alone_in_pod(path):
        from compaction_operator.cli.metastore_checks import check_metastores  # noqa: PLC0415 - the metastore's client
        from compaction_operator.cli.storage_checks import check_storage  # noqa: PLC0415 - the stores
        from compaction_operator.controller.work import opener  # noqa: PLC0415 - kopf is the controller's

        config = load(path)
        warehouses = chosen(config, only, path)
        for warehouse in warehouses:
            yield from check_metastores(warehouse)
            yield from check_storage(warehouse, opener(config, warehouse))
        yield from _in_cluster(config.model_copy(update={"warehouses": warehouses}), context)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end a check as an interruption does: its lock is released, and its folder removed. Exit code 143."""

    def end(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one must not end the release
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _in_cluster(config: OperatorConfig, context: str | None) -> Iterator[Finding]:
    from compaction_operator.cli.cluster import Cluster  # noqa: PLC0415 - Kubernetes
    from compaction_operator.cli.right_checks import check_rights  # noqa: PLC0415 - so is this
    from compaction_operator.cli.tenant_checks import check_tenants  # noqa: PLC0415 - and this
    from compaction_operator.controller.kube.client import KubeError  # noqa: PLC0415 - and this

    try:
        cluster = Cluster(context)
        yield from check_rights(cluster, config)
        yield from check_tenants(cluster, config)
    except KubeError as error:
        change = "run it in the controller's pod, whose account is meant"
        yield Report(Subject.RIGHTS).found(Level.WARNING, f"not checked: {error}", change)


def _in_pod(operator: str, only: str | None, context: str | None) -> Sequence[Finding]:
    """Return the findings of this program in the controller's pod. Raises NotRunInPodError."""
    arguments = ["doctor", "--json", *(("--warehouse", only) if only else ())]
    done = run_in_pod(arguments, operator=operator, context=context, capture=True)
    try:
        return _FINDINGS.validate_json(done.stdout)
    except ValidationError as error:
        said = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise NotRunInPodError(f"kubectl exec in {operator} answered: {said}") from error
