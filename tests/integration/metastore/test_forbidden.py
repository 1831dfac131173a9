"""One partition of many that the operator may not touch: the others are compacted and cleaned up, and it is named."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from urllib.parse import quote

import pytest
from hdfs_native import Client
from sandbox.hdfs.path import OPEN_TO_ALL, HdfsPath
from sandbox.metastore.server import MetastoreServer
from sandbox.s3.proxy import Answer, Call, Forward, MisbehavingProxy, refused

from compaction_operator.api.cleanup import PublishedState
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.storage import stores
from tests.integration.conftest import TestBucket, tell_product
from tests.integration.metastore.controller_steps import ControllerSteps
from tests.integration.metastore.fixture_table import FixtureTable

SERVERS = ("3.1.3-hdfs", "4.0.1-hdfs", "4.0.1-minio")
FORBIDDEN, OTHERS = "prt=p2", ("prt=p1", "prt=p3")
DENIED = "Permission denied|AccessDenied"
OPERATIONS = (
    "list",
    "get",
    "head",
    "put",
    "delete",
    "begin",
    "complete",
    "abort",
    "copy_part",
    "put_part",
    "list_parts",
)

Forbid = Callable[[FixtureTable], AbstractContextManager[None]]


@pytest.fixture
def forbid(
    server: MetastoreServer, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Forbid]:
    """Forbid the operator one partition for as long as a context lasts. It is no superuser of its store."""
    if isinstance(server.warehouse, HdfsPath):
        monkeypatch.setenv("HADOOP_USER_NAME", "compactor")
        stores._own_stores.cache_clear()  # earlier tests connected as another user
        yield _no_permission
    else:
        bucket: TestBucket = request.getfixturevalue("bucket_of")("minio")
        with MisbehavingProxy(bucket.server.endpoint) as proxy:
            tell_product({bucket.name: bucket.server.settings(endpoint=proxy.endpoint)}, monkeypatch)
            yield lambda _: _denied(proxy)
    stores._own_stores.cache_clear()


@pytest.fixture
def table(try_it: FixtureTable, forbid: Forbid) -> FixtureTable:
    """Any user of HDFS may change it."""
    for partition in (FORBIDDEN, *OTHERS):
        if isinstance(place := try_it.directory / partition, HdfsPath):
            place._client.set_permission(place.path, OPEN_TO_ALL)
    return try_it


@contextmanager
def _no_permission(table: FixtureTable) -> Iterator[None]:
    """Take all rights on the partition's directory away."""
    assert isinstance(table.directory, HdfsPath)
    place = table.directory / FORBIDDEN
    superuser: Client = place._client
    superuser.set_permission(place.path, 0)
    yield
    superuser.set_permission(place.path, OPEN_TO_ALL)


@contextmanager
def _denied(proxy: MisbehavingProxy) -> Iterator[None]:
    """Answer 403 to all calls that name a key of the partition. NB: a listing of all partitions names none."""

    def deny(call: Call, forward: Forward) -> Answer | None:
        names = f"{call.target} {call.body.decode(errors='replace')}"
        is_denied = FORBIDDEN in names or quote(FORBIDDEN) in names
        return refused(403, "AccessDenied")(call, forward) if is_denied else forward()

    proxy.behave(**dict.fromkeys(OPERATIONS, deny))
    yield
    proxy.behave()


def bases(table: FixtureTable) -> list[str]:
    """The partitions that have a base."""
    return [p for p in (*OTHERS, FORBIDDEN) if any(name.startswith("base_") for name in table.visible(p))]


def test_a_compaction_does_the_others_and_names_the_forbidden_one(table: FixtureTable, forbid: Forbid) -> None:
    before = table.names(FORBIDDEN)
    with forbid(table), pytest.raises(JobError, match=DENIED) as raised:
        table.run(CompactionType.MAJOR)
    assert FORBIDDEN in str(raised.value)
    assert raised.value.reason is Reason.UNREADABLE_FILE
    assert bases(table) == list(OTHERS)
    assert table.names(FORBIDDEN) == before
    assert (table.locks(), table.own_transactions()) == ([], [])
    assert table.run(CompactionType.MAJOR, attempt=2).reason is Reason.COMPACTED
    assert bases(table) == [*OTHERS, FORBIDDEN]


def test_a_cleanup_does_the_others_and_names_the_forbidden_one(
    table: FixtureTable, forbid: Forbid, compact: Callable[..., ControllerSteps]
) -> None:
    steps = compact(table, kind=CompactionType.MAJOR)
    assert set(steps.settle().values()) == {PublishedState.PUBLISHED}
    before = table.names(FORBIDDEN)
    with forbid(table):
        done = {result.partition: result for result in steps.delete()}
    assert table.names(FORBIDDEN) == before
    assert [partition for partition, result in done.items() if result.final] == list(OTHERS)
    skipped = done[FORBIDDEN].skipped or ""
    assert FORBIDDEN in skipped and ("Permission denied" in skipped or "AccessDenied" in skipped)
    assert all(len(table.names(partition)) == 1 for partition in OTHERS)
    assert all(result.final for result in steps.delete())
    assert [name for name in table.names(FORBIDDEN) if not name.startswith("base_")] == []
    assert steps.finish() is None
