"""Survey: a look at a warehouse for one policy. It lists only the tables that have changed since the last look.

Of Hive's calls it makes two for the names of all tables, one for the transactions, one for the write ids of each 500
tables, and a few for each table that has changed. Hudi tables are looked at in turns (`Timelines`).
"""

import logging
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from compaction_operator.acid.listing import Listing
from compaction_operator.acid.snapshot import NotEnoughHistory, UnsupportedLayout
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.config import Warehouse
from compaction_operator.api.policy import CompactionPolicySpec
from compaction_operator.cleanup.identity import volume_of
from compaction_operator.cleanup.places import require_allowed, require_reachable
from compaction_operator.controller.problems import opted_out_problem, problem_of, unread
from compaction_operator.controller.timelines import SAME_TABLE, Timelines
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
from compaction_operator.policy.memory import (
    LeftAlone,
    Memory,
    PartitionState,
    Problem,
    Round,
    TableState,
    remembered,
    stale,
)
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
PARTITIONS_OF_TABLE = 5_000
PARTITIONS_AT_ONCE = 20_000
"""Partitions to list in one look: of one table, and after how many no other table follows. What is left of a table
comes with the next looks (`Round`)."""
EXTERNAL_AT_ONCE = 2_000
EXTERNAL_AGAIN = timedelta(hours=1)
"""How many external tables one look reads to find Hudi tables among them, and when it reads them again."""

UNREADABLE = (UnsupportedLayout, NotEnoughHistory)


