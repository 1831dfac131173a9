"""What every storage must do. A new one is added to the fixture and has to pass all of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from compaction_operator.acid.listing import Directory, File
from compaction_operator.storage import (
    AlreadyExistsError,
    Entry,
    EntryKind,
    LocalStorage,
    NotFoundError,
    Storage,
    StorageError,
    join,
)


@pytest.fixture(params=[LocalStorage])
def storage(request: pytest.FixtureRequest) -> Storage:
    make: Callable[[], Storage] = request.param
    return make()


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"file:{tmp_path}"


def _tree(storage: Storage, place: str, *names: str) -> str:
    directory = place
    for name in names:
        directory = join(directory, name)
        storage.make_directory(directory)
    storage.write(join(directory, "bucket_00000"), b"rows")
    return directory


def test_a_written_file_is_read_back(storage: Storage, place: str) -> None:
    storage.write(join(place, "file"), b"content")
    assert storage.read(join(place, "file")) == b"content"


def test_write_keeps_a_file_that_exists_and_leaves_nothing_else(storage: Storage, place: str) -> None:
    storage.write(join(place, "file"), b"first")
    with pytest.raises(AlreadyExistsError, match="file"):
        storage.write(join(place, "file"), b"second")
    assert storage.read(join(place, "file")) == b"first"
    assert [entry.name for entry in storage.list(place)] == ["file"]


def test_reading_what_is_not_there_names_it(storage: Storage, place: str) -> None:
    with pytest.raises(NotFoundError, match="missing"):
        storage.read(join(place, "missing"))


def test_make_directory_needs_the_one_above_and_may_be_repeated(storage: Storage, place: str) -> None:
    """What a fence took away must not come back by a driver that goes on writing."""
    storage.make_directory(join(place, "a"))
    storage.make_directory(join(place, "a"))
    assert storage.list(place) == [Entry("a", EntryKind.DIRECTORY, 0)]
    with pytest.raises(NotFoundError):
        storage.make_directory(join(place, "missing", "below"))


def test_make_directory_does_not_go_through_a_file(storage: Storage, place: str) -> None:
    storage.write(join(place, "file"), b"")
    with pytest.raises(StorageError, match="file"):
        storage.make_directory(join(place, "file", "below"))


def test_list_gives_direct_children_by_name_with_hidden_ones(storage: Storage, place: str) -> None:
    _tree(storage, place, "delta_0000001_0000001")
    storage.write(join(place, "_hidden"), b"12")
    assert storage.list(place) == [
        Entry("_hidden", EntryKind.FILE, 2),
        Entry("delta_0000001_0000001", EntryKind.DIRECTORY, 0),
    ]


def test_listing_what_is_not_there_names_it(storage: Storage, place: str) -> None:
    with pytest.raises(NotFoundError, match="missing"):
        storage.list(join(place, "missing"))
    with pytest.raises(NotFoundError, match="missing"):
        storage.list_partition(join(place, "missing"))


def test_list_partition_leaves_out_hidden_children_and_keeps_side_files(storage: Storage, place: str) -> None:
    base = _tree(storage, place, "base_0000003")
    storage.write(join(base, "_metadata_acid"), b"{}")
    _tree(storage, base, "sub")
    _tree(storage, place, "_compaction_x")
    storage.write(join(place, "000000_0"), b"original")
    listing = storage.list_partition(place)
    files = (File("_metadata_acid", 2, b"{}"), File("bucket_00000", 4), File("sub/bucket_00000", 4))
    assert listing.directories == (Directory("base_0000003", files),)
    assert listing.files == (File("000000_0", 8),)


def test_list_partition_reads_the_beginning_of_what_decides_by_its_content(storage: Storage, place: str) -> None:
    """`_metadata_acid` is tiny if Hive wrote it. A large one must not fill the memory."""
    base = _tree(storage, place, "base_0000003")
    storage.write(join(base, "_metadata_acid"), b"{" + b" " * 10_000)
    storage.write(join(base, "_orc_acid_version"), b"2")
    (found,) = storage.list_partition(place).directories
    assert {file.name: file.content for file in found.files} == {
        "_metadata_acid": b"{" + b" " * 4095,
        "_orc_acid_version": None,
        "bucket_00000": None,
    }


@pytest.mark.parametrize("operation", ["rename", "publish"])
def test_rename_moves_a_whole_tree(storage: Storage, place: str, operation: str) -> None:
    source = _tree(storage, place, "staging", "base_0000003")
    getattr(storage, operation)(source, join(place, "base_0000003"))
    assert storage.read(join(place, "base_0000003", "bucket_00000")) == b"rows"
    assert not storage.exists(source)


@pytest.mark.parametrize("operation", ["rename", "publish"])
def test_rename_neither_replaces_nor_nests(storage: Storage, place: str, operation: str) -> None:
    """H4: an empty directory of the name is where `os.rename` replaces and Hadoop's rename nests."""
    source = _tree(storage, place, "staging", "base_0000003")
    storage.make_directory(join(place, "base_0000003"))
    with pytest.raises(AlreadyExistsError, match="base_0000003"):
        getattr(storage, operation)(source, join(place, "base_0000003"))
    assert storage.list(join(place, "base_0000003")) == []
    assert storage.read(join(source, "bucket_00000")) == b"rows"


