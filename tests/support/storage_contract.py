"""What every storage must do: the same tests for local disks (tests/unit) and for real servers (tests/integration).

A module that inherits one of these classes has the fixtures `storage` and `place`, the URI of an empty directory there.
Every storage inherits StorageContract. What it declares in `abilities` decides which other classes: DirectoriesContract
with `atomic_directory_rename`, ObjectsContract without, and FilesContract if its files are read by requests.
"""

import io
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from compaction_operator.acid.listing import Directory, File
from compaction_operator.storage import (
    AlreadyExistsError,
    Entry,
    EntryKind,
    NotFoundError,
    Storage,
    StorageError,
    join,
    probe_renames,
)
from compaction_operator.storage.files import FileStorage, RemoteFile, created

PUBLISHERS = 8


def make_tree(storage: Storage, place: str, *names: str) -> str:
    """Make directories, each in the one before, with a file in the last; return its URI."""
    directory = place
    for name in names:
        directory = join(directory, name)
        storage.make_directory(directory)
    storage.write(join(directory, "bucket_00000"), b"rows")
    return directory


class StorageContract:
    """List, read, write and delete."""

    def test_a_written_file_is_read_back(self, storage: Storage, place: str):
        storage.write(join(place, "file"), b"content")
        assert storage.read(join(place, "file")) == b"content"

    def test_write_keeps_a_file_that_exists_and_leaves_nothing_else(self, storage: Storage, place: str):
        storage.write(join(place, "file"), b"first")
        with pytest.raises(AlreadyExistsError, match="file"):
            storage.write(join(place, "file"), b"second")
        assert storage.read(join(place, "file")) == b"first"
        assert [entry.name for entry in storage.list(place)] == ["file"]

    def test_reading_what_is_not_there_names_it(self, storage: Storage, place: str):
        with pytest.raises(NotFoundError, match="missing"):
            storage.read(join(place, "missing"))

    def test_a_directory_is_not_read_as_if_it_were_missing(self, storage: Storage, place: str):
        with pytest.raises(StorageError, match="directory") as raised:
            storage.read(make_tree(storage, place, "directory"))
        assert not isinstance(raised.value, NotFoundError)

    def test_list_gives_direct_children_by_name_with_hidden_ones(self, storage: Storage, place: str):
        make_tree(storage, place, "delta_0000001_0000001")
        storage.write(join(place, "_hidden"), b"12")
        assert storage.list(place) == [
            Entry("_hidden", EntryKind.FILE, 2),
            Entry("delta_0000001_0000001", EntryKind.DIRECTORY, 0),
        ]

    def test_listing_what_is_not_there_names_it(self, storage: Storage, place: str):
        with pytest.raises(NotFoundError, match="missing"):
            storage.list(join(place, "missing"))
        with pytest.raises(NotFoundError, match="missing"):
            storage.list_partition(join(place, "missing"))

    def test_list_partition_leaves_out_hidden_children_and_keeps_side_files(self, storage: Storage, place: str):
        base = make_tree(storage, place, "base_0000003")
        storage.write(join(base, "_metadata_acid"), b"{}")
        make_tree(storage, base, "sub")
        make_tree(storage, place, "_compaction_x")
        storage.write(join(place, "000000_0"), b"original")
        listing = storage.list_partition(place)
        files = (File("_metadata_acid", 2, b"{}"), File("bucket_00000", 4), File("sub/bucket_00000", 4))
        assert listing.directories == (Directory("base_0000003", files),)
        assert listing.files == (File("000000_0", 8),)

    def test_many_partitions_are_listed_as_each_of_them_is(self, storage: Storage, place: str):
        """A missing one is missing alone. `p=1` is not `p=10`."""
        for name in ("p=1", "p=10", "p=2"):
            storage.make_directory(join(place, name))
            make_tree(storage, join(place, name), f"delta_{len(name)}")
        paths = [join(place, name) for name in ("p=2", "p=1", "missing", "p=10")]
        found = storage.list_partitions(paths)
        assert isinstance(found.pop(paths[2]), NotFoundError)
        assert found == {path: storage.list_partition(path) for path in paths if path != paths[2]}

    def test_list_partition_reads_the_beginning_of_what_decides_by_its_content(self, storage: Storage, place: str):
        """`_metadata_acid` is tiny if Hive wrote it. A large one must not fill the memory."""
        base = make_tree(storage, place, "base_0000003")
        storage.write(join(base, "_metadata_acid"), b"{" + b" " * 10_000)
        storage.write(join(base, "_orc_acid_version"), b"2")
        (found,) = storage.list_partition(place).directories
        assert {file.name: file.content for file in found.files} == {
            "_metadata_acid": b"{" + b" " * 4095,
            "_orc_acid_version": None,
            "bucket_00000": None,
        }

    def test_delete_tree_deletes_all_below_and_counts_bytes(self, storage: Storage, place: str):
        directory = make_tree(storage, place, "delta_0000001_0000001")
        make_tree(storage, directory, "sub")
        assert storage.delete_tree(directory) == 8
        assert storage.list(place) == []

    def test_delete_tree_deletes_a_file(self, storage: Storage, place: str):
        storage.write(join(place, "000000_0"), b"12345")
        assert storage.delete_tree(join(place, "000000_0")) == 5
        assert not storage.exists(join(place, "000000_0"))

    def test_delete_tree_of_what_is_gone_frees_nothing(self, storage: Storage, place: str):
        assert storage.delete_tree(join(place, "missing", "deeper")) == 0

    def test_names_with_percent_signs_are_literal(self, storage: Storage, place: str):
        """Hive writes the partition value `a:b` as the directory `prt=a%3Ab`."""
        make_tree(storage, place, "prt=a%3Ab")
        assert [entry.name for entry in storage.list(place)] == ["prt=a%3Ab"]

    @pytest.mark.parametrize("below", ["../outside", "./x/../../outside", "staging/.."])
    def test_no_path_leads_upwards(self, storage: Storage, place: str, below: str):
        """H21."""
        make_tree(storage, place, "staging")
        for operation in (
            storage.delete_tree,
            storage.list,
            storage.list_partition,
            storage.read,
            storage.make_directory,
        ):
            with pytest.raises(StorageError, match=r"plain name"):
                operation(f"{place}/{below}")

    @pytest.mark.parametrize("name", ["*", "delta_*", "?", "[a-z]*", "{a,b}"])
    def test_a_wildcard_is_only_a_name(self, storage: Storage, place: str, name: str):
        """H21: nothing expands."""
        make_tree(storage, place, "delta_0000001_0000001")
        assert storage.delete_tree(join(place, name)) == 0
        assert storage.exists(join(place, "delta_0000001_0000001"))


