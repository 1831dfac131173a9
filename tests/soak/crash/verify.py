"""What must be true at the end of every run, whatever broke on the way."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compaction_operator.api.cleanup import PublishedState
from compaction_operator.api.compaction import Totals
from compaction_operator.api.model import Model
from compaction_operator.controller.kube.resources import Cleanup, Compaction
from compaction_operator.metastore import Generation, QueueState
from tests.integration.oracle.hive import OracleError, Row
from tests.soak.crash.table import Files, Snapshot, Table

_TXN = re.compile(r"_v[0-9]+")

Names = dict[str, frozenset[str]]


@dataclass(frozen=True)
class Before:
    """The table before its compaction."""

    rows: Mapping[str, list[Row]]
    files: Files


class Ideal(Model):
    """How a run ends in which nothing breaks: the names that are left (without transactions) and what was done."""

    names: Names
    totals: Totals | None


def normal(names: Names) -> Names:
    """Return the names without what differs from run to run."""
    return {place: frozenset(_TXN.sub("_v", name) for name in found) for place, found in names.items()}


def differences(
    table: Table, before: Before, compaction: Compaction, cleanups: Sequence[Cleanup], *, ideal: Ideal | None
) -> Iterator[str]:
    """Yield what is not as it should be, one line each. Without an ideal it is not held against one."""
    yield from _wrong_rows(table, table.now(), before)
    yield from wrongly_gone(table, before, cleanups)
    yield from hidden(table)
    yield from _obsolete(table)
    yield from left_behind(table)
    if ideal and normal(table.names()) != ideal.names:
        yield f"these names are left: {normal(table.names())}, not {ideal.names}"
    if ideal and compaction.status.totals != ideal.totals:
        yield f"the totals are {compaction.status.totals}, not {ideal.totals}"


def _wrong_rows(table: Table, snapshot: Snapshot, before: Before) -> Iterator[str]:
    for place, message in misread(table, snapshot, before.rows).items():
        yield f"a reader who comes at the end sees, in {place or 'the table'}: {message}"


def misread(table: Table, snapshot: Snapshot, expected: Mapping[str, list[Row]]) -> dict[str, str]:
    """Return what a snapshot sees wrongly, by place."""
    try:
        seen = table.rows(snapshot)
    except OracleError as error:
        return {"": str(error)}
    return {place: f"{rows}, not {expected[place]}" for place, rows in seen.items() if rows != expected[place]}


def wrongly_gone(table: Table, before: Before, cleanups: Sequence[Cleanup]) -> Iterator[str]:
    """Yield the files that are gone or changed, without those in directories that a published journal names."""
    after = table.files()
    gone = {path for path in before.files if path not in after}
    named = set(_obsolete_by_journals(cleanups))
    for path in sorted(gone):
        if directory_of(path, table) not in named:
            yield f"{path} is gone, and no journal that was published names its directory"
    for path in sorted(before.files.keys() - gone):
        if after[path] != before.files[path]:
            yield f"{path} has another content"


def hidden(table: Table) -> Iterator[str]:
    """Yield the names that readers skip: none may be left behind."""
    for place, names in table.names().items():
        found = sorted(name for name in names if name.startswith(("_", ".")))
        if found:
            yield f"left in {place or 'the table'}: {', '.join(found)}"


def _obsolete(table: Table) -> Iterator[str]:
    for place in table.places:
        state = table.state(place)
        if state.obsolete or state.aborted:
            yield f"Hive calls obsolete in {place or 'the table'}: {state.obsolete} {state.aborted}"


def _obsolete_by_journals(cleanups: Sequence[Cleanup]) -> Iterator[tuple[str, str]]:
    for cleanup in cleanups:
        states = {status.partition: status.state for status in cleanup.status.partitions}
        for entry in cleanup.spec.partitions:
            if states.get(entry.partition) is not PublishedState.NOT_PUBLISHED:
                yield from ((entry.partition, item.name) for item in entry.obsolete)


def directory_of(path: str, table: Table) -> tuple[str, str]:
    """Return the place of a file of the table, and the name in that place by which it is deleted."""
    place = next((place for place in table.partitions if path.startswith(f"{place}/")), "")
    return place, path.removeprefix(f"{place}/").partition("/")[0]


def left_behind(table: Table) -> Iterator[str]:
    """Yield what compactions left in the metastore: locks, transactions, entries of the queue."""
    yield from held(table)
    if table.admin.generation() is Generation.HIVE4:
        for entry in table.admin.compactions(table.database, table.name):
            if entry.is_open or entry.state is QueueState.READY_FOR_CLEANING:
                yield f"a queue entry is left: {entry}"


def held(table: Table) -> Iterator[str]:
    """Yield the locks on a table, and all open transactions."""
    for lock in table.admin.show_locks(table.database, table.name):
        yield f"a lock is left: {lock}"
    for txn in table.admin.open_transactions().open:
        yield f"a transaction is open: {txn}"
