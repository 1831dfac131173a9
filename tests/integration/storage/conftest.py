"""A real HDFS and a kerberized one, each started when the first test wants it and kept for all tests of this folder."""

import os
from collections.abc import Iterator
from itertools import count

import pytest
from sandbox.hdfs.server import SERVICE, HdfsServer
from sandbox.kerberos.kdc import Kdc

from tests.integration.storage.hdfs_users import Hadoop


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/integration/storage/" in item.path.as_posix():
            item.add_marker(pytest.mark.storage)


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """HDFS that believes what its clients say. This process's user is the superuser."""
    with HdfsServer(tmp_path_factory.mktemp("hdfs")) as server:
        yield Hadoop(server)


@pytest.fixture(scope="session")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """The realm of this process, too."""
    with Kdc(tmp_path_factory.mktemp("kdc")) as kdc, pytest.MonkeyPatch.context() as patch:
        for name, value in kdc.environment.items():
            patch.setitem(os.environ, name, value)
        yield kdc


@pytest.fixture(scope="session")
def kerberized(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """HDFS that requires Kerberos, and encrypts what it sends."""
    with HdfsServer(tmp_path_factory.mktemp("kerberized"), kdc=kdc) as server:
        assert server.service_keytab
        yield Hadoop(server, principal=kdc.principal(SERVICE), keytab=server.service_keytab)


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return count(1)


@pytest.fixture
def place(hadoop: Hadoop, _numbers: Iterator[int]) -> str:
    """An empty directory of the test's own, in the file system that its module calls `hadoop`."""
    place = f"{hadoop.server.uri}/test{next(_numbers)}"
    hadoop.storage.make_directory(place)
    return place