class DirectoriesContract:
    """Stores with directories that appear under their name at once and at most once."""

    races = 50

    def test_the_ability_is_declared(self, storage: Storage):
        assert storage.abilities.atomic_directory_rename and storage.uploads is None

    def test_a_probe_finds_nothing_and_leaves_nothing(self, storage: Storage, place: str):
        assert probe_renames(storage, place) is None
        assert storage.list(place) == []

    def test_make_directory_needs_the_one_above_and_may_be_repeated(self, storage: Storage, place: str):
        """What a fence took away must not come back by a driver that goes on writing."""
        storage.make_directory(join(place, "a"))
        storage.make_directory(join(place, "a"))
        assert storage.list(place) == [Entry("a", EntryKind.DIRECTORY, 0)]
        with pytest.raises(NotFoundError):
            storage.make_directory(join(place, "missing", "below"))

    def test_make_directory_does_not_go_through_a_file(self, storage: Storage, place: str):
        storage.write(join(place, "file"), b"")
        with pytest.raises(StorageError, match="file"):
            storage.make_directory(join(place, "file", "below"))

    @pytest.mark.parametrize("operation", ["rename", "publish"])
    def test_rename_moves_a_whole_tree(self, storage: Storage, place: str, operation: str):
        source = make_tree(storage, place, "staging", "base_0000003")
        getattr(storage, operation)(source, join(place, "base_0000003"))
        assert storage.read(join(place, "base_0000003", "bucket_00000")) == b"rows"
        assert not storage.exists(source)

    @pytest.mark.parametrize("operation", ["rename", "publish"])
    def test_rename_neither_replaces_nor_nests(self, storage: Storage, place: str, operation: str):
        """H4: an empty directory of the name is where `os.rename` replaces and Hadoop's rename nests."""
        source = make_tree(storage, place, "staging", "base_0000003")
        storage.make_directory(join(place, "base_0000003"))
        with pytest.raises(AlreadyExistsError, match="base_0000003"):
            getattr(storage, operation)(source, join(place, "base_0000003"))
        assert storage.list(join(place, "base_0000003")) == []
        assert storage.read(join(source, "bucket_00000")) == b"rows"

    @pytest.mark.parametrize("operation", ["rename", "publish"])
    def test_rename_keeps_an_existing_file(self, storage: Storage, place: str, operation: str):
        storage.write(join(place, "new"), b"new")
        storage.write(join(place, "old"), b"old")
        with pytest.raises(AlreadyExistsError, match="old"):
            getattr(storage, operation)(join(place, "new"), join(place, "old"))
        assert storage.read(join(place, "old")) == b"old"

    def test_rename_does_not_mix_files_and_directories(self, storage: Storage, place: str):
        storage.write(join(place, "file"), b"kept")
        directory = make_tree(storage, place, "directory")
        for source, target in ((join(place, "file"), directory), (directory, join(place, "file"))):
            with pytest.raises(AlreadyExistsError):
                storage.rename(source, target)
        assert storage.read(join(place, "file")) == b"kept" and storage.exists(join(directory, "bucket_00000"))

    @pytest.mark.parametrize("operation", ["rename", "publish"])
    def test_rename_of_what_is_gone_names_the_source(self, storage: Storage, place: str, operation: str):
        with pytest.raises(NotFoundError, match="staging/base_0000003"):
            getattr(storage, operation)(join(place, "staging", "base_0000003"), join(place, "base_0000003"))

    def test_rename_does_not_make_the_directory_of_its_target(self, storage: Storage, place: str):
        """A fence that renamed staging away wins over a driver that goes on."""
        source = make_tree(storage, place, "staging", "base_0000003")
        with pytest.raises(NotFoundError):
            storage.rename(source, join(place, "gone", "base_0000003"))
        assert storage.exists(source) and not storage.exists(join(place, "gone"))

    def test_an_empty_directory_is_listed_and_removed(self, storage: Storage, place: str):
        storage.make_directory(join(place, "empty"))
        assert storage.list(join(place, "empty")) == []
        storage.remove_if_empty(join(place, "empty"))
        storage.remove_if_empty(join(place, "empty"))
        assert storage.list(place) == []

    def test_a_directory_with_children_is_not_removed_as_empty(self, storage: Storage, place: str):
        directory = make_tree(storage, place, "full")
        storage.remove_if_empty(directory)
        assert storage.read(join(directory, "bucket_00000")) == b"rows"

    def test_of_many_publishers_exactly_one_wins(self, storage: Storage, place: str):
        """H4: what a reader sees is one publisher's directory, whole; the losers keep theirs."""
        for race in range(self.races):
            sources = [join(place, f"_staging_{race}_{number}") for number in range(PUBLISHERS)]
            for source in sources:
                storage.make_directory(source)
                storage.make_directory(join(source, source.rpartition("/")[2]))
            target = join(place, f"base_{race:07}")
            outcomes = _at_once([_publisher(storage, source, target) for source in sources])
            assert sorted(outcomes) == [False] * (PUBLISHERS - 1) + [True]
            (winner,) = (source for source, won in zip(sources, outcomes, strict=True) if won)
            assert [entry.name for entry in storage.list(target)] == [winner.rpartition("/")[2]]
            assert [source for source in sources if not storage.exists(source)] == [winner]


