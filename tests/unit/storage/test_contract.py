"""Local disk does what every storage must do, also below a folder that stands for the root."""

from pathlib import Path

import pytest

from compaction_operator.storage import LocalStorage, Storage
from tests.support.storage_contract import DirectoriesContract, StorageContract


@pytest.fixture(params=["", "volumes/claim"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{tmp_path}/{request.param}" if request.param else ""


@pytest.fixture
def storage(root: str) -> Storage:
    return LocalStorage(root)


@pytest.fixture
def place(root: str, tmp_path: Path) -> str:
    location = "/warehouse/t" if root else str(tmp_path)
    Path(f"{root}{location}").mkdir(parents=True, exist_ok=True)
    return f"file:{location}"


class TestStorage(StorageContract):
    """List, read, write and delete."""


class TestDirectories(DirectoriesContract):
    """Publish by rename."""

    races = 5  # test_local.py has more, of one directory
