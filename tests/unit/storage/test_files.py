"""A file of a store as the reader of ORC uses it: which requests its reads make."""

import io
import random
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.storage import files
from compaction_operator.storage.files import READ_AHEAD, RemoteFile

CONTENT = random.Random(3).randbytes(10 * READ_AHEAD + 7)
SIZE = len(CONTENT)


class Reader:
    """An open file that notes the ranges which it is asked for."""

    def __init__(self, content: bytes, end: int) -> None:
        self.size = len(content)
        self.asked: list[tuple[int, int]] = []
        self._content = content
        self._end = content[len(content) - end :]

    def read(self, offset: int, length: int) -> bytes:
        assert 0 <= offset < offset + length <= self.size
        self.asked.append((offset, length))
        return self._content[offset : offset + length]

    def take_end(self) -> bytes:
        end, self._end = self._end, b""
        return end


class Store:
    """A store of one file. Opening the file brings its last bytes."""

    def __init__(self, content: bytes = CONTENT, *, end: int = 0) -> None:
        self.content, self.end = content, end
        self.readers: list[Reader] = []

    def reader(self, _path: str) -> Reader:
        self.readers.append(Reader(self.content, self.end))
        return self.readers[-1]

    def writer(self, path: str) -> Any:
        raise AssertionError(path)

    @property
    def asked(self) -> list[tuple[int, int]]:
        (reader,) = self.readers
        return reader.asked


def read(file: RemoteFile, offset: int, length: int, *, read_ahead: bool = True) -> bytes:
    """Open the file and read a range."""
    with file.open(read_ahead=read_ahead) as opened:
        opened.seek(offset)
        return opened.read(length)


@pytest.mark.parametrize(
    ("ranges", "asked"),
    [
        pytest.param([(5, 10), (20, 100), (5, READ_AHEAD)], [(5, READ_AHEAD)], id="what follows"),
        pytest.param([(SIZE - 9, 9), (SIZE - 500, 50)], [(SIZE - READ_AHEAD, READ_AHEAD)], id="the end, from its last"),
        pytest.param([(0, 2 * READ_AHEAD + 5)], [(0, 2 * READ_AHEAD + 5)], id="a large range by one request"),
        pytest.param([(0, READ_AHEAD)] * 2, [(0, READ_AHEAD)] * 2, id="large ranges are not kept"),
        pytest.param([(SIZE - 3, 100), (SIZE, 1), (SIZE + 5, 1)], [(SIZE - READ_AHEAD, READ_AHEAD)], id="none behind"),
        pytest.param([(0, 10), (READ_AHEAD - 1, 2)], [(0, READ_AHEAD), (READ_AHEAD - 1, READ_AHEAD)], id="across"),
    ],
)
def test_small_ranges_near_each_other_come_by_one_request(
    ranges: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    store = Store()
    file = RemoteFile(store, "/file")
    for offset, length in ranges:
        assert read(file, offset, length) == CONTENT[offset : offset + length]
    assert store.asked == asked


def test_without_read_ahead_nothing_else_comes_and_nothing_is_kept() -> None:
    store = Store()
    file = RemoteFile(store, "/file")
    for _ in range(2):
        assert read(file, 50, 10, read_ahead=False) == CONTENT[50:60]
    assert store.asked == [(50, 10)] * 2


@pytest.mark.parametrize("size", [READ_AHEAD // 2, SIZE])
def test_the_end_that_came_with_the_opening_is_asked_for_no_more(size: int) -> None:
    store = Store(CONTENT[:size], end=min(size, READ_AHEAD))
    file = RemoteFile(store, "/file")
    with file.open() as opened:
        assert opened.seek(-10, io.SEEK_END) == size - 10
        assert opened.read() == CONTENT[size - 10 : size]
    assert read(file, size - READ_AHEAD // 2, 5, read_ahead=False) == CONTENT[size - READ_AHEAD // 2 :][:5]
    assert store.asked == []


def test_all_of_a_small_file_comes_by_one_request() -> None:
    store = Store(CONTENT[:100])
    file = RemoteFile(store, "/file")
    assert read(file, 90, -1) == CONTENT[90:100]
    assert read(file, 0, 50) == CONTENT[:50]
    assert store.asked == [(0, 100)]


def test_a_file_is_that_of_its_opening_and_not_that_of_its_name() -> None:
    """Another attempt's file may have the same path: nothing of it is taken for this one's."""
    old, new = Store(b"old"), Store(b"new")
    first, second = RemoteFile(old, "/file"), RemoteFile(new, "/file")
    assert (read(first, 0, 3), read(second, 0, 3), read(first, 0, 3)) == (b"old", b"new", b"old")


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task may look thousands of files up; of each only the last pieces stay, and of most files nothing."""
    kept = files._Lately()
    monkeypatch.setattr(files, "_lately", kept)
    for _ in range(files._FILES + 10):
        file = RemoteFile(Store(end=10), "/file")
        for start in range(0, SIZE - READ_AHEAD, READ_AHEAD):
            read(file, start, 1)
    pieces = [piece for pieces in kept._files.values() for piece in pieces]
    assert len(kept._files) == files._FILES
    assert sum(len(data) for _, data in pieces) <= files._FILES * files._PIECES * READ_AHEAD


def test_a_large_range_of_a_store_comes_by_large_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "REMOTE_PIECE", 2 * READ_AHEAD)
    store = Store()
    with RemoteFile(store, "/file").open() as opened:
        pieces = [bytes(piece) for piece in files.read_pieces(opened, offset=7, length=5 * READ_AHEAD)]
    assert b"".join(pieces) == CONTENT[7 : 7 + 5 * READ_AHEAD]
    assert store.asked == [(7 + 2 * number * READ_AHEAD, (2 - number // 2) * READ_AHEAD) for number in range(3)]


@pytest.mark.parametrize("length", [0, 1, READ_AHEAD, SIZE - 7, SIZE])
def test_a_large_range_of_a_local_file_comes_in_pieces_up_to_its_end(
    tmp_path: Path, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOCAL_PIECE", READ_AHEAD)
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    with path.open("rb") as opened:
        opened.read(3)
        pieces = [bytes(piece) for piece in files.read_pieces(opened, offset=7, length=length)]
    assert b"".join(pieces) == CONTENT[7 : 7 + length]
    assert all(len(piece) <= READ_AHEAD for piece in pieces)


def test_what_is_written_to_a_local_file_is_checked_by_no_store(tmp_path: Path) -> None:
    class Writer:
        def write(self, data: bytes | memoryview) -> None:
            """Take it."""

        def close(self) -> None:
            """Have it."""

    class Written(Store):
        def writer(self, path: str) -> Any:
            return Writer() if path else None

    with files.created(Written(), "/file") as remote, (tmp_path / "file").open("xb") as local:
        assert files.is_checked_by_store(remote)
        assert not files.is_checked_by_store(local)
