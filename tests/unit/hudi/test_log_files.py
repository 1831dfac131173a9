"""How log files are looked at: without the JVM, once where they cannot change, and by Hudi where only Hudi can tell."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compaction_operator.hudi.jvm.log_files import LogFiles
from compaction_operator.hudi.log_blocks import UNKNOWN
from tests.unit.hudi.test_log_format import AVRO, DELETE, INSTANT, block, deletes

NAME = ".f1_20.log.1_0-1-1"
PLACE = "", NAME


class JavaBlock:
    """A block as Hudi's own reader has it."""

    def getLogBlockHeader(self) -> dict[str, str]:  # noqa: N802
        return {"INSTANT_TIME": "30"}

    def getBlockType(self) -> str:  # noqa: N802
        return "DELETE_BLOCK"


class JavaReader:
    """Hudi's reader of log files, for one block."""

    def __init__(self) -> None:
        self._blocks = iter([True, False])
        self.closed = False

    def hasNext(self) -> bool:  # noqa: N802
        return next(self._blocks)

    def next(self) -> JavaBlock:
        return JavaBlock()

    def close(self) -> None:
        self.closed = True


class Storage:
    """Hudi's storage: all files have 7 bytes. It counts what is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def getPathInfo(self, path: Any) -> Any:  # noqa: N802
        self.asked.append(path)
        return SimpleNamespace(getLength=lambda: 7)


def opened(folder: Path, storage: Storage, *, names_have_instants: bool = True) -> LogFiles:
    keys = SimpleNamespace(
        INSTANT_TIME="INSTANT_TIME", COMPACTED_BLOCK_TIMES="C", IS_PARTIAL="P", TARGET_INSTANT_TIME="T"
    )
    log = SimpleNamespace(
        block=SimpleNamespace(HoodieLogBlock=SimpleNamespace(HeaderMetadataType=keys)),
        HoodieLogFormat=SimpleNamespace(newReader=lambda *_: JavaReader()),
    )
    model = SimpleNamespace(HoodieLogFile=lambda path: path)
    common = SimpleNamespace(table=SimpleNamespace(log=log), model=model)
    hudi = SimpleNamespace(common=common, storage=SimpleNamespace(StoragePath=str))
    return LogFiles(hudi, storage, str(folder), names_have_instants=names_have_instants)


def write(folder: Path, *blocks: bytes) -> None:
    (folder / NAME).write_bytes(b"".join(blocks))


def test_a_file_is_read_without_the_jvm(tmp_path: Path) -> None:
    write(tmp_path, block(AVRO, {INSTANT: "20"}), block(DELETE, {INSTANT: "20"}, deletes(2)))
    storage = Storage()
    found = opened(tmp_path, storage).read([PLACE])[PLACE]
    assert (found.instants, found.deletes, found.size) == (("20",), frozenset({2}), (tmp_path / NAME).stat().st_size)
    assert storage.asked == []


@pytest.mark.parametrize(("names_have_instants", "again"), [(True, ("20",)), (False, ("20", "30"))])
def test_only_a_file_of_one_instant_is_read_once(
    tmp_path: Path, names_have_instants: bool, again: tuple[str, ...]
) -> None:
    """Elsewhere another commit may have appended to it since the first draft of a plan."""
    files = opened(tmp_path, Storage(), names_have_instants=names_have_instants)
    write(tmp_path, block(AVRO, {INSTANT: "20"}))
    assert files.read([PLACE])[PLACE].instants == ("20",)
    write(tmp_path, block(AVRO, {INSTANT: "20"}), block(AVRO, {INSTANT: "30"}))
    assert files.read([PLACE])[PLACE].instants == again


@pytest.mark.parametrize("data", [None, b"#HUDI#", block(AVRO, {INSTANT: "20"})[:-1]], ids=["gone", "cut", "damaged"])
def test_what_python_cannot_read_is_asked_of_hudi(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        write(tmp_path, data)
    found = opened(tmp_path, Storage()).read([PLACE])[PLACE]
    assert (found.instants, found.deletes, found.size) == (("30",), frozenset({UNKNOWN}), 7)


def test_the_headers_of_a_plain_commit_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, block(AVRO, {INSTANT: "25"}))
    files = opened(tmp_path, Storage())
    assert files.glance([PLACE], plain={"20"})[PLACE].instants == ("20",)
    assert files.glance([PLACE], plain=())[PLACE].instants == ("25",)


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "part=a%20b"
    folder.mkdir()
    yield folder


def test_sizes_come_by_one_listing_and_of_other_files_from_hudi(tmp_path: Path, partition: Path) -> None:
    (partition / "base").write_bytes(b"123")
    storage = Storage()
    places = (partition.name, "base"), (partition.name, "gone"), ("no-such-partition", "base")
    assert list(opened(tmp_path, storage).sizes(places).values()).count(7) == 2
    assert opened(tmp_path, storage).sizes(places[:1]) == {places[0]: 3}
    assert all("gone" in path or "no-such" in path for path in storage.asked)


def test_the_size_of_a_symbolic_link_is_that_of_its_file(partition: Path) -> None:
    """Hudi follows the link; the link itself has the size of its target's path."""
    (partition / "link").symlink_to("/elsewhere")
    place = partition.name, "link"
    assert opened(partition.parent, Storage()).sizes([place]) == {place: 7}
