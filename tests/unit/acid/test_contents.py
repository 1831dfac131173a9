"""What lies inside a base or delta: bucket files or raw ones; anything else is refused and named (H9, H15)."""

import pytest

from compaction_operator.acid.contents import Contents, contents
from compaction_operator.acid.listing import Directory, File
from compaction_operator.acid.names import METADATA_ACID, ORC_ACID_VERSION, parse_directory
from compaction_operator.acid.snapshot import UnsupportedLayout
from tests.unit.acid.listings import with_files


def _contents(name: str, *files: str) -> Contents:
    directory, parsed = with_files(name, *files), parse_directory(name)
    assert parsed is not None
    return contents(directory, parsed)


def test_bucket_files_with_and_without_attempts_come_by_bucket():
    """H9: any subset of the buckets may be there, and Hive 4 writes the attempt."""
    found = _contents("delta_2_2_0000", "bucket_00010_1", "bucket_00002_0", ORC_ACID_VERSION, "bucket_00000")
    assert [(bucket.bucket, bucket.name) for bucket in found.buckets] == [
        (0, "bucket_00000"),
        (2, "bucket_00002_0"),
        (10, "bucket_00010_1"),
    ]
    assert found.raw == ()


def test_what_readers_skip_is_skipped():
    found = _contents("delta_2_2_0000", ".hive-staging/x", "_tmp.1/bucket_00000", "sub/_tmp/part-0", METADATA_ACID)
    assert found == Contents((), ())


def test_raw_files_come_by_bucket_and_then_by_path():
    found = _contents(
        "delta_2_2_0000", "000001_0", "000000_0_copy_2", "000000_0", "000000_0_copy_10", "_orc_acid_version"
    )
    assert [file.name for file in found.raw] == ["000000_0", "000000_0_copy_10", "000000_0_copy_2", "000001_0"]
    assert found.buckets == ()


def _with_empty(name: str, *files: str) -> Contents:
    parsed = parse_directory(name)
    assert parsed is not None
    return contents(Directory(name, tuple(File(file, 0) for file in files)), parsed)


def test_empty_files_hold_no_rows():
    """R: both versions read them as such; raw ones are left out of the numbering too (ignoreEmptyFiles)."""
    assert _with_empty("delta_2_2_0000", "000000_0") == Contents((), ())
    assert _with_empty("base_5", "bucket_00000", "bucket_00001") == Contents((), ())


def test_an_empty_file_of_delete_events_is_refused():
    """R: the vectorized readers of 3.1.3 and 4.0.1 fail on it."""
    with pytest.raises(UnsupportedLayout, match="delete_delta_2_2_0000/bucket_00001 is empty"):
        _with_empty("delete_delta_2_2_0000", "bucket_00001")


@pytest.mark.parametrize("name", ["base_5", "delta_2_2", "delta_2_2_0003"])
def test_raw_files_may_lie_where_load_data_puts_them(name):
    assert len(_contents(name, "000000_0").raw) == 1


@pytest.mark.parametrize(
    ("name", "files", "reason"),
    [
        ("delta_2_2_0000", ["part-0.orc"], "delta_2_2_0000/part-0.orc is not a bucket file"),
        ("delta_2_2_0000", ["sub/bucket_00000"], "delta_2_2_0000/sub/bucket_00000 lies in a sub-directory"),
        ("delta_2_2_0000", ["HIVE_UNION_SUBDIR_1/000000_0"], "HIVE_UNION_SUBDIR_1/000000_0 lies in a sub-directory"),
        ("base_5", ["base_5/bucket_00000"], "base_5/base_5/bucket_00000 lies in a sub-directory"),
        ("delta_2_5", ["bucket_00000", "bucket_00000_flush_length"], "a streaming writer has not closed its file"),
        (
            "delta_2_2_0000",
            ["bucket_00000_0", "bucket_00000_1"],
            "holds a bucket twice: bucket_00000_0 and bucket_00000_1",
        ),
        ("delta_2_2_0000", ["bucket_00000", "bucket_00000_0"], "holds a bucket twice: bucket_00000 and bucket_00000_0"),
        ("delta_2_2_0000", ["bucket_00000", "000000_0"], "000000_0 is a raw file beside bucket_00000"),
        ("delete_delta_2_2_0000", ["000000_0"], "000000_0 is a raw file among delete events"),
        ("delta_2_3", ["000000_0"], "000000_0 is a raw file in the output of a compaction"),
        ("base_5", ["000000_0", METADATA_ACID], "000000_0 is a raw file in the output of a compaction"),
        ("base_5_v0000007", ["000000_0"], "000000_0 is a raw file in the output of a compaction"),
    ],
)
def test_what_hives_versions_read_differently_or_not_at_all_is_refused(name, files, reason):
    with pytest.raises(UnsupportedLayout) as error:
        _contents(name, *files)
    assert reason in str(error.value)
