"""Survey: a look at a warehouse for one policy. It lists only the tables that have changed since the last look.

Of Hive's calls it makes one for the names of all tables, one for the transactions, one for the write ids of each 500
tables, and a few for each table that has changed.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from compaction_operator.acid.listing import Listing
from compaction_operator.acid.snapshot import NotEnoughHistory, UnsupportedLayout
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.config import Warehouse
from compaction_operator.api.policy import CompactionPolicySpec
from compaction_operator.cleanup.identity import volume_of
from compaction_operator.cleanup.places import require_allowed, require_reachable
from compaction_operator.metastore import (
    MetastoreClient,
    MetastoreError,
    MetastoreUnavailable,
    Partition,
    Refused,
    Table,
    require_compactable,
    require_complete,
    require_one_compactor,
)
from compaction_operator.policy.measure import measure
from compaction_operator.policy.memory import LeftAlone, Memory, PartitionState, Problem, TableState, remembered, stale
from compaction_operator.policy.ranking import weight_of
from compaction_operator.policy.selection import opted_out, selected
from compaction_operator.policy.thresholds import ThresholdError, overridden
from compaction_operator.storage import Listed, NotFoundError, Storage, StorageError, is_passing

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

LISTED_TOGETHER = 500
"""Partitions of a table whose listings are in memory at a time: a listing is much larger than what is kept of it."""
LISTED_AT_ONCE = 200
"""Tables to list in one look. After a restart all have changed: the others come with the next looks, one at a time."""

UNREADABLE = (UnsupportedLayout, NotEnoughHistory)


@dataclass(frozen=True)
class Surveyor:
    """One look: the metastore and the stores of a warehouse, the policy's spec, and the time.

    `silent` are the stores that did not answer in this look: they are not asked again. `unanswered` are the tables in a
    row for which the metastore did not answer. `databases` has the properties of those asked for in this look.
    """

    client: MetastoreClient
    open_storage: Callable[[str], Storage]
    warehouse: Warehouse
    spec: CompactionPolicySpec
    now: datetime
    silent: set[int] = field(default_factory=set)
    unanswered: list[str] = field(default_factory=list)
    databases: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def look(self, memory: Memory, ended: Mapping[str, datetime], due: Iterable[str]) -> Memory:
        """Return the memory after a look; the given one stays as it is.

        `ended` is when the last compaction of a table ended. The properties of the tables in `due` are read again, so
        that their owner's last word counts.
        Raises MetastoreError if a call that is not about one table fails, or MetastoreUnavailable if the metastore does
        not answer for two tables in a row: one alone may be the cause.
        """
        names = self._names()
        txns = self.client.valid_txns()
        ids = self.client.valid_write_ids_of(names, valid_txns=txns)
        known = {name: memory.tables[name] for name in names if name in memory.tables}
        changed = [name for name in names if stale(known.get(name), str(ids[name]), ended, name)]
        listed = set(self._first(changed, known))
        tables = self._tables(listed.union(set(due) & known.keys()))
        for name in listed:
            known[name] = self._state(name, tables.get(name), ids[name], txns, known.get(name))
        for name in tables.keys() - listed:
            if isinstance(table := tables[name], Table):
                known[name] = self._owners_word(known[name], table)
        unread = frozenset(name for name in changed if name not in listed and not _waits(known.get(name)))
        return replace(memory, tables=known, unread=unread, matched=len(names))

    def _names(self) -> list[str]:
        found = self.client.managed_tables()
        allowed = {database for database in {one for one, _ in found} if self.warehouse.allows_database(database)}
        return list(selected((one for one in found if one[0] in allowed), self.spec.tables))

    def _first(self, changed: Sequence[str], known: Mapping[str, TableState]) -> list[str]:
        """Return the changed tables to list now: those never listed first, then those listed longest ago."""
        by_age = sorted(changed, key=lambda name: known[name].looked.timestamp() if name in known else 0.0)
        return by_age[:LISTED_AT_ONCE]

    def _tables(self, names: Iterable[str]) -> dict[str, Table | MetastoreError]:
        by_database: defaultdict[str, list[str]] = defaultdict(list)
        for name in names:
            database, _, table = name.partition(".")
            by_database[database].append(table)
        found: dict[str, Table | MetastoreError] = {}
        for database, tables in sorted(by_database.items()):
            found.update(self._of_database(database, sorted(tables)))
        return found

    def _of_database(self, database: str, names: Sequence[str]) -> dict[str, Table | MetastoreError]:
        """Return tables by name. If they cannot be read together, each is read alone, or has its own error."""
        try:
            return {f"{database}.{one.name}": one for one in self.client.get_tables(database, names)}
        except MetastoreError as error:
            log.warning("tables of %s are read one by one: %s", database, error)
        found: dict[str, Table | MetastoreError] = {}
        for name in names:
            table = f"{database}.{name}"
            got = self._asked(table, partial(self.client.get_tables, database, [name]))
            found.update([(table, got)] if isinstance(got, MetastoreError) else ((table, one) for one in got))
        return found

    def _asked(self, table: str, ask: Callable[[], Answer]) -> Answer | MetastoreError:
        """Return what comes of questions about one table, or the metastore's error.

        Raises MetastoreUnavailable if it does not answer for two tables in a row: one alone may be the cause.
        """
        found: Answer | MetastoreError
        try:
            found = ask()
        except MetastoreUnavailable as error:
            if self.unanswered:
                raise
            self.unanswered.append(table)
            return error
        except MetastoreError as error:
            found = error
        self.unanswered.clear()
        return found

    def _owners_word(self, state: TableState, table: Table) -> TableState:
        """Return the state of a due table that was not listed again, with what its properties say now."""
        if opted_out(table.parameters):
            return replace(state, problem=_opted_out(state.name), write_ids="")
        try:
            thresholds, weight = overridden(self.spec.thresholds, table.parameters), weight_of(table.parameters)
            return replace(state, thresholds=thresholds, weight=weight)
        except ThresholdError as error:
            return replace(state, problem=_problem(state.name, error), write_ids="")

    def _state(
        self,
        name: str,
        table: Table | MetastoreError | None,
        ids: ValidWriteIdList,
        txns: ValidTxnList,
        old: TableState | None,
    ) -> TableState:
        changed = old.changed if old and old.write_ids == str(ids) else self.now
        state = TableState(name, str(ids), changed, self.now)
        if table is None:
            return replace(state, problem=Problem("TableNotFound", f"table {name} is gone", passing=True))
        if isinstance(table, MetastoreError):
            return _unread(state, old, _problem(name, table))
        if opted_out(table.parameters):
            return replace(state, problem=_opted_out(name))
        got = self._asked(name, partial(self._measured, state, table, ids, txns, old))
        return _unread(state, old, _problem(name, got)) if isinstance(got, MetastoreError) else got

    def _measured(
        self, state: TableState, table: Table, ids: ValidWriteIdList, txns: ValidTxnList, old: TableState | None
    ) -> TableState:
        try:
            thresholds, weight = overridden(self.spec.thresholds, table.parameters), weight_of(table.parameters)
            self._require_fit(table)
            parts, left_alone = self._partitions(table, ids, txns, old)
        except (ThresholdError, Refused, StorageError) as error:
            return _unread(state, old, _problem(state.name, error))
        state = replace(state, keys=table.partition_keys, thresholds=thresholds, weight=weight)
        return replace(state, partitions=parts, left_alone=left_alone)

    def _require_fit(self, table: Table) -> None:
        """Raise Refused for a table that a compaction's preflight would refuse: no compaction is made for it."""
        require_compactable(table)
        require_complete(table, self._database(table.database))
        require_reachable(table, self.warehouse)
        require_allowed(table, self.warehouse)
        require_one_compactor(self.client, table, allowed=self.spec.template.allow_auto_compaction)

    def _database(self, name: str) -> Mapping[str, str]:
        if name not in self.databases:
            self.databases[name] = self.client.get_database(name)
        return self.databases[name]

    def _partitions(
        self, table: Table, ids: ValidWriteIdList, txns: ValidTxnList, old: TableState | None
    ) -> tuple[tuple[PartitionState, ...], LeftAlone | None]:
        """Return the partitions that have something to merge, and those that are left alone.

        Raises StorageError if the store does not answer for one: what is half known is not decided on.
        """
        before = {one.name: one for one in old.partitions} if old else {}
        found, left_alone = [], None
        for one, listed in self._listed(table):
            try:
                got = measure(_listing(listed), ids, txns)
            except UNREADABLE as error:
                log.info("partition %r of %s.%s is left alone: %s", one.name, table.database, table.name, error)
                left_alone = LeftAlone(left_alone.count + 1 if left_alone else 1, one.name, str(error))
                continue
            found.append(remembered(one.name, one.create_time, got, earlier=before.get(one.name), now=self.now))
        return tuple(one for one in found if one is not None), left_alone

    def _listed(self, table: Table) -> Iterator[tuple[Partition, Listed]]:
        """Yield the partitions with their listings, store by store. One that lies elsewhere is not listed."""
        if table.partition_keys:
            names = self.client.get_partition_names(table.database, table.name)
            parts: Sequence[Partition] = self.client.get_partitions(table.database, table.name, names)
        else:
            parts = [Partition("", (), table.location, table.create_time)]
        for start in range(0, len(parts), LISTED_TOGETHER):
            yield from self._listed_together(table, parts[start : start + LISTED_TOGETHER])

    def _listed_together(self, table: Table, parts: Sequence[Partition]) -> Iterator[tuple[Partition, Listed]]:
        by_store: dict[int, tuple[Storage, list[Partition]]] = {}
        for one in parts:
            if refused := self._refusal(table, one):
                yield one, StorageError(str(refused))
                continue
            storage = self.open_storage(one.location)
            by_store.setdefault(id(storage), (storage, []))[1].append(one)
        for number, (storage, there) in by_store.items():
            if number in self.silent:
                raise StorageError("its store did not answer in this look", passing=True)
            listings = storage.list_partitions([one.location for one in there])
            if any(isinstance(one, StorageError) and is_passing(one) for one in listings.values()):
                self.silent.add(number)
            if any(isinstance(one, NotFoundError) for one in listings.values()):
                _require_volume(storage, table, there)
            yield from ((one, listings[one.location]) for one in there)

    def _refusal(self, table: Table, one: Partition) -> Refused | None:
        """Return why the warehouse does not allow a partition where it lies: its compaction would be refused."""
        try:
            require_allowed(replace(table, location=one.location), self.warehouse)
        except Refused as refused:
            return refused
        return None


