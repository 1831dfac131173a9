"""What the compactor calls make of answers that a real metastore gives rarely."""

from collections.abc import Callable
from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.config import Metastore
from compaction_operator.metastore import (
    MetastoreClient,
    MetastoreError,
    MetastoreUnavailable,
    QueueEntry,
    QueueJob,
    QueueState,
)

JOB = QueueJob(queue_id=5, database="db", table="t", type=CompactionType.MINOR, highest_write_id=3)
ENTRY = QueueEntry(queue_id=5, database="db", table="t", state=QueueState.WORKING)


class Client(MetastoreClient):
    """Each call raises the next error, or answers with nothing; the queue holds what a test wants it to."""

    def __init__(self, *errors: Exception, queue: tuple[QueueEntry, ...] = ()) -> None:
        super().__init__(Metastore(uris=("thrift://metastore.invalid:9083",)))
        self.errors = list(errors)
        self._queue = queue

    def compactions(self, database: str | None = None, table: str | None = None) -> tuple[QueueEntry, ...]:
        return self._queue

    def _call(self, request: Callable[[Any], Any], *, table: str | None = None) -> Any:
        if self.errors:
            raise self.errors.pop(0)


@pytest.mark.parametrize("state", [QueueState.INITIATED, QueueState.WORKING, QueueState.READY_FOR_CLEANING])
def test_an_entry_that_could_not_be_marked_as_failed_is_an_error(state):
    entry = QueueEntry(queue_id=5, database="db", table="t", state=state)
    with pytest.raises(MetastoreError, match="deadlock"):
        Client(MetastoreError("deadlock"), queue=(entry,)).mark_failed(JOB, "x")


@pytest.mark.parametrize("queue", [(), (QueueEntry(queue_id=5, database="db", table="t", state=QueueState.SUCCEEDED),)])
def test_an_entry_that_has_ended_already_is_none(queue):
    Client(MetastoreError("Internal error"), queue=queue).mark_failed(JOB, "x")


def test_a_metastore_that_is_away_has_marked_nothing():
    """H13: the entry may be open still, whatever the queue said."""
    with pytest.raises(MetastoreUnavailable):
        Client(MetastoreUnavailable("down")).mark_failed(JOB, "x")


def test_only_postgres_own_error_of_a_table_without_partitions_is_worked_around():
    failed = MetastoreError("MetaException: SQL state [25P02]; current transaction is aborted")
    client = Client(failed)
    client.mark_cleaned(JOB)
    assert not client.errors
    with pytest.raises(MetastoreError, match="deadlock"):
        Client(MetastoreError("deadlock")).mark_cleaned(JOB)
    of_partition = QueueJob(
        queue_id=5, database="db", table="t", partition="prt=p1", type=CompactionType.MINOR, highest_write_id=3
    )
    with pytest.raises(MetastoreError, match="25P02"):
        Client(failed).mark_cleaned(of_partition)
