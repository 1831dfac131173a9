"""HDFS does what every storage must do, with Kerberos and without."""

import pytest

from compaction_operator.storage.hdfs import HdfsStorage
from tests.integration.storage.hdfs_users import Hadoop
from tests.support.storage_contract import DirectoriesContract, FilesContract, StorageContract


@pytest.fixture(params=["plain", "kerberized"], scope="session")
def hadoop(request: pytest.FixtureRequest) -> Hadoop:
    hadoop: Hadoop = request.getfixturevalue(request.param)
    return hadoop


@pytest.fixture
def storage(hadoop: Hadoop) -> HdfsStorage:
    return hadoop.storage


class TestStorage(StorageContract):
    """List, read, write and delete."""


class TestDirectories(DirectoriesContract):
    """Publish by rename."""


class TestFiles(FilesContract):
    """Read and write by requests."""
