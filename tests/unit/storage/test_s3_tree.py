"""Keys as directories and files. Both servers of the integration tests refuse to hold some of these."""

import pytest

from compaction_operator.acid.listing import Directory, File
from compaction_operator.storage import Entry, EntryKind, NotFoundError, StorageError
from compaction_operator.storage.s3 import tree
from compaction_operator.storage.s3.objects import Object

PATH, PREFIX = "s3a://lake/t", "t/"


def objects(**sizes: int) -> list[Object]:
    return [Object(f"{PREFIX}{key}", size, f'"{size}"') for key, size in sizes.items()]


def no_content(found: Object, start: int, length: int) -> bytes:
    raise AssertionError(found.key)


@pytest.mark.parametrize(
    "key", ["base_1//bucket_00000", "base_1/../bucket_00000", "base_1/./x", "./x", "../x", "/x", "base_1//", "/"]
)
def test_a_key_that_others_read_as_another_is_refused(key: str):
    """H21: Hadoop takes `a//b` for `a/b`, and `a/../b` for `b`."""
    found = objects(**{key: 0 if key.endswith("/") else 4})
    with pytest.raises(StorageError, match=r"s3a://lake/t: the key .* below it has an empty name, '\.' or '\.\.'"):
        tree.listing(PATH, PREFIX, found, no_content)
    with pytest.raises(StorageError):
        tree.children(PATH, PREFIX, found)


@pytest.mark.parametrize("both", ["base_1", "base_1/bucket_00000"])
def test_an_object_and_a_directory_of_one_name_are_refused(both: str):
    """Readers differ in what they see then, so neither may be planned with or deleted."""
    found = objects(**{both: 4, f"{both}/bucket_00000": 4})
    with pytest.raises(StorageError, match=f"{both} is both an object and a directory"):
        tree.listing(PATH, PREFIX, found, no_content)
    with pytest.raises(StorageError, match=both):
        tree.children(PATH, PREFIX, found)


def test_an_object_and_the_marker_of_its_name_are_refused():
    with pytest.raises(StorageError, match="both"):
        tree.children(PATH, PREFIX, objects(**{"base_1": 4, "base_1/": 0}))


def test_a_key_that_ends_as_a_directory_and_has_content_is_refused():
    with pytest.raises(StorageError, match="ends with '/', but is not empty"):
        tree.listing(PATH, PREFIX, objects(**{"base_1/": 4}), no_content)


def test_markers_are_directories():
    found = objects(**{"": 0, "base_1/": 0, "delta_2_2/": 0, "delta_2_2/bucket_00000": 4, "delta_2_2/sub/": 0})
    assert tree.children(PATH, PREFIX, found) == [
        Entry("base_1", EntryKind.DIRECTORY, 0),
        Entry("delta_2_2", EntryKind.DIRECTORY, 0),
    ]
    listing = tree.listing(PATH, PREFIX, found, no_content)
    assert listing.directories == (Directory("base_1", ()), Directory("delta_2_2", (File("bucket_00000", 4),)))
    assert listing.files == ()


def test_hidden_children_are_listed_but_not_examined():
    found = objects(**{"_metadata_acid": 5, "_staging/_metadata_acid": 5, ".x": 1, "000000_0": 4})
    assert [entry.name for entry in tree.children(PATH, PREFIX, found)] == [
        ".x",
        "000000_0",
        "_metadata_acid",
        "_staging",
    ]
    listing = tree.listing(PATH, PREFIX, found, no_content)
    assert (listing.directories, listing.files) == ((), (File("000000_0", 4),))


def test_a_mark_that_has_vanished_is_not_listed():
    def gone(found: Object, start: int, length: int) -> bytes:
        raise NotFoundError(found.key)

    found = objects(**{"base_1/_metadata_acid": 5, "base_1/bucket_00000": 4})
    listing = tree.listing(PATH, PREFIX, found, gone)
    assert listing.directories == (Directory("base_1", (File("bucket_00000", 4),)),)
