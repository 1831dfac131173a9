"""What the folders of integration tests share."""

from collections.abc import Iterator

import pytest
from sandbox.hdfs.server import HdfsServer


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """A NameNode and a DataNode, started when the first test wants them."""
    with HdfsServer(tmp_path_factory.mktemp("hdfs")) as server:
        yield server