@pytest.mark.parametrize("operation", ["rename", "publish"])
def test_rename_keeps_an_existing_file(storage: Storage, place: str, operation: str) -> None:
    storage.write(join(place, "new"), b"new")
    storage.write(join(place, "old"), b"old")
    with pytest.raises(AlreadyExistsError, match="old"):
        getattr(storage, operation)(join(place, "new"), join(place, "old"))
    assert storage.read(join(place, "old")) == b"old"


@pytest.mark.parametrize("operation", ["rename", "publish"])
def test_rename_of_what_is_gone_names_the_source(storage: Storage, place: str, operation: str) -> None:
    with pytest.raises(NotFoundError, match="staging/base_0000003"):
        getattr(storage, operation)(join(place, "staging", "base_0000003"), join(place, "base_0000003"))


def test_delete_tree_deletes_all_below_and_counts_bytes(storage: Storage, place: str) -> None:
    directory = _tree(storage, place, "delta_0000001_0000001")
    _tree(storage, directory, "sub")
    assert storage.delete_tree(directory) == 8
    assert storage.list(place) == []


def test_delete_tree_deletes_a_file(storage: Storage, place: str) -> None:
    storage.write(join(place, "000000_0"), b"12345")
    assert storage.delete_tree(join(place, "000000_0")) == 5
    assert not storage.exists(join(place, "000000_0"))


def test_delete_tree_of_what_is_gone_frees_nothing(storage: Storage, place: str) -> None:
    assert storage.delete_tree(join(place, "missing", "deeper")) == 0


def test_names_with_percent_signs_are_literal(storage: Storage, place: str) -> None:
    """Hive writes the partition value `a:b` as the directory `prt=a%3Ab`."""
    _tree(storage, place, "prt=a%3Ab")
    assert [entry.name for entry in storage.list(place)] == ["prt=a%3Ab"]


@pytest.mark.parametrize("below", ["../outside", "./x/../../outside", "staging/.."])
def test_no_path_leads_upwards(storage: Storage, place: str, below: str) -> None:
    """H21."""
    _tree(storage, place, "staging")
    for operation in (storage.delete_tree, storage.list, storage.list_partition, storage.read, storage.make_directory):
        with pytest.raises(StorageError, match=r"plain name"):
            operation(f"{place}/{below}")


@pytest.mark.parametrize("name", ["*", "delta_*", "?", "[a-z]*", "{a,b}"])
def test_a_wildcard_is_only_a_name(storage: Storage, place: str, name: str) -> None:
    """H21: nothing expands."""
    _tree(storage, place, "delta_0000001_0000001")
    assert storage.delete_tree(join(place, name)) == 0
    assert storage.exists(join(place, "delta_0000001_0000001"))
