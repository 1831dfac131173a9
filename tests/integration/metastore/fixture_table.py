"""Tables of the fixtures, known to a real metastore, and drivers that compact them in this process."""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from sandbox.harness.expected import INSERTS
from sandbox.harness.places import Place, copy_tree, location_of
from sandbox.harness.tables import OURS, TABLE_TXN_001
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import Hive, MetastoreServer

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.request import AGENT_PREFIX, DriverResult, queue_pool
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.flow import HiveCompaction, identity_of
from compaction_operator.driver.hive.journal import Journal
from compaction_operator.driver.main import protocol_of
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.metastore import (
    Generation,
    LockKind,
    LockWish,
    MetastoreClient,
    MetastoreError,
    MetastoreUnavailable,
    QueueEntry,
    resolve,
)
from compaction_operator.storage import open_storage
from tests.unit.driver.support import REQUEST, Reports, Store

FIXTURES = Path(__file__).parents[2] / "fixtures"
PARTITIONS = {"try_it": ("p1", "p2", "p3")}


@dataclass
class FixtureTable:
    """A table of the fixtures, known to the metastore with real write ids."""

    admin: MetastoreAdmin
    database: str
    name: str
    directory: Place
    open: list[int] = field(default_factory=list)

    @property
    def is_hive4(self) -> bool:
        """Whether it is a table of Hive 4."""
        return self.admin.generation() is Generation.HIVE4

    @property
    def storage_class(self) -> Any:
        """The class of the storage that drivers use for its files."""
        return type(open_storage(str(self.directory)))

    def write(self, *, commit: bool = True) -> int:
        """Take a write id and end its transaction, or leave it open."""
        txn = self.admin.open_txn(user="writer", agent="test")
        write_id = self.admin.allocate_write_id(txn, self.database, self.name)
        if commit:
            self.admin.commit_txn(txn)
        else:
            self.open.append(txn)
        return write_id

    def take_write_ids(self, kind: CompactionType, *, hive: Hive) -> None:
        """Take as many write ids as the fixture had before a compaction of that kind, and abort the same ones."""
        file = fixtures_of(hive) / self.name / f"writeids-{kind.lower()}-before.txt"
        wanted = ValidWriteIdList.parse(file.read_text())
        first = min(wanted.aborted, default=wanted.high_watermark + 1)
        if first > 1:
            self.admin.start_write_ids(self.database, self.name, highest=first - 1)
        for number in range(first, wanted.high_watermark + 1):
            self.write(commit=number not in wanted.aborted)
            self.end()

    def end(self) -> None:
        """Abort what was left open."""
        while self.open:
            self.admin.abort_txn(self.open.pop())

    def run(
        self,
        kind: CompactionType = CompactionType.MINOR,
        *,
        store: Store | None = None,
        pod: str = "pod1",
        partitions: Sequence[str] = (),
        attempt: int = 1,
        client: MetastoreClient | None = None,
    ) -> DriverResult:
        """Run a driver's flow in this process; raises JobError as the driver would end with it."""
        table = TableRef(database=self.database, name=self.name)
        request = REQUEST.model_copy(update={"table": table, "type": kind, "attempt": attempt})
        resolved = resolve(self.admin, table, partitions)
        identity = identity_of(resolved.table)
        of_pod = DriverContext(client or self.admin, request, pod, identity, resolved.table.row_type)
        compaction = HiveCompaction(protocol_of(of_pod), runner=LocalRunner(), report=Reports())
        return compaction.run(resolved.targets, Journal(store or Store(), of_pod))

    def names(self, partition: str = "") -> list[str]:
        """Return all names in the table's or partition's directory, hidden ones too."""
        return sorted(path.name for path in (self.directory / partition).iterdir())

    def visible(self, partition: str = "") -> list[str]:
        """Return the names that are not hidden, without the transaction that is in them."""
        return sorted(re.sub(r"_v[0-9]+$", "", name) for name in self.names(partition) if not name.startswith("_"))

    def reader(self, partition: str | None = None) -> int:
        """Return a lock that a reader holds."""
        wish = LockWish(
            database=self.database, table=self.name, partition=partition, kind=LockKind.SHARED_READ, agent="reader"
        )
        return self.admin.lock(wish).lock_id

    def locks(self) -> list[int]:
        """Return the ids of all locks on the table."""
        return [lock.lock_id for lock in self.admin.show_locks(self.database, self.name)]

    def queue(self) -> list[QueueEntry]:
        """Return the lines of SHOW COMPACTIONS for the table, the oldest first."""
        return sorted(self.admin.compactions(self.database, self.name), key=lambda entry: entry.queue_id)

    def own_transactions(self) -> list[int]:
        """Return the open transactions of drivers (Hive 4: of all tables, which do not run at the same time)."""
        opened = self.admin.open_transactions().open
        return [txn.txn for txn in opened if (txn.agent or "").startswith(AGENT_PREFIX)]


