"""One storm from its first process to its figures: a plane, its tables, the storm, and the calm after it."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from sandbox.harness.places import StorageKind, location_of
from sandbox.metastore.admin import FULL_ACID
from sandbox.metastore.server import Hive
from sandbox.plane import Plane

from compaction_operator.acid.names import DirectoryKind, parse_directory
from compaction_operator.api.compaction import CompactionType, Readers
from compaction_operator.metastore import QueueState
from tests.integration.oracle.hive import HiveOracle
from tests.soak.storm.compactor import Compactor
from tests.soak.storm.reading import PlannedRead, Snapshot, StormError
from tests.soak.storm.scene import Scene, Tally
from tests.soak.storm.session import SessionClient, Sessions
from tests.soak.storm.storm import READERS, storm
from tests.soak.storm.tables import COLUMNS, DATABASE, KEY, SORTS, StormTable

JVMS = 2
CALL_SECONDS = 60.0
CLEANUP = {"interval": "500ms", "planningTime": "300s"}
"""NB: a late reader chooses files as long as it holds its lock, and a busy machine makes that long."""
RULES = (Readers.LOCKS_AND_TRANSACTIONS, Readers.LOCKS_AND_OWN_TRANSACTIONS)
"""By table in turn: all readers and writers here ask for their locks in one request, or for none."""
VERSIONS: dict[Hive, int] = {"3.1.3": 3, "4.0.1": 4}


@dataclass(frozen=True)
class Figures:
    """What a storm came to."""

    readers: int = 0
    reads: int = 0
    planned_again: int = 0
    writes: int = 0
    aborted: int = 0
    compactions: int = 0
    given_up: int = 0
    cleanups: int = 0
    directories: int = 0

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(*(mine + its for mine, its in zip(vars(self).values(), vars(other).values(), strict=True)))

    def __str__(self) -> str:
        return (
            f"{self.reads} reads by {self.readers} readers ({self.planned_again} planned again), "
            f"{self.writes} writes ({self.aborted} aborted), "
            f"{self.compactions} compactions ({self.given_up} given up for readers or writers), "
            f"{self.cleanups} cleanups, {self.directories} directories deleted"
        )


def side_by_side(
    folder: Path, kinds: Mapping[Hive, StorageKind], *, seed: int, seconds: float, pace: float = 1.0
) -> dict[Hive, Figures | BaseException]:
    """Storm on each of these generations at the same time; return each one's figures, or its first error.

    `kinds` says where the tables of each lie.
    """
    with ThreadPoolExecutor(len(kinds)) as threads:
        runs = {
            hive: threads.submit(
                run, folder / f"hive-{hive}", hive=hive, storage=storage, seed=seed, seconds=seconds, pace=pace
            )
            for hive, storage in kinds.items()
        }
        return {hive: future.exception() or future.result() for hive, future in runs.items()}


def run(folder: Path, *, hive: Hive, storage: StorageKind, seed: int, seconds: float, pace: float) -> Figures:
    """Storm for that long, then see that nothing is left; raises the first error, which ends it."""
    with staged(folder, hive=hive, storage=storage, seed=seed, pace=pace) as (plane, scene):
        rules = zip(scene.tables, cycle(RULES), strict=False)
        compactors = [Compactor(scene, plane, table, cleanup={"readers": readers}) for table, readers in rules]
        storm(scene, compactors, seconds=seconds)
        for compactor in compactors:
            compactor.compact(CompactionType.MAJOR)
            compactor.finish()
        for table in scene.tables:
            require_settled(scene, table)
        return _figures(scene.tally)


def _figures(tally: Tally) -> Figures:
    return Figures(
        readers=len(READERS),
        reads=tally["reads"],
        planned_again=tally["planned again"],
        writes=tally["writes"],
        aborted=tally["aborted"],
        compactions=tally["compactions"],
        given_up=tally["given up"],
        cleanups=tally["cleanups"],
        directories=tally["directories"],
    )


@contextmanager
def staged(
    folder: Path, *, hive: Hive, seed: int, storage: StorageKind = "file", pace: float = 1.0
) -> Iterator[tuple[Plane, Scene]]:
    """Start a plane with the storm's tables, all empty, and Hive's readers; everything lies in `folder`."""
    with ExitStack() as stack:
        # NB: Derby locks whole tables: with that many sessions at once its calls run into each other's deadlocks.
        plane = stack.enter_context(
            Plane(
                folder / "plane",
                hive=hive,
                database="postgres",
                storage=storage,
                spark=False,
                values={"cleanup": CLEANUP},
                warehouse={"readers": [*Readers]},
            )
        )
        client = stack.enter_context(SessionClient(plane.metastore.settings(timeout=CALL_SECONDS)))
        tables = [make_table(client, StormTable.of(sort, plane.metastore.warehouse)) for sort in SORTS]
        oracles = [stack.enter_context(HiveOracle(VERSIONS[hive])) for _ in range(JVMS)]
        for oracle in oracles:
            if plane.store:
                oracle.configure(plane.store.hadoop)
            oracle.state(tables[0].directory)  # NB: a JVM ends with the thread that starts it, so this one does
        sessions = stack.enter_context(Sessions(client))
        yield plane, Scene(VERSIONS[hive], seed, sessions, oracles, tables, pace)


def make_table(client: SessionClient, table: StormTable) -> StormTable:
    """Make the table in the metastore and its directories."""
    if DATABASE not in client.database_names():
        client.create_database(DATABASE, location=location_of(table.directory.parent))
    keys = [(KEY, "string")] if table.sort.partitions else []
    client.create_table(
        DATABASE,
        table.name,
        location=location_of(table.directory),
        columns=COLUMNS,
        partition_keys=keys,
        parameters={**FULL_ACID, "NO_AUTO_COMPACTION": "true"},
    )
    if table.sort.partitions:
        client.add_partitions(DATABASE, table.name, [[value] for value in table.sort.partitions])
    for place in table.places:
        table.path(place).mkdir(parents=True, exist_ok=True)
    return table


def require_settled(scene: Scene, table: StormTable) -> None:
    """Raise StormError unless each partition is one base with the right rows, and nothing is held in the metastore.

    One without a write is empty. If it ever had rows, the last reader misses them.
    """
    client = scene.sessions.client
    snapshot = Snapshot(client.valid_write_ids(DATABASE, table.name), client.valid_txns())
    for place in table.places:
        names = sorted(child.name for child in table.path(place).iterdir())
        kinds = [found.kind if (found := parse_directory(name)) else None for name in names]
        if kinds not in ([DirectoryKind.BASE], []):
            raise StormError(f"{table.name} {place}: after the last major compaction and its cleanup there are {names}")
        for vectorized in (True, False):
            PlannedRead(scene.hives[0], table, place, snapshot, who="the last reader", vectorized=vectorized).rows()
    if locks := client.show_locks(DATABASE, table.name):
        raise StormError(f"{table.name}: locks are left: {locks}")
    if txns := client.open_transactions().open:
        raise StormError(f"transactions are left open: {txns}")
    ended = (QueueState.SUCCEEDED, QueueState.FAILED, QueueState.REFUSED)
    if left := [entry for entry in client.compactions(DATABASE, table.name) if entry.state not in ended]:
        raise StormError(f"{table.name}: entries of the compaction queue are left: {left}")
