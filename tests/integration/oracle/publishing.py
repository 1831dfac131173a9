"""Compacts a living table as a driver does, and deletes as the controller does, through a storage that is watched."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest

from compaction_operator.api.cleanup import CompactionCleanupSpec, TableIdentity
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.cleanup.deletion import JournalPass, PartitionDeletion, delete_obsolete
from compaction_operator.cleanup.publication import published_state
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.driver_locks import Locks
from compaction_operator.driver.hive.flow import HiveCompaction
from compaction_operator.driver.hive.hive3 import Hive3
from compaction_operator.driver.hive.journal import Journal
from compaction_operator.driver.hive.protocol import HiveProtocol
from compaction_operator.driver.main import protocol_of
from compaction_operator.driver.merge import partition
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.metastore import Generation, Target
from compaction_operator.storage import Storage
from tests.integration.oracle.laws import View
from tests.integration.oracle.living_table import ROW_TYPE, LivingTable
from tests.support.metastore import COMMITTED, FakeMetastore
from tests.unit.cleanup.support import metastore
from tests.unit.driver.support import REQUEST, Reports, Store

CREATE_TIME = 100


def metastore_of_table(table: LivingTable, *, hive: Generation = Generation.HIVE3, older: bool = True) -> FakeMetastore:
    """What a driver asks. While there are `older` readers, a transaction of theirs is open."""
    asked = metastore(table.directory, hive=hive)
    asked.set_transactions(table.txn)
    asked.on("valid_write_ids", lambda *_, **__: asked.write_ids.update({"d.t": table.write_ids()}))
    if hive is Generation.HIVE3:
        asked.on("open_transactions", lambda: asked.set_transactions(table.txn, *([1] if older else [])))
    return asked


class Held:
    """Locks that are always granted."""

    def __init__(self) -> None:
        self.is_exclusive = False

    lock_id = 1

    def share(self) -> None:
        """Grant it."""

    def release(self) -> None:
        """Take it back."""

    def guard(self) -> None:
        """Never lose it."""

    @contextmanager
    def exclusive(self, partition: str | None) -> Iterator[None]:
        self.is_exclusive = True
        yield
        self.is_exclusive = False


@dataclass
class Driver:
    """One driver's surroundings; `on_journal` runs when all is written and nothing is published (Hive 3)."""

    table: LivingTable
    storage: Storage
    locks: Held = field(default_factory=Held)
    client: FakeMetastore | None = None
    on_journal: Callable[[], None] = lambda: None

    def compact(self, kind: CompactionType) -> CompactionCleanupSpec:
        """Compact, and on Hive 4 commit; return the journal. Raises what a driver does."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(partition, "open_storage", lambda _: self.storage)
            return self._on_hive_3(kind) if self.table.hive.version == 3 else self._on_hive_4(kind)

    def _on_hive_3(self, kind: CompactionType) -> CompactionCleanupSpec:
        client = self.client or metastore_of_table(self.table)
        return self._run(kind, client, lambda attempt: Hive3(attempt, cast(Locks, self.locks)))

    def _on_hive_4(self, kind: CompactionType) -> CompactionCleanupSpec:
        """In a transaction, which is open in each snapshot that a reader takes meanwhile."""
        table, txn = self.table, self.table.txn + 1
        table.arrive(table.now(txns=f"{txn}:{txn}:{txn}:"))
        client = metastore_of_table(table, hive=Generation.HIVE4, older=False)
        spec = self._run(kind, client, protocol_of)
        assert client.outcomes() == {txn: COMMITTED}
        table.txn = txn
        return spec

    def _run(
        self, kind: CompactionType, client: FakeMetastore, protocol: Callable[[DriverContext], HiveProtocol]
    ) -> CompactionCleanupSpec:
        location = str(self.table.directory)
        request = REQUEST.model_copy(update={"type": kind, "table": TableRef(database="d", name="t")})
        store = Store(on_create=self.on_journal)
        identity = TableIdentity(database="d", name="t", create_time=CREATE_TIME, location=location)
        attempt = DriverContext(client.client(), request, "pod1", identity, ROW_TYPE)
        compaction = HiveCompaction(protocol(attempt), runner=LocalRunner(), report=Reports())
        compaction.run([Target("", location, CREATE_TIME)], Journal(store, attempt))
        (resource,) = store.resources.values()
        return CompactionCleanupSpec.model_validate(resource["spec"])


def clean(table: LivingTable, spec: CompactionCleanupSpec, storage: Storage, *, now: View) -> PartitionDeletion:
    """Make the controller's pass of deletion over a journal, when all have left who came before the reader `now`."""
    names = [path.name for path in table.directory.iterdir()]
    answers = metastore(table.directory, write_ids=now.write_ids, txns=now.txns)
    states = {entry.partition: published_state(entry, names) for entry in spec.partitions}
    (result,) = delete_obsolete(JournalPass(lambda _: storage, answers, spec, states))
    return result