def fixtures_of(hive: Hive) -> Path:
    """Return the folder of the tables that a Hive of that generation wrote: 3.1.3, or 4.0.1 for every Hive 4."""
    return FIXTURES / ("hive-3.1.3" if hive == "3.1.3" else "hive-4.0.1")


def make_table(
    admin: MetastoreAdmin,
    server: MetastoreServer,
    database: str,
    fixture: str,
    parameters: dict[str, str] | None = None,
) -> FixtureTable:
    """Make a table of a fixture of the server's generation: its files, its partitions, and no write ids yet."""
    source = fixtures_of(server.hive) / fixture
    directory = server.warehouse / f"{database}.db" / fixture
    partitions = PARTITIONS.get(fixture, ())
    keys = (("prt", "string"),) if partitions else ()
    location = location_of(directory)
    columns = _columns(source)
    admin.create_table(
        database, fixture, location=location, columns=columns, partition_keys=keys, parameters=parameters
    )
    if partitions:
        admin.add_partitions(database, fixture, [[value] for value in partitions])
    copy_tree(source / "before", directory)
    return FixtureTable(admin, database, fixture, directory)


@contextmanager
def inserted(admin: MetastoreAdmin, server: MetastoreServer, database: str) -> Iterator[FixtureTable]:
    """Give a table of three inserts in a database of its own, which Hive leaves to the operator."""
    admin.create_database(database, location=location_of(server.warehouse / f"{database}.db"))
    made = make_table(admin, server, database, TABLE_TXN_001.name, parameters=OURS)
    for _ in range(TABLE_TXN_001.writes):
        made.write()
    assert frozenset(made.names()) == INSERTS
    yield made
    shutil.rmtree(str(server.warehouse / f"{database}.db"), ignore_errors=True)


def spec_of(store: Store) -> dict[str, Any]:
    """Return the spec of the only journal."""
    (resource,) = store.resources.values()
    spec: dict[str, Any] = resource["spec"]
    return spec


def _columns(source: Path) -> list[tuple[str, str]]:
    described = json.loads((source / "expected-minor-before.json").read_text())["columns"]
    named = [(name.rpartition(".")[2].lower(), type_) for name, type_ in described]
    return [(name, type_) for name, type_ in named if name not in {"row__id", "prt"}]


def pool_of(*, attempt: int = 1, pod: str = "pod1") -> str:
    """Return the pool of the queue that a fixture_table's driver has for itself."""
    return queue_pool(uid=REQUEST.uid, attempt=attempt, pod_uid=pod)


class Failing:
    """A metastore client one of whose calls fails: it is refused, or its answer is lost."""

    def __init__(self, client: MetastoreClient, call: str, *, number: int = 1, lost: bool = False) -> None:
        self._client = client
        self._call = call
        self._left = number
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return self._fail(method) if name == self._call else method

    def _fail(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*arguments: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._lost:
                raise MetastoreError(f"{self._call} is refused")
            answer = method(*arguments, **options)
            if self._left == 0:
                raise MetastoreUnavailable(f"the answer of {self._call} is lost")
            return answer

        return failing

    def client(self) -> MetastoreClient:
        """Return itself as what it stands for."""
        return cast(MetastoreClient, self)
