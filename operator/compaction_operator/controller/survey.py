"""Survey: a look at a warehouse for one policy. It lists only the tables that have changed since the last look.

Of Hive's calls it makes one for the names of all tables, one for the transactions, one for the write ids of each 500
tables, and a few for each table that has changed.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from compaction_operator.acid.listing import Listing
from compaction_operator.acid.snapshot import NotEnoughHistory, UnsupportedLayout
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.config import Warehouse
from compaction_operator.api.policy import CompactionPolicySpec
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
from compaction_operator.policy.memory import Memory, PartitionState, Problem, TableState, remembered, stale
from compaction_operator.policy.selection import opted_out, selected
from compaction_operator.policy.thresholds import ThresholdError, overridden
from compaction_operator.storage import Listed, Storage, StorageError, is_passing

log = logging.getLogger(__name__)

LISTED_AT_ONCE = 200
"""Tables to list in one look. After a restart all have changed: the others come with the next looks, one at a time."""

UNREADABLE = (UnsupportedLayout, NotEnoughHistory)


@dataclass(frozen=True)
class Surveyor:
    """One look: the metastore and the stores of a warehouse, the policy's spec, and the time.

    `silent` are the stores that did not answer in this look: they are not asked again. `databases` has the properties
    of those asked for in this look.
    """

    client: MetastoreClient
    open_storage: Callable[[str], Storage]
    warehouse: Warehouse
    spec: CompactionPolicySpec
    now: datetime
    silent: set[int] = field(default_factory=set)
    databases: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def look(self, memory: Memory, ended: Mapping[str, datetime], due: Iterable[str]) -> Memory:
        """Return the memory after a look; the given one stays as it is.

        `ended` is when the last compaction of a table ended. The properties of the tables in `due` are read again, so
        that their owner's last word counts.
        Raises MetastoreError if a call that is not about one table fails.
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
            known[name] = self._owners_word(known[name], tables[name])
        unread = [name for name in changed if name not in listed and not _waits(known.get(name))]
        return replace(memory, tables=known, unread=len(unread), matched=len(names))

    def _names(self) -> list[str]:
        found = self.client.managed_tables()
        allowed = {database for database in {one for one, _ in found} if self.warehouse.allows_database(database)}
        return list(selected((one for one in found if one[0] in allowed), self.spec.tables))

    def _first(self, changed: Sequence[str], known: Mapping[str, TableState]) -> list[str]:
        """Return the changed tables to list now: those never listed first, then those listed longest ago."""
        by_age = sorted(changed, key=lambda name: known[name].looked.timestamp() if name in known else 0.0)
        return by_age[:LISTED_AT_ONCE]

    def _tables(self, names: Iterable[str]) -> dict[str, Table]:
        by_database: defaultdict[str, list[str]] = defaultdict(list)
        for name in names:
            database, _, table = name.partition(".")
            by_database[database].append(table)
        found = (self.client.get_tables(database, sorted(tables)) for database, tables in sorted(by_database.items()))
        return {f"{table.database}.{table.name}": table for tables in found for table in tables}

    def _owners_word(self, state: TableState, table: Table) -> TableState:
        """Return the state of a due table that was not listed again, with what its properties say now."""
        if opted_out(table.parameters):
            return replace(state, problem=_opted_out(state.name), write_ids="")
        try:
            return replace(state, thresholds=overridden(self.spec.thresholds, table.parameters))
        except ThresholdError as error:
            return replace(state, problem=_problem(state.name, error), write_ids="")

    def _state(
        self, name: str, table: Table | None, ids: ValidWriteIdList, txns: ValidTxnList, old: TableState | None
    ) -> TableState:
        changed = old.changed if old and old.write_ids == str(ids) else self.now
        state = TableState(name, str(ids), changed, self.now)
        if table is None:
            return replace(state, problem=Problem("TableNotFound", f"table {name} is gone", passing=True))
        if opted_out(table.parameters):
            return replace(state, problem=_opted_out(name))
        try:
            thresholds = overridden(self.spec.thresholds, table.parameters)
            self._require_fit(table)
            parts = self._partitions(table, ids, txns, old)
        except MetastoreUnavailable:
            raise
        except (ThresholdError, Refused, StorageError, MetastoreError) as error:
            return replace(state, problem=_problem(name, error))
        return replace(state, keys=table.partition_keys, thresholds=thresholds, partitions=parts)

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
    ) -> tuple[PartitionState, ...]:
        """Return the partitions that have something to merge; one that is not understood is left alone.

        Raises StorageError if the store does not answer for one: what is half known is not decided on.
        """
        before = {one.name: one for one in old.partitions} if old else {}
        found = []
        for one, listed in self._listed(table):
            try:
                got = measure(_listing(listed), ids, txns)
            except UNREADABLE as error:
                log.info("partition %r of %s.%s is left alone: %s", one.name, table.database, table.name, error)
                continue
            found.append(remembered(one.name, one.create_time, got, earlier=before.get(one.name), now=self.now))
        return tuple(one for one in found if one is not None)

    def _listed(self, table: Table) -> Iterator[tuple[Partition, Listed]]:
        """Yield the partitions that the warehouse allows with their listings, store by store."""
        if table.partition_keys:
            names = self.client.get_partition_names(table.database, table.name)
            parts: Sequence[Partition] = self.client.get_partitions(table.database, table.name, names)
        else:
            parts = [Partition("", (), table.location, table.create_time)]
        by_store: dict[int, tuple[Storage, list[Partition]]] = {}
        for one in parts:
            if self._is_allowed(table, one):
                storage = self.open_storage(one.location)
                by_store.setdefault(id(storage), (storage, []))[1].append(one)
        for number, (storage, there) in by_store.items():
            if number in self.silent:
                raise StorageError("its store did not answer in this look", passing=True)
            listings = storage.list_partitions([one.location for one in there])
            if any(isinstance(one, StorageError) and is_passing(one) for one in listings.values()):
                self.silent.add(number)
            yield from ((one, listings[one.location]) for one in there)

    def _is_allowed(self, table: Table, one: Partition) -> bool:
        """Whether a partition lies where the warehouse allows it; its compaction would be refused elsewhere."""
        try:
            require_allowed(replace(table, location=one.location), self.warehouse)
        except Refused:
            return False
        return True


def _waits(state: TableState | None) -> bool:
    """Whether a table could not be read at an earlier look: the next one at its usual time is soon enough."""
    return state is not None and state.problem is not None and state.problem.passing


def _listing(listed: Listed) -> Listing:
    """Return a listing. Raises UnsupportedLayout if there is none and never will be, StorageError if there may be."""
    if isinstance(listed, Listing):
        return listed
    if is_passing(listed):
        raise listed
    raise UnsupportedLayout(str(listed))


def _opted_out(name: str) -> Problem:
    return Problem("OptedOut", f"table {name}: its property compaction.dev/policy is off")


def _problem(name: str, error: ThresholdError | Refused | StorageError | MetastoreError) -> Problem:
    if isinstance(error, Refused):
        return Problem(error.reason.value, str(error))
    if isinstance(error, ThresholdError):
        return Problem("InvalidProperty", f"table {name}: {error}")
    reason = "StorageUnavailable" if isinstance(error, StorageError) else "MetastoreError"
    return Problem(reason, f"table {name}: {error}", passing=True)
