"""A new file on a volume: the disk writes it while more of it is made."""

import os
from pathlib import Path

import pytest

from compaction_operator.storage import create_file, stores, write_behind


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """For each range that the disk is to write: its begin, its end, and what the kernel had of the file by then."""
    found: list[tuple[int, int, int]] = []

    def note(number: int, offset: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_DONTNEED
        found.append((offset, offset + length, os.fstat(number).st_size))

    monkeypatch.setattr(os, "posix_fadvise", note)
    monkeypatch.setattr(stores, "WRITE_BEHIND", 1000)
    return found


def test_the_disk_begins_once_there_is_enough_to_write(tmp_path: Path, advised: list[tuple[int, int, int]]):
    begun = 0
    with create_file(str(tmp_path / "new")) as file:
        for _ in range(7):
            file.write(bytes(400))
            begun = write_behind(file, begun=begun)
    assert advised == [(0, 1200, 1200), (1200, 2400, 2400)]
