"""The verb `history`: what receipts say."""

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from compaction_operator.cli.configured import load
from compaction_operator.receipts import Head, about, rows, stored, verify
from compaction_operator.storage import Storage, open_storage, resolve_location


@click.command()
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
    """Show what was compacted and deleted, from the receipts.

    In all tables, or in the one that is named as database.name.
    """
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
    from compaction_operator.controller.work import opener  # noqa: PLC0415 - kopf is the controller's

    known = load(Path(config))
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
