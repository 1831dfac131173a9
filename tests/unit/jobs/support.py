"""What several tests of the job share: a request, journals in a dictionary, progress in a list."""

from collections.abc import Callable
from typing import Any

from compaction_operator.api.cleanup import TableIdentity
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.config import Metastore, SparkProfile, Warehouse
from compaction_operator.api.progress import Progress
from compaction_operator.api.request import JobRequest

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
