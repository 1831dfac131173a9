"""A JVM of each Hive version for all tests of this folder."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sandbox.harness.places import Place
from sandbox.hdfs.path import HdfsPath
from sandbox.hdfs.server import HdfsServer

from tests.integration.conftest import TestBucket
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
def hive4(request: pytest.FixtureRequest) -> Iterator[HiveOracle]:
    """Hive 4.0.1, or the release that `--hive4` says."""
    with HiveOracle(4, release=request.config.getoption("hive4")) as oracle:
        yield oracle


@pytest.fixture(scope="session")
def hive42() -> Iterator[HiveOracle]:
    """Hive 4.2.0, for the few tests that also ask it without `--hive4`."""
    with HiveOracle(4, release="4.2.0") as oracle:
        yield oracle


@pytest.fixture
def oracle(request: pytest.FixtureRequest) -> HiveOracle:
    """The one of that fixture: hive3, hive4 or hive42."""
    found: HiveOracle = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def oracles(hive3: HiveOracle, hive4: HiveOracle) -> dict[int, HiveOracle]:
    """Both, by version."""
    return {3: hive3, 4: hive4}


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A folder of the test's own on `file`, `hdfs` or `s3`."""
    if request.param == "file":
        return tmp_path
    place: Place = _root(request) / re.sub(r"\W", "-", request.node.name)
    place.mkdir()
    return place


def _root(request: pytest.FixtureRequest) -> Place:
    if request.param == "hdfs":
        server: HdfsServer = request.getfixturevalue("hdfs")
        return HdfsPath(server.uri)
    bucket_of: Callable[[str], TestBucket] = request.getfixturevalue("bucket_of")
    bucket = bucket_of("minio")
    oracle: HiveOracle = request.getfixturevalue("hive4")
    oracle.configure(bucket.server.hadoop(bucket.name))
    return bucket.root
