"""What several tests of the job share: a request, journals in a dictionary, progress in a list."""

from collections.abc import Callable, Sequence
from typing import Any

from compaction_operator.api.cleanup import TableIdentity
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.config import Metastore, SparkProfile, Warehouse
from compaction_operator.api.progress import Progress
from compaction_operator.api.request import JobRequest
from compaction_operator.metastore import Partition, Table, Target

REQUEST = JobRequest(
    name="orders-minor",
    namespace="team",
    uid="0f8c",
    attempt=2,
    job="orders-minor-2",
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


class SameTable:
    """The part of a metastore that says what a table and its partitions are: those of `meant`, as they were resolved.

    A test may make others of them, or drop a partition (None).
    """

    def __init__(self) -> None:
        self.table = Table(
            database=IDENTITY.database,
            name=IDENTITY.name,
            location=IDENTITY.location,
            create_time=IDENTITY.create_time,
            input_format="",
            serde="",
            columns=(),
        )
        self.meant: dict[str, Target | None] = {}

    def get_table(self, database: str, name: str) -> Table:
        return self.table

    def get_partitions(self, database: str, name: str, names: Sequence[str]) -> tuple[Partition, ...]:
        found = [one for name in names if (one := self.meant.get(name))]
        return tuple(Partition(one.partition, (), one.location, one.create_time) for one in found)
