"""Real HDFS, started when the first test wants it and kept for all tests of this folder."""

from collections.abc import Iterator
from itertools import count

import pytest
from sandbox.hdfs.server import HdfsServer

from compaction_operator.api.stores import Hdfs
from compaction_operator.storage.hdfs import HdfsStorage, connect

TIMEOUT_SECONDS = 60.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/integration/storage/" in item.path.as_posix():
            item.add_marker(pytest.mark.storage)


@pytest.fixture(scope="session")
def hdfs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """NameNode and DataNode. This process's user is HDFS's superuser."""
    with HdfsServer(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs(hdfs_server: HdfsServer) -> HdfsStorage:
    """The file system, as its superuser."""
    return connect_to(hdfs_server)


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return count(1)


@pytest.fixture
def hdfs_place(hdfs: HdfsStorage, hdfs_server: HdfsServer, _numbers: Iterator[int]) -> str:
    """An empty directory of the test's own."""
    place = f"{hdfs_server.uri}/test{next(_numbers)}"
    hdfs.make_directory(place)
    return place


def connect_to(server: HdfsServer, *, timeout: float = TIMEOUT_SECONDS) -> HdfsStorage:
    """Return the storage of a server, with connections of its own."""
    settings = Hdfs(config_map="", mount_path=str(server.configuration))
    return connect("hdfs", server.uri.removeprefix("hdfs://"), settings, timeout=timeout)
