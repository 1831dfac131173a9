"""What the controller does for one journal, with a real metastore and real files, step by step as a test wants it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from compaction_operator.api.cleanup import (
    Blocker,
    CompactionCleanupSpec,
    CompactionCleanupStatus,
    PartitionStatus,
    PublishedState,
    ReaderBaseline,
)
from compaction_operator.api.compaction import (
    CompactionType,
    Readers,
    TableCompactionSpec,
    TableCompactionStatus,
    TableRef,
)
from compaction_operator.api.config import OperatorConfig, SparkProfile
from compaction_operator.cleanup.deletion import PartitionDeletion
from compaction_operator.cleanup.readers import ReaderSnapshot, blockers
from compaction_operator.cleanup.settle import Settlement
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.kube.resources import Cleanup, Compaction, Meta
from compaction_operator.controller.work import Work
from compaction_operator.metastore import LockKind, LockWish
from compaction_operator.metastore import hive4_calls as hive4
from compaction_operator.storage import Storage, open_storage
from tests.integration.metastore.fixture_table import FixtureTable, spec_of
from tests.unit.driver.support import REQUEST, Store

READ_ONLY_TXN = 2
"""Hive 4's TxnType.READ_ONLY."""


def real_work(
    table: FixtureTable,
    uri: str,
    *,
    storage: Storage | None = None,
    ahead: timedelta = timedelta(),
    **warehouse_fields: Any,
) -> Work:
    """The controller's work, with the metastore of that URI; its clock may be ahead."""
    metastore = REQUEST.warehouse.metastore.model_copy(update={"uris": (uri,), "timeout": 20.0})
    warehouse = REQUEST.warehouse.model_copy(update={"metastore": metastore, **warehouse_fields})
    config = OperatorConfig(warehouses=(warehouse,), profiles=(SparkProfile(name="default", image="i:1"),))
    opened = (lambda _: storage) if storage else open_storage
    return Work(config, clock=lambda: datetime.now(UTC) + ahead, stores=lambda _: opened)


def cleanup_of(store: Store, **spec: Any) -> Cleanup:
    """The only journal of a store as the controller sees it, before anything was done for it."""
    return cleanup(CompactionCleanupSpec.model_validate(spec_of(store) | spec))


def cleanup(spec: CompactionCleanupSpec) -> Cleanup:
    """A cleanup of that spec, before anything was done for it."""
    meta = Meta(REQUEST.namespace, "journal", "uid", 1, 1, datetime.now(UTC))
    return Cleanup(meta, spec, CompactionCleanupStatus(), {})


def attempt_of(table: FixtureTable, number: int) -> Compaction:
    """The compaction whose attempt that is, as the controller sees it."""
    ref = TableRef(database=table.database, name=table.name)
    spec = TableCompactionSpec(warehouse=REQUEST.warehouse.name, table=ref, type=CompactionType.MINOR)
    meta = Meta(REQUEST.namespace, REQUEST.name, REQUEST.uid, 1, 1, datetime.now(UTC))
    return Compaction(meta, spec, TableCompactionStatus(attempt=number), {})


@dataclass
class ControllerSteps:
    """One journal, and what is in its status so far."""

    work: Work
    cleanup: Cleanup
    readers: Readers = Readers.LOCKS_AND_TRANSACTIONS

    def settle(self) -> dict[str, PublishedState]:
        """Settle and store the result; return the states by partition."""
        settled = self.work.settle(self.cleanup, driver_ended=True)
        assert isinstance(settled, Settlement), settled
        partitions = tuple(PartitionStatus(partition=name, state=state) for name, state in settled.states.items())
        self._store(baseline=settled.baseline, partitions=partitions)
        return dict(settled.states)

    @property
    def baseline(self) -> ReaderBaseline:
        """The readers from before."""
        assert self.cleanup.status.baseline is not None
        return self.cleanup.status.baseline

    def blockers(self, *, now: datetime | None = None) -> tuple[Blocker, ...]:
        """Look once; return who is waited for."""
        key = self.cleanup.table
        seen = self.work.look(key.warehouse, [key])[key]
        assert isinstance(seen, ReaderSnapshot), seen
        return blockers(self.baseline, seen, readers=self.readers, now=now or datetime.now(UTC))

    def waits_for(self) -> list[tuple[str, int]]:
        """Return kind and id of those who are waited for."""
        return [(one.kind.value, one.id) for one in self.blockers()]

    def delete(self, *, purge: bool = False) -> tuple[PartitionDeletion, ...]:
        """Make one pass over all partitions, and store what it put in quarantine."""
        done = self.work.delete(self.cleanup, self.cleanup.spec.partitions, purge=purge)
        assert not isinstance(done, Trouble), done
        held = {result.partition: result.quarantined for result in done}
        known = self.cleanup.status.partitions
        self._store(partitions=tuple(one.model_copy(update={"quarantined": held[one.partition]}) for one in known))
        return done

    def finish(self) -> Trouble | None:
        """End the queue's entries."""
        return self.work.finish(self.cleanup)

    def _store(self, **fields: Any) -> None:
        status = self.cleanup.status.model_copy(update=fields)
        self.cleanup = Cleanup(self.cleanup.meta, self.cleanup.spec, status, {})


def read_only_transaction(table: FixtureTable) -> int:
    """Open a transaction as Hive 4 opens one for a query that takes no locks (HIVE-26165); on Hive 3 a plain one."""
    if not table.is_hive4:
        return table.admin.open_txn(user="reader", agent="test")
    request = hive4.OpenTxnRequest(num_txns=1, user="reader", hostname="desk", txn_type=READ_ONLY_TXN)
    reply = table.admin._call(lambda client: hive4.open_txns(client, request))
    return int(reply.txn_ids[0])


def read_lock(table: FixtureTable, *, partition: str | None = None, txn: int = 0) -> int:
    """Take a reader's lock and return its id."""
    wish = LockWish(
        database=table.database,
        table=table.name,
        partition=partition,
        kind=LockKind.SHARED_READ,
        agent="reader",
        txn=txn,
    )
    return table.admin.lock(wish).lock_id


def end(table: FixtureTable, *, txns: Sequence[int] = (), locks: Sequence[int] = ()) -> None:
    """End readers."""
    for txn in txns:
        table.admin.commit_txn(txn)
    for lock in locks:
        table.admin.unlock(lock)
