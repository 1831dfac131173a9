"""HDFS does what every storage must do."""

import pytest

from compaction_operator.storage.hdfs import HdfsStorage
from tests.support.storage_contract import DirectoriesContract, FilesContract, StorageContract


@pytest.fixture
def storage(hdfs: HdfsStorage) -> HdfsStorage:
    return hdfs


@pytest.fixture
def place(hdfs_place: str) -> str:
    return hdfs_place


class TestStorage(StorageContract):
    """List, read, write and delete."""


class TestDirectories(DirectoriesContract):
    """Publish by rename."""


class TestFiles(FilesContract):
    """Read and write by requests."""