def _waits(state: TableState | None) -> bool:
    """Whether a table could not be read at an earlier look: the next one at its usual time is soon enough."""
    return state is not None and state.problem is not None and state.problem.passing


def _listing(listed: Listed) -> Listing:
    """Return a listing. Raises UnsupportedLayout if there is none and never will be, StorageError if there may be.

    NB: what the system refuses today, such as a permission, it may allow tomorrow. A link stays one.
    """
    if isinstance(listed, Listing):
        return listed
    if is_passing(listed):
        raise listed
    if isinstance(listed, NotFoundError) or not isinstance(listed.__cause__, Exception):
        raise UnsupportedLayout(str(listed))
    if isinstance(listed.__cause__, NotADirectoryError):
        raise UnsupportedLayout(str(listed))
    raise StorageError(str(listed), passing=True) from listed


def _require_volume(storage: Storage, table: Table, parts: Sequence[Partition]) -> None:
    """Raise StorageError if what the content of partitions depends on is not there: they only seem to be empty."""
    for place in sorted({volume_of(one.location, table.location) for one in parts}):
        if not storage.exists(place):
            raise StorageError(f"{place} does not exist: is its volume there?", passing=True)


def _unread(state: TableState, old: TableState | None, problem: Problem) -> TableState:
    """Return a table that was not read. What it had is kept until it is: for how long aborted writes are known."""
    kept = old.partitions if old and problem.passing else ()
    return replace(state, problem=problem, partitions=kept)


def _opted_out(name: str) -> Problem:
    return Problem("OptedOut", f"table {name}: its property compaction.dev/policy is off")


def _problem(name: str, error: ThresholdError | Refused | StorageError | MetastoreError) -> Problem:
    if isinstance(error, Refused):
        return Problem(error.reason.value, str(error))
    if isinstance(error, ThresholdError):
        return Problem("InvalidProperty", f"table {name}: {error}")
    reason = "StorageUnavailable" if isinstance(error, StorageError) else "MetastoreError"
    return Problem(reason, f"table {name}: {error}", passing=True)
