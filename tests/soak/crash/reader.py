"""A reader from before the compaction, who holds a transaction and perhaps locks until it is released."""

from sandbox.harness.wait import wait_until

from compaction_operator.metastore.errors import MetastoreUnavailable
from compaction_operator.metastore.locks import LockKind, LockWish
from tests.soak.crash.scenarios import Presence
from tests.soak.crash.table import Snapshot, Table

USER = "reader"
RELEASE_SECONDS = 20.0


class Reader:
    """It has its snapshot from when it is made."""

    def __init__(self, table: Table, presence: Presence) -> None:
        self._table = table
        self._txn = 0
        self.snapshot: Snapshot | None = None
        if presence is not Presence.NOBODY:
            self._txn = table.admin.open_txn(user=USER, agent=USER)
            self.snapshot = table.now()
        if presence is Presence.LOCK:
            for partition in table.partitions or (None,):
                table.admin.lock(
                    LockWish(
                        database=table.database,
                        table=table.name,
                        partition=partition,
                        kind=LockKind.SHARED_READ,
                        agent=USER,
                        txn=self._txn,
                    )
                )

    @property
    def waiting(self) -> bool:
        """Whether it holds anything."""
        return self._txn != 0

    def release(self) -> None:
        """End the transaction, which gives the locks back; a metastore that starts is waited for."""
        if self.waiting:
            wait_until(self._commit, timeout=RELEASE_SECONDS, what="the metastore to let a reader go")
        self._txn = 0

    def _commit(self) -> bool:
        try:
            self._table.admin.commit_txn(self._txn)
        except MetastoreUnavailable:
            return False
        return True