class ObjectsContract:
    """Stores that cannot rename: they say so, and refuse."""

    def test_the_inability_is_declared(self, storage: Storage):
        assert not storage.abilities.atomic_directory_rename and storage.uploads is not None

    @pytest.mark.parametrize("operation", ["rename", "publish"])
    def test_rename_is_refused_and_changes_nothing(self, storage: Storage, place: str, operation: str):
        source, target = make_tree(storage, place, "staging"), join(place, "base_0000003")
        with pytest.raises(StorageError, match="rename"):
            getattr(storage, operation)(source, target)
        assert storage.read(join(source, "bucket_00000")) == b"rows"
        assert not storage.exists(target)


class FilesContract:
    """Files that are read and written by requests (`FileStorage`)."""

    def test_a_new_file_is_read_at_random(self, storage: FileStorage, place: str):
        content = bytes(range(256)) * 20_000
        with created(storage, join(place, "file")) as file:
            for start in range(0, len(content), 1_000_000):
                file.write(content[start : start + 1_000_000])
            assert file.tell() == len(content)
        with RemoteFile(storage, join(place, "file")).open() as file:
            assert file.seek(-10, io.SEEK_END) == len(content) - 10
            assert (file.read(100), file.read(1)) == (content[-10:], b"")
            for offset, length in ((0, 5), (4_999_999, 1_500_000), (17, 0)):
                file.seek(offset)
                assert file.read(length) == content[offset : offset + length]

    def test_an_empty_file_is_read(self, storage: FileStorage, place: str):
        created(storage, join(place, "file")).close()
        with RemoteFile(storage, join(place, "file")).open() as file:
            assert file.read() == b""

    def test_a_file_that_exists_is_kept(self, storage: FileStorage, place: str):
        with created(storage, join(place, "file")) as file:
            file.write(b"first")
        with pytest.raises(FileExistsError), created(storage, join(place, "file")) as file:
            file.write(b"second")
        with RemoteFile(storage, join(place, "file")).open() as file:
            assert file.read() == b"first"

    def test_a_file_that_is_not_there_is_not_opened(self, storage: FileStorage, place: str):
        with pytest.raises(FileNotFoundError, match="missing"):
            RemoteFile(storage, join(place, "missing")).open()


def _publisher(storage: Storage, source: str, target: str) -> Callable[[], bool]:
    def publish() -> bool:
        try:
            storage.publish(source, target)
        except AlreadyExistsError:
            return False
        return True

    return publish


def _at_once(calls: list[Callable[[], bool]]) -> list[bool]:
    """Make calls that begin together, each in a thread; return their answers."""
    ready = threading.Barrier(len(calls))

    def begin(call: Callable[[], bool]) -> bool:
        ready.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(begin, calls))
