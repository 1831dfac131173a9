"""What several tests of the job share: a request, journals in a dictionary, progress in a list."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any

from compaction_operator.api.cleanup import TableIdentity
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.config import Metastore, SparkProfile, Warehouse
from compaction_operator.api.progress import Progress
from compaction_operator.api.request import JobRequest
from compaction_operator.metastore import Generation, Partition, QueueState, Table, Target
from tests.support.metastore import FakeMetastore, serving

REQUEST = JobRequest(
    name="orders-minor",
    namespace="team",
    uid="0f8c",
    attempt=2,
    job="orders-minor-2",
    operator="compaction-system",
    warehouse=Warehouse(name="main", metastore=Metastore(uris=("thrift://m:9083",)), namespaces=("team",)),
    profile=SparkProfile(name="default", image="compaction-operator:1"),
    table=TableRef(database="Sales", name="Orders"),
    type=CompactionType.MINOR,
)

IDENTITY = TableIdentity(database="sales", name="orders", create_time=1, location="/t")


class Store:
    """Journals as the API server would keep them: the first creation of a name wins.

    `on_create` runs right after a journal was created, which is right before anything is published.
    """

    def __init__(self, on_create: Callable[[], None] = lambda: None) -> None:
        self.resources: dict[str, dict[str, Any]] = {}
        self._on_create = on_create

    def create(self, namespace: str, body: dict[str, Any]) -> bool:
        name = body["metadata"]["name"]
        if name in self.resources:
            return False
        self.resources[name] = body
        self._on_create()
        return True

    def get(self, namespace: str, name: str) -> dict[str, Any]:
        return self.resources[name]


class Reports:
    """What the driver said of its progress."""

    def __init__(self) -> None:
        self.said: list[Progress] = []
        self.batches = 0

    def update(self, progress: Progress, *, at_once: bool = False) -> None:
        self.said.append(progress)
        self.batches += at_once


TABLE = "sales.orders"
"""The request's table, as the metastore spells it."""


def metastore_of(*, hive: Generation = Generation.HIVE3, highest: int = 3) -> FakeMetastore:
    """Return a metastore with the table of the request. All of its write ids up to the highest are committed."""
    table = Table("sales", "orders", IDENTITY.location, IDENTITY.create_time, input_format="", serde="", columns=())
    metastore = serving(table, hive=hive)
    metastore.set_write_ids(f"{TABLE}:{highest}:{2**63 - 1}::")
    return metastore


def know_partitions(metastore: FakeMetastore, targets: Iterable[Target]) -> None:
    """Let the metastore have these partitions, unless the test has given it some."""
    if not metastore.partitions[TABLE]:
        metastore.partitions[TABLE].update({target.partition: partition_of(target) for target in targets})


def partition_of(target: Target) -> Partition:
    """Return a partition as the metastore describes it."""
    return Partition(target.partition, (), target.location, target.create_time)


def script_open_transactions(metastore: FakeMetastore, *answers: Sequence[int], marks: Iterator[int]) -> None:
    """Let these transactions be open when the metastore is asked for them, the last ones ever after."""
    script = chain(answers, repeat(answers[-1]))
    metastore.on("open_transactions", lambda: metastore.set_transactions(next(marks), *next(script)))


def queue_states(metastore: FakeMetastore) -> dict[int, QueueState]:
    """Return the state of each entry of the compaction queue."""
    return {entry.queue_id: entry.state for entry in metastore.queue}
