"""Local disk does what every storage must do."""

from pathlib import Path

import pytest

from compaction_operator.storage import LocalStorage, Storage
from tests.support.storage_contract import DirectoriesContract, StorageContract


@pytest.fixture
def storage() -> Storage:
    return LocalStorage()


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"file:{tmp_path}"


class TestStorage(StorageContract):
    """List, read, write and delete."""


class TestDirectories(DirectoriesContract):
    """Publish by rename."""

    races = 5  # test_local.py has more, of one directory
