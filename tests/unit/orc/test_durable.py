"""A file that is published is on the disk when its task ends. A part is not: its task's checksums stand for it."""

import errno
import io
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from compaction_operator.orc import KeyRange, MergeTask, OrcError, merge_bucket, stitch_parts
from compaction_operator.orc.file import file_writer
from tests.unit.orc.build import BUCKET_0, delete, delete_task, insert, insert_task, write_acid

CUT = (1, BUCKET_0, 0)
PARTS = (KeyRange(to=CUT), KeyRange(after=CUT))


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The files that were flushed to disk, by their path, with the bytes that the kernel had by then."""
    found: dict[str, int] = {}

    def note(number: int) -> None:
        found[str(Path(f"/proc/self/fd/{number}").readlink())] = os.fstat(number).st_size

    monkeypatch.setattr(os, "fsync", note)
    return found


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that the disk is to write while they are made, by a call for each stripe."""
    found: list[str] = []

    def note(file: BinaryIO, *, begun: int) -> int:
        found.append(str(file.name))
        return begun

    monkeypatch.setattr(file_writer, "write_behind", note)
    return found


@pytest.mark.parametrize(("make", "event"), [(insert_task, insert), (delete_task, partial(delete, by=5))])
def test_what_is_published_is_flushed_and_its_parts_are_not(
    tmp_path: Path, flushed: dict[str, int], begun: list[str], make: Callable[..., MergeTask], event: Any
) -> None:
    source = write_acid(tmp_path / "source", [event(1, 0), event(1, 1)])
    flushed.clear()
    begun.clear()
    parts = [merge_bucket(make(tmp_path / f"part{n}", [source], keys=keys)) for n, keys in enumerate(PARTS)]
    assert (flushed, begun) == ({}, [])
    whole, joined = tmp_path / "whole", tmp_path / "joined"
    merge_bucket(make(whole, [source]))
    stitch_parts(parts, str(joined))
    assert flushed == {str(path): path.stat().st_size for path in (whole, joined)}
    assert begun == [str(whole), str(joined), str(joined)]


class FullDisk(io.FileIO):
    """A new file for which there is no space."""

    def write(self, _: Any) -> int:
        """Refuse any bytes."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("keys", [KeyRange(), PARTS[0]])
def test_nothing_is_left_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: KeyRange) -> None:
    """Closing such a file fails as well."""
    source = write_acid(tmp_path / "source", [insert(1, 0), insert(1, 1)])
    monkeypatch.setattr(file_writer, "create_file", lambda path: io.BufferedWriter(FullDisk(path, "xb")))
    with pytest.raises(OrcError, match=r"out: cannot be written: No space left on device"):
        merge_bucket(insert_task(tmp_path / "out", [source], keys=keys))
    assert not (tmp_path / "out").exists()
