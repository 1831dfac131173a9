"""Tables of several kinds, an entry of the queue for each, and how Hive's users see it end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from hmsclient.genthrift.hive_metastore import ttypes
from sandbox.harness.places import location_of
from sandbox.metastore.admin import FULL_ACID, MetastoreAdmin
from sandbox.metastore.server import MetastoreServer

from compaction_operator.metastore import QueueEntry, QueueState
from compaction_operator.metastore import hive4_calls as hive4
from tests.integration.metastore.fixture_table import FixtureTable, fixtures_of, make_table

POOL = "k8s"
MINOR, MAJOR, REBALANCE = ttypes.CompactionType.MINOR, ttypes.CompactionType.MAJOR, 3
INSERT_ONLY = {"transactional": "true", "transactional_properties": "insert_only"}
STEPS = (QueueState.INITIATED, QueueState.WORKING, QueueState.READY_FOR_CLEANING)


@dataclass(frozen=True)
class Kind:
    """A table by its fixture, what is asked for, and how the entry ends.

    With `error` the entry is refused with it. `deltas` are how many of an unpartitioned table's three deltas are there.
    """

    fixture: str
    type: int
    partition: str | None = None
    error: str = ""
    parameters: dict[str, str] | None = None
    deltas: int = 3

    @property
    def place(self) -> str:
        """The directory that is compacted."""
        return self.partition or ""

    @property
    def names(self) -> list[str]:
        """What real Hive's Worker published there, without its transaction."""
        root = fixtures_of("4.0.1") / self.fixture
        after = root / ("after-major" if self.type == MAJOR else "after-minor") / self.place
        before = {path.name for path in (root / "before" / self.place).iterdir()}
        return sorted(path.name.rpartition("_v")[0] for path in after.iterdir() if path.name not in before)


KINDS = {
    "major": Kind("table_txn_001", MAJOR),
    "minor": Kind("table_txn_001", MINOR),
    "partition": Kind("try_it", MAJOR, "prt=p1"),
    "nothing to do": Kind("table_txn_001", MINOR, deltas=1, error="nothing to compact"),
    "rebalance": Kind("table_txn_001", REBALANCE, error="REBALANCE is not supported"),
    "insert-only": Kind("table_txn_001", MAJOR, parameters=INSERT_ONLY, error="InsertOnlyTable"),
    "insert-only, minor": Kind("table_txn_001", MINOR, parameters=INSERT_ONLY, error="InsertOnlyTable"),
    "no partition": Kind("try_it", MAJOR, error="UnsupportedTable"),
    "partition gone": Kind("try_it", MAJOR, "prt=p9", error="PartitionNotFound"),
}
WRITES = {"table_txn_001": 3, "try_it": 6}


@dataclass(frozen=True)
class Enqueued:
    """A table, and its entry in the queue."""

    kind: Kind
    table: FixtureTable
    queue_id: int

    def problems(self, lines: Sequence[QueueEntry]) -> Iterator[str]:
        """Yield what is wrong in the end with the lines of this entry, and with its files."""
        if len(lines) != 1:
            yield f"{self.queue_id}: {len(lines)} lines"
            return
        (line,) = lines
        said = f"{line} ({line.error})"
        if self.kind.error:
            if line.state is not QueueState.REFUSED or self.kind.error not in (line.error or ""):
                yield f"{said}: expected refused, {self.kind.error}"
        elif line.state is not QueueState.SUCCEEDED:
            yield f"{said}: expected succeeded"
        elif self.table.visible(self.kind.place) != self.kind.names:
            yield f"{said}: {self.table.names(self.kind.place)}, expected {self.kind.names}"


def enqueue(admin: MetastoreAdmin, server: MetastoreServer, number: int, *, prefix: str) -> list[Enqueued]:
    """Make so many tables, in turn of each kind, and put an entry for each into the pool."""
    usual = [KINDS["major"], KINDS["minor"], KINDS["partition"]]
    odd = [kind for kind in KINDS.values() if kind not in usual]
    turns = [kind for one in odd for kind in (*usual, one)]
    chosen = enumerate(islice(cycle(turns), number))
    return [_enqueue(admin, server, kind, f"{prefix}{index}") for index, kind in chosen]


def _enqueue(admin: MetastoreAdmin, server: MetastoreServer, kind: Kind, database: str) -> Enqueued:
    admin.create_database(database, location=location_of(server.warehouse / f"{database}.db"))
    table = make_table(admin, server, database, kind.fixture, kind.parameters)
    if kind.fixture == "table_txn_001":
        for number in range(kind.deltas + 1, 4):
            _remove(table.directory / f"delta_{number:07}_{number:07}_0000")
    for _ in range(WRITES[kind.fixture]):
        table.write()
    request = hive4.CompactionRequest(
        dbname=database, tablename=table.name, partitionname=kind.partition, type=kind.type, runas="hive", poolName=POOL
    )
    reply = admin._call(lambda client: hive4.compact2(client, request))
    assert reply.accepted
    return Enqueued(kind, table, reply.id)


def watched_by_initiator(admin: MetastoreAdmin, server: MetastoreServer, database: str) -> FixtureTable:
    """Make a table of the pool with three inserts that Hive's Initiator learns of, by their locks."""
    admin.create_database(database, location=location_of(server.warehouse / f"{database}.db"))
    parameters = {**FULL_ACID, "hive.compactor.worker.pool": POOL}
    table = make_table(admin, server, database, "table_txn_001", parameters)
    for _ in range(WRITES[table.name]):
        _insert(admin, table)
    return table


def _insert(admin: MetastoreAdmin, table: FixtureTable) -> None:
    txn = admin.open_txn(user="writer", agent="test")
    admin.allocate_write_id(txn, table.database, table.name)
    component = ttypes.LockComponent(
        type=ttypes.LockType.SHARED_READ,
        level=ttypes.LockLevel.TABLE,
        dbname=table.database,
        tablename=table.name,
        operationType=ttypes.DataOperationType.INSERT,
        isTransactional=True,
    )
    request = ttypes.LockRequest(component=[component], txnid=txn, user="writer", hostname="desk", agentInfo="test")
    admin._call(lambda client: client.lock(request))
    admin.commit_txn(txn)


def _remove(directory: Any) -> None:
    for file in directory.iterdir():
        file.unlink()
    directory.rmdir()


class History:
    """What SHOW COMPACTIONS said of each entry, look by look."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._states: dict[int, list[QueueState]] = {}
        self._problems: set[str] = set()

    def look(self, lines: Sequence[QueueEntry]) -> bool:
        """Note the lines; return whether all have ended."""
        for line in lines:
            states = self._states.setdefault(line.queue_id, [])
            if line.state not in states[-1:]:
                states.append(line.state)
            if line.state is QueueState.WORKING and line.worker != self._worker:
                self._problems.add(f"{line}: expected worker {self._worker}")
        return all(line.is_ended for line in lines)

    def problems(self) -> Iterator[str]:
        """Yield the entries that went back, or went on after their end."""
        yield from self._problems
        for queue_id, states in self._states.items():
            known = [STEPS.index(state) for state in states[:-1] if state in STEPS]
            if len(known) != len(states) - 1 or known != sorted(known) or states[-1] in STEPS:
                yield f"{queue_id}: {' -> '.join(states)}"
