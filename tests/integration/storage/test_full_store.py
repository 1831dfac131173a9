"""A store without space in the middle of an attempt: nothing is published or lost, and the next attempt succeeds."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from sandbox.harness.places import Place, copy_tree, files_below
from sandbox.harness.wait import wait_until
from sandbox.hdfs.path import HdfsPath
from sandbox.hdfs.server import HdfsServer
from sandbox.s3.path import S3Path, make_bucket
from sandbox.s3.server import S3Server

from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.storage import StorageError, open_storage, stores
from tests.integration.conftest import tell_product
from tests.integration.storage.small_disk import SmallDisk
from tests.support.metastore import ABORTED
from tests.unit.driver.test_hive4 import THREE_INSERTS, hive4_metastore, run

SECONDS = 60.0
PARTITIONS = ("p1", "p2", "p3")
BUCKET = "small"


@dataclass(frozen=True)
class FullStore:
    """A place in a store, what takes all its space, and what gives it back."""

    place: Place
    fill: Callable[[], None]
    free: Callable[[], None]
    reason: Reason = Reason.STORAGE_UNAVAILABLE
    says: str = ""

    def takes(self, name: str) -> bool:
        """Whether a file can be written."""
        with suppress(StorageError):
            open_storage(str(self.place)).write(str(self.place / name), bytes(1 << 20))
            return True
        return False


@pytest.fixture(scope="session")
def small_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HdfsServer, SmallDisk]]:
    """HDFS whose only DataNode has a small disk."""
    folder = tmp_path_factory.mktemp("small-hdfs")
    (folder / "data").mkdir()
    properties = {
        "dfs.blocksize": str(1 << 20),
        "dfs.datanode.round-robin-volume-choosing-policy.additional-available-space": "0",
        "dfs.heartbeat.interval": "1",
        "dfs.namenode.file.close.num-committed-allowed": "1",  # or the client waits half a second for each file
    }
    with SmallDisk(folder / "data", megabytes=64) as disk, HdfsServer(folder, properties=properties) as server:
        yield server, disk


@pytest.fixture(scope="session")
def small_bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Server, S3Path, SmallDisk]]:
    """A bucket of a MinIO with a small disk."""
    folder = tmp_path_factory.mktemp("small-minio")
    (folder / "data").mkdir()
    with SmallDisk(folder / "data", megabytes=64) as disk, S3Server(folder) as server:
        yield server, make_bucket(server, BUCKET), disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FullStore]:
    with SmallDisk(tmp_path, megabytes=4) as small:
        (tmp_path / "tables").mkdir()
        yield FullStore(tmp_path / "tables", small.fill, small.free, says="No space left on device")


@pytest.fixture
def hdfs(small_hdfs: tuple[HdfsServer, SmallDisk]) -> FullStore:
    server, small = small_hdfs
    return FullStore(HdfsPath(server.uri) / "full", small.fill, small.free)


@pytest.fixture
def hdfs_quota(small_hdfs: tuple[HdfsServer, SmallDisk]) -> FullStore:
    """A quota is a decision: the attempt counts."""
    server, _ = small_hdfs
    place = HdfsPath(server.uri) / "quota"

    def fill() -> None:
        server.admin("-setSpaceQuota", "1", place.path)

    def free() -> None:
        server.admin("-clrSpaceQuota", place.path)

    return FullStore(place, fill, free, Reason.UNREADABLE_FILE, "DSQuotaExceededException: The DiskSpace quota")


@pytest.fixture
def s3(small_bucket: tuple[S3Server, S3Path, SmallDisk], monkeypatch: pytest.MonkeyPatch) -> Iterator[FullStore]:
    server, root, small = small_bucket
    tell_product({BUCKET: server.settings()}, monkeypatch)
    yield FullStore(root / "full", small.fill, small.free, says="XMinioStorageFull")
    stores._own_stores.cache_clear()


@pytest.fixture(params=["disk", "hdfs", "hdfs_quota", "s3"])
def store(request: pytest.FixtureRequest) -> FullStore:
    full: FullStore = request.getfixturevalue(request.param)
    return full


def content(place: Place) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in files_below(place)}


def test_a_compaction_without_space_changes_nothing_and_succeeds_when_there_is_some(store: FullStore) -> None:
    places = [copy_tree(THREE_INSERTS, store.place / name) for name in PARTITIONS]
    before = content(store.place)
    metastore = hive4_metastore()
    fill_once = cache(store.fill)
    metastore.on("update_compaction", lambda *_: fill_once())
    with pytest.raises(JobError) as raised:
        run(metastore, places)
    assert str(store.place) in str(raised.value) and store.says in str(raised.value)
    assert raised.value.reason is store.reason
    assert content(store.place) == before
    assert set(metastore.outcomes().values()) == {ABORTED}
    store.free()
    metastore.recover()
    wait_until(lambda: store.takes("probe"), timeout=SECONDS, what="space")
    assert run(metastore, places).reason is Reason.COMPACTED
