"""A JVM of each Hive version for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox.harness.places import Place
from sandbox.hdfs.path import HdfsPath
from sandbox.hdfs.server import HdfsServer

from tests.integration.oracle.hive import HiveOracle


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/integration/oracle/" in item.path.as_posix():
            item.add_marker(pytest.mark.oracle)


@pytest.fixture(scope="session")
def hive3() -> Iterator[HiveOracle]:
    """Hive 3.1.3."""
    with HiveOracle(3) as oracle:
        yield oracle


@pytest.fixture(scope="session")
def hive4() -> Iterator[HiveOracle]:
    """Hive 4.0.1."""
    with HiveOracle(4) as oracle:
        yield oracle


@pytest.fixture(scope="session")
def oracles(hive3: HiveOracle, hive4: HiveOracle) -> dict[int, HiveOracle]:
    """Both, by version."""
    return {3: hive3, 4: hive4}


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A folder of the test's own on `file` or `hdfs`."""
    if request.param == "file":
        return tmp_path
    server: HdfsServer = request.getfixturevalue("hdfs")
    place: Place = HdfsPath(server.uri) / request.node.name
    place.mkdir()
    return place
