"""H4, H19 on S3: a driver is stopped at each step of a publication and wakes when the next attempt is done.

By then the metastore has forgotten the aborted transaction: whatever becomes visible under it would count.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import pytest
from sandbox.harness.wait import wait_until
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.cleanup import PublishedState, Upload
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.metastore import MetastoreClient, QueueState
from compaction_operator.storage.s3.uploads import S3Uploads
from tests.integration.metastore.controller_steps import ControllerSteps, attempt_of, cleanup_of, real_work
from tests.integration.metastore.fixture_table import FixtureTable, spec_of
from tests.unit.driver.support import Store

PARTITION, P1 = "prt=p1", ("prt='p1'",)
PAIR = ["delete_delta_0000001_0000005", "delta_0000001_0000005"]
FILES = 4
SECONDS = 60.0
STEPS = ("begun", "journal", *(f"{number} complete" for number in range(FILES + 1)), "compacted")
"""After the uploads were begun, the journal was written, the guard has passed and so many uploads are complete, and
right before the commit."""
CASES = [
    *(("4.0.1-minio", step) for step in STEPS),
    *(("4.0.1-minio-versioned", step) for step in ("0 complete", "1 complete", f"{FILES} complete")),
]


class StoppedDriver(threading.Thread):
    """A driver of the first attempt, which waits after one of the STEPS until it is woken."""

    def __init__(self, table: FixtureTable, step: str) -> None:
        super().__init__(daemon=True)
        self.store = _StoppingStore(self)
        self.outcome: DriverResult | Exception | None = None
        self.txn = 0
        self._table = table
        self._step = step
        self._stopped = threading.Event()
        self._woken = threading.Event()

    def stop(self) -> Self:
        """Start it, and return when it has stopped."""
        self.start()
        wait_until(lambda: self._stopped.is_set() or not self.is_alive(), timeout=SECONDS, what="the driver to stop")
        assert self._stopped.is_set(), self.outcome
        (self.txn,) = self._table.own_transactions()
        return self

    def wake(self) -> None:
        """Let it go on to its end."""
        self._woken.set()
        self.join(SECONDS)
        assert not self.is_alive()

    def run(self) -> None:
        client: Any = _StoppingClient(self._table.admin, self)
        try:
            self.outcome = self._table.run(CompactionType.MINOR, store=self.store, partitions=P1, client=client)
        except Exception as error:  # whatever it is: the test looks at it
            self.outcome = error

    def passes(self, step: str) -> None:
        """It has come to a step."""
        if step == self._step and threading.current_thread() is self:
            self._stopped.set()
            self._woken.wait(SECONDS)


class _StoppingStore(Store):
    def __init__(self, driver: StoppedDriver) -> None:
        super().__init__(on_create=lambda: driver.passes("journal"))
        self._driver = driver

    def create(self, namespace: str, body: dict[str, Any]) -> bool:
        self._driver.passes("begun")
        return super().create(namespace, body)


class _StoppingClient:
    def __init__(self, client: MetastoreClient, driver: StoppedDriver) -> None:
        self._client = client
        self._driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def commit_txn(self, txn: int) -> None:
        self._driver.passes("compacted")
        self._client.commit_txn(txn)


@pytest.fixture
def stopped(try_it: FixtureTable, step: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoppedDriver]:
    driver, complete = StoppedDriver(try_it, step), S3Uploads.complete

    def one_by_one(self: S3Uploads, location: str, uploads: Iterable[Upload]) -> None:
        for number, upload in enumerate(uploads):
            driver.passes(f"{number} complete")
            complete(self, location, [upload])
        driver.passes(f"{FILES} complete")

    monkeypatch.setattr(S3Uploads, "complete", one_by_one)
    yield driver.stop()
    driver.wake()


def ended(table: FixtureTable, server: MetastoreServer, driver: StoppedDriver) -> None:
    """End the attempt as the controller does: what its journal names, if there is one, then the rest."""
    work = real_work(table, server.uri)
    if driver.store.resources:
        steps = ControllerSteps(work, cleanup_of(driver.store))
        assert steps.settle() == {PARTITION: PublishedState.NOT_PUBLISHED}
    assert work.end_attempt(attempt_of(table, 1)) is None


def done_again(table: FixtureTable, server: MetastoreServer) -> None:
    """Let a second attempt compact, and clean up after it to the end."""
    store = Store()
    result = table.run(CompactionType.MINOR, store=store, partitions=P1, attempt=2, pod="pod2")
    assert result.reason is Reason.COMPACTED
    steps = ControllerSteps(real_work(table, server.uri), cleanup_of(store))
    assert steps.settle() == {PARTITION: PublishedState.PUBLISHED}
    assert all(found.final for found in steps.delete())
    assert steps.finish() is None


def done_again_beside_hives_cleaner(table: FixtureTable, server: MetastoreServer) -> None:
    """Let a second attempt compact, and Hive clean up after it: nothing is left to us."""
    store = Store()
    result = table.run(CompactionType.MINOR, store=store, partitions=P1, attempt=2, pod="pod2")
    assert result.reason is Reason.COMPACTED
    is_cleaned = lambda: table.queue()[-1].state is QueueState.SUCCEEDED  # noqa: E731
    wait_until(is_cleaned, timeout=SECONDS, what="Hive's Cleaner", poll=0.2)
    steps = ControllerSteps(real_work(table, server.uri), cleanup_of(store))
    assert steps.settle() == {PARTITION: PublishedState.PUBLISHED}
    assert [(found.deleted, found.final) for found in steps.delete()] == [((), True)]
    assert steps.finish() is None


def is_forgotten(table: FixtureTable, txn: int) -> Callable[[], bool]:
    return lambda: table.admin.valid_txns().is_valid(txn)


@pytest.mark.parametrize(("server", "step"), CASES, indirect=["server"], scope="session")
def test_nothing_of_a_driver_that_wakes_too_late_becomes_visible(
    try_it: FixtureTable, server: MetastoreServer, stopped: StoppedDriver, step: str
) -> None:
    ended(try_it, server, stopped)
    done_again(try_it, server)
    require_nothing_new(try_it, server, stopped)


@pytest.mark.parametrize(("server", "step"), [("4.0.1-minio-versioned", "1 complete")], indirect=["server"])
def test_nor_does_it_where_hives_own_cleaner_is_at_work(
    try_it: FixtureTable, server: MetastoreServer, stopped: StoppedDriver, step: str
) -> None:
    """It makes the metastore forget, too."""
    ended(try_it, server, stopped)
    done_again_beside_hives_cleaner(try_it, server)
    require_nothing_new(try_it, server, stopped)


def require_nothing_new(try_it: FixtureTable, server: MetastoreServer, stopped: StoppedDriver) -> None:
    """Wake the driver when the metastore has forgotten its transaction: it publishes nothing, and leaves nothing."""
    wait_until(is_forgotten(try_it, stopped.txn), timeout=SECONDS, what="the metastore to forget", poll=0.1)
    after = try_it.names(PARTITION)
    assert try_it.visible(PARTITION) == PAIR
    stopped.wake()
    assert isinstance(stopped.outcome, JobError), stopped.outcome
    assert try_it.names(PARTITION) == after
    (entry,) = spec_of(stopped.store)["partitions"]
    names = [upload["name"] for upload in entry["uploads"]]
    assert len(names) == FILES
    assert [place for name in names if (place := try_it.directory / PARTITION / name).uploads()] == []
    steps = ControllerSteps(real_work(try_it, server.uri), cleanup_of(stopped.store))
    assert steps.settle() == {PARTITION: PublishedState.NOT_PUBLISHED}
    assert try_it.names(PARTITION) == after