@dataclass(frozen=True)
class Surveyor:
    """One look: the metastore and the stores of a warehouse, the policy's spec, and the time.

    `silent` are the stores that did not answer in this look: they are not asked again. `unanswered` are the tables in a
    row for which the metastore did not answer. `databases` has the properties of those asked for in this look, and
    `read` how many partitions of each table were listed.
    """

    client: MetastoreClient
    open_storage: Callable[[str], Storage]
    warehouse: Warehouse
    spec: CompactionPolicySpec
    now: datetime
    silent: set[int] = field(default_factory=set)
    unanswered: list[str] = field(default_factory=list)
    databases: dict[str, Mapping[str, str]] = field(default_factory=dict)
    read: Counter[str] = field(default_factory=Counter)

    def look(self, memory: Memory, ended: Mapping[str, datetime], due: Iterable[str]) -> Memory:
        """Return the memory after a look; the given one stays as it is.

        `ended` is when the last compaction or cleanup of a table ended. The properties of the tables in `due` are read
        again, so that their owner's last word counts.
        Raises MetastoreError if a call that is not about one table fails, or MetastoreUnavailable if the metastore does
        not answer for two tables in a row: one alone may be the cause.
        """
        managed, external = self._names(self.client.managed_tables()), self._names(self.client.external_tables())
        txns = self.client.valid_txns()
        ids = self.client.valid_write_ids_of(managed, valid_txns=txns)
        known = {name: memory.tables[name] for name in (*managed, *external) if name in memory.tables}
        timelines = self._first([name for name, state in known.items() if state.place is not None], known)
        hive = (name for name in managed if name not in known or known[name].place is None)
        changed = [name for name in hive if stale(known.get(name), str(ids[name]), ended, name)]
        first, waiting = self._first(changed, known), {name for name in due if name in known}
        unknown = self._unknown(external, known, memory.external)
        tables = self._tables(waiting.union(first, timelines, unknown))
        hudi = self._look_at_hudi(timelines, tables, known)
        listed = self._look_at_hive([name for name in first if name not in hudi], tables, ids, txns, known)
        for name in (waiting & tables.keys()).difference(hudi, listed):
            if isinstance(table := tables[name], Table):
                known[name] = self._owners_word(known[name], table)
        others = _no_hudi(external, unknown, tables, memory.external, self.now)
        unread = {name for name in {*changed} - listed - (hudi & known.keys()) if not _waits(known.get(name))}
        unread.update({*external} - known.keys() - others.keys())
        return replace(
            memory, tables=known, external=others, unread=frozenset(unread), matched=len(known.keys() | set(managed))
        )

    def _look_at_hive(
        self,
        names: Sequence[str],
        tables: Mapping[str, Table | MetastoreError],
        ids: Mapping[str, ValidWriteIdList],
        txns: ValidTxnList,
        known: dict[str, TableState],
    ) -> set[str]:
        """List the named tables, as many as one look lists; return which, with their states in `known`."""
        listed = set[str]()
        for name in names:
            if self.read.total() < PARTITIONS_AT_ONCE:
                known[name] = self._state(name, tables.get(name), ids[name], txns, known.get(name))
                listed.add(name)
        return listed

    def _look_at_hudi(
        self, timelines: Sequence[str], tables: Mapping[str, Table | MetastoreError], known: dict[str, TableState]
    ) -> set[str]:
        """Read the timelines of the Hudi tables among some, as many as one look reads; return which tables these are.

        `timelines` are those that were Hudi tables at an earlier look. What is none any more is forgotten.
        """
        owners = {state.place: name for name, state in known.items() if state.place and not _is_alias(state)}
        look = Timelines(self.open_storage, self.warehouse, self.spec, self.now, owners, self.silent)
        found = sorted(name for name, table in tables.items() if isinstance(table, Table) and table.is_hudi)
        for name in self._first(found, known):
            if isinstance(table := tables[name], Table) and not look.has_read_enough:
                known[name] = look.state(name, table, known.get(name))
        for name in timelines:
            if name not in found and not isinstance(tables.get(name), MetastoreError):
                del known[name]
        return set(found)

    def _unknown(
        self, external: Sequence[str], known: Mapping[str, TableState], others: Mapping[str, datetime]
    ) -> list[str]:
        """Return external tables that may be Hudi tables, as many as one look reads: new ones, and old ones again."""
        old = self.now - EXTERNAL_AGAIN
        checked = {name: others[name] for name in external if name in others and others[name] <= old}
        new = [name for name in external if name not in known and name not in others]
        return [*new, *sorted(checked, key=checked.__getitem__)][:EXTERNAL_AT_ONCE]

    def _names(self, found: Collection[tuple[str, str]]) -> list[str]:
        """Return those of some tables (database, name) that the policy is about."""
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
            return replace(state, problem=opted_out_problem(state.name), version="")
        try:
            thresholds, weight = overridden(self.spec.thresholds, table.parameters), weight_of(table.parameters)
            return replace(state, thresholds=thresholds, weight=weight)
        except ThresholdError as error:
            return replace(state, problem=problem_of(state.name, error), version="")

    def _state(
        self,
        name: str,
        table: Table | MetastoreError | None,
        ids: ValidWriteIdList,
        txns: ValidTxnList,
        old: TableState | None,
    ) -> TableState:
        state = TableState(name, str(ids), self.now)
        if table is None:
            return replace(state, problem=Problem("TableNotFound", f"table {name} is gone", passing=True))
        if isinstance(table, MetastoreError):
            return unread(state, old, problem_of(name, table))
        if opted_out(table.parameters):
            return replace(state, problem=opted_out_problem(name))
        got = self._asked(name, partial(self._measured, state, table, ids, txns, old))
        return unread(state, old, problem_of(name, got)) if isinstance(got, MetastoreError) else got

    def _measured(
        self, state: TableState, table: Table, ids: ValidWriteIdList, txns: ValidTxnList, old: TableState | None
    ) -> TableState:
        try:
            thresholds, weight = overridden(self.spec.thresholds, table.parameters), weight_of(table.parameters)
            self._require_fit(table)
            listed = self._listed(state, table, ids, txns, old)
        except (ThresholdError, Refused, StorageError) as error:
            return unread(state, old, problem_of(state.name, error))
        return replace(listed, keys=table.partition_keys, thresholds=thresholds, weight=weight)

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

    def _listed(
        self, state: TableState, table: Table, ids: ValidWriteIdList, txns: ValidTxnList, old: TableState | None
    ) -> TableState:
        """Return a table's state after its partitions were listed, or as many of them as one look lists.

        Raises StorageError if the store does not answer for one.
        """
        names = sorted(self.client.get_partition_names(table.database, table.name)) if table.partition_keys else [""]
        earlier = old.round if old else None
        left = names[bisect_right(names, earlier.last) :] if earlier else names
        chosen = left[:PARTITIONS_OF_TABLE]
        self.read[state.name] += len(chosen)
        before = {one.name: one for one in old.partitions} if old else {}
        found, left_alone = self._partitions(table, chosen, ids, txns, before)
        kept = (before[name] for name in set(names).difference(chosen) & before.keys())
        left_alone = _together(earlier.left_alone if earlier else None, left_alone)
        state = replace(state, partitions=(*found, *kept), left_alone=left_alone)
        if len(chosen) < len(left):
            return _to_go_on(state, old, last=chosen[-1], read=len(names) - len(left) + len(chosen), total=len(names))
        return replace(state, version=earlier.version, looked=earlier.began) if earlier else state

    def _partitions(
        self,
        table: Table,
        names: Sequence[str],
        ids: ValidWriteIdList,
        txns: ValidTxnList,
        before: Mapping[str, PartitionState],
    ) -> tuple[list[PartitionState], LeftAlone | None]:
        """Return those of the named partitions that have something to merge, and those that are left alone."""
        found, left_alone = list[PartitionState](), None
        for one, listed in self._listings(table, names):
            try:
                got = measure(_listing(listed), ids, txns, small=self.spec.thresholds.small_file_size)
            except UNREADABLE as error:
                log.info("partition %r of %s.%s is left alone: %s", one.name, table.database, table.name, error)
                left_alone = _together(left_alone, LeftAlone(1, one.name, str(error)))
                continue
            if kept := remembered(one.name, one.create_time, got, earlier=before.get(one.name), now=self.now):
                found.append(kept)
        return found, left_alone

    def _listings(self, table: Table, names: Sequence[str]) -> Iterator[tuple[Partition, Listed]]:
        """Yield partitions with their listings, store by store. One that lies elsewhere is not listed."""
        if table.partition_keys:
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


def _is_alias(state: TableState) -> bool:
    return state.problem is not None and state.problem.reason == SAME_TABLE


def _no_hudi(
    external: Iterable[str],
    read: Iterable[str],
    tables: Mapping[str, Table | MetastoreError],
    before: Mapping[str, datetime],
    now: datetime,
) -> dict[str, datetime]:
    """Return the external tables that are no Hudi tables, by when this was read. One that cannot be read is none."""
    known = {name: before[name] for name in external if name in before} | dict.fromkeys(read, now)
    hudi = {name for name, table in tables.items() if isinstance(table, Table) and table.is_hudi}
    return {name: at for name, at in known.items() if name not in hudi}


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


def _to_go_on(state: TableState, old: TableState | None, *, last: str, read: int, total: int) -> TableState:
    """Return the state of a table after `read` of its `total` partitions were listed, in order up to `last`."""
    version, began = (old.round.version, old.round.began) if old and old.round else (state.version, state.looked)
    going_on = Round(version, began, last, read, total, state.left_alone)
    version, looked = (old.version, old.looked) if old else ("", state.looked)
    return replace(state, version=version, looked=looked, round=going_on)


def _together(some: LeftAlone | None, more: LeftAlone | None) -> LeftAlone | None:
    return replace(more, count=more.count + some.count) if some and more else some or more
