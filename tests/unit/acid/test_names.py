"""The grammar of names, and the bucket property."""

import pytest

from compaction_operator.acid.names import (
    GUARD_BASE,
    METADATA_ACID,
    METADATA_ACID_CONTENT,
    ORC_ACID_VERSION,
    ORC_ACID_VERSION_CONTENT,
    AcidDirectory,
    DataFile,
    DirectoryKind,
    bucket_file_name,
    bucket_of_property,
    encode_bucket_property,
    is_flush_length,
    is_hidden,
    is_union_directory,
    looks_like_directory,
    may_become_obsolete,
    parse_bucket_file,
    parse_directory,
    parse_original_file,
    parse_original_path,
)
from tests.unit.acid.listings import FIXTURES

CANONICAL = [
    ("base_0000003", AcidDirectory.base(3)),
    ("base_0000003_v0000022", AcidDirectory.base(3, visibility_txn=22)),
    ("base_-9223372036854775808", AcidDirectory.base(-(2**63))),
    ("base_10000003", AcidDirectory.base(10000003)),
    ("delta_0000001_0000003", AcidDirectory.delta(1, 3)),
    ("delta_0000001_0000001_0000", AcidDirectory.delta(1, 1, 0)),
    ("delta_12345678_123456789_0012", AcidDirectory.delta(12345678, 123456789, 12)),
    ("delta_0000001_0000003_v0000022", AcidDirectory.delta(1, 3, visibility_txn=22)),
    ("delta_0000001_0000001_0004_v0000022", AcidDirectory.delta(1, 1, 4, visibility_txn=22)),
    ("delete_delta_0000004_0000004_0000", AcidDirectory.delete_delta(4, 4, 0)),
    ("delete_delta_0000001_0000004_v0000009", AcidDirectory.delete_delta(1, 4, visibility_txn=9)),
]


@pytest.mark.parametrize(("name", "directory"), CANONICAL)
def test_what_hive_writes_is_read_and_written_alike(name, directory):
    assert directory.name == name
    assert parse_directory(name) == directory


def test_another_spelling_is_kept_as_it_is_on_disk():
    directory = parse_directory("delta_1_3")
    assert directory is not None
    assert (directory.name, directory.min_write_id, directory.max_write_id) == ("delta_1_3", 1, 3)
    assert directory != AcidDirectory.delta(1, 3)


@pytest.mark.parametrize(
    "name",
    [
        "base_",
        "base_x",
        "base_1_2",
        "base_0000003_v",
        "base_0000003/base_0000003",
        "base_9223372036854775808",
        "base_0000003_v9223372036854775808",
        "delta_0000001_0000001_2147483648",
        pytest.param(f"delta_1_{5000 * '1'}", id="5000 digits"),
        "delta_1",
        "delta_3_1",
        "delta_-1_1",
        "delta_1_1_1_1",
        "delta_0000001_0000001_0000\n",
        "delta_٣_٣",
        "delete_delta_1",
        "DELTA_1_1",
        "_tmp_delta_1_1",
        "bucket_00000",
        "000000_0",
        "prt=p1",
        "",
    ],
)
def test_what_is_not_of_the_grammar_is_none(name):
    assert parse_directory(name) is None


def test_a_broken_acid_name_is_distinguished_from_an_unrelated_one():
    assert looks_like_directory("base_x")
    assert looks_like_directory("delete_delta_1")
    assert not looks_like_directory("prt=p1")
    assert not looks_like_directory("database")


def test_ids_beyond_the_padding_compare_as_numbers():
    nine, ten = parse_directory("base_9999999"), parse_directory("base_10000000")
    assert nine is not None
    assert ten is not None
    assert nine.name > ten.name
    assert nine.max_write_id < ten.max_write_id


def test_bucket_files_with_and_without_attempt():
    assert parse_bucket_file("bucket_00003") == DataFile(3, "bucket_00003")
    assert parse_bucket_file("bucket_00003_1") == DataFile(3, "bucket_00003_1")
    assert bucket_file_name(3) == "bucket_00003"


@pytest.mark.parametrize(
    "name",
    [
        *("bucket_", "bucket_x", "bucket_00000_flush_length", "bucket_00000_0_0", "000000_0"),
        pytest.param(f"bucket_{5000 * '1'}", id="5000 digits"),
    ],
)
def test_other_files_are_no_bucket_files(name):
    assert parse_bucket_file(name) is None


def test_original_files_and_their_copies():
    assert parse_original_file("000002_0") == DataFile(2, "000002_0")
    assert parse_original_file("000002_0_copy_11") == DataFile(2, "000002_0_copy_11")
    assert parse_original_file(f"{5000 * '1'}_0") is None
    assert parse_original_file("part-00000.orc") is None
    assert parse_original_file("bucket_00000") is None


@pytest.mark.parametrize(
    ("path", "bucket"),
    [
        ("000002_0", 2),
        ("HIVE_UNION_SUBDIR_1/000002_0_copy_1", 2),
        ("HIVE_UNION_SUBDIR_1/HIVE_UNION_SUBDIR_12/000000_0", 0),
    ],
)
def test_originals_may_lie_in_the_directories_of_a_union(path, bucket):
    original = parse_original_path(path)
    assert original is not None
    assert (original.bucket, original.name) == (bucket, path)


@pytest.mark.parametrize(
    "path", ["sub/000000_0", "HIVE_UNION_SUBDIR_1/sub/000000_0", "../000000_0", "/000000_0", "part-0"]
)
def test_originals_lie_nowhere_else(path):
    assert parse_original_path(path) is None


def test_only_direct_children_of_the_grammar_may_become_obsolete():
    names = ("base_3", "delete_delta_1_3_v0000007", "000000_0_copy_1", "HIVE_UNION_SUBDIR_15")
    assert all(may_become_obsolete(name) for name in names)
    others = (
        "HIVE_UNION_SUBDIR_1/000000_0",
        "HIVE_UNION_SUBDIR_",
        "sub",
        "..",
        "",
        "part-0",
        "delta_1_1/..",
        "bucket_00000",
    )
    assert not any(may_become_obsolete(name) for name in others)


def test_union_directories_are_distinguished_from_others():
    assert is_union_directory("HIVE_UNION_SUBDIR_0")
    assert not any(
        is_union_directory(name) for name in ("HIVE_UNION_SUBDIR_", "HIVE_UNION_SUBDIR_1/", "hive_union_subdir_1")
    )


def test_the_side_file_of_a_streaming_writer_is_distinguished_from_a_bucket_file():
    assert is_flush_length("bucket_00000_flush_length")
    assert is_flush_length("bucket_00000_0_flush_length")
    assert not any(is_flush_length(name) for name in ("bucket_00000", "000000_0_flush_length", "_flush_length"))


def test_hidden_names_are_those_that_readers_skip():
    assert all(is_hidden(name) for name in ("_orc_acid_version", ".hive-staging_1", "_compaction_x", "_tmp"))
    assert all(is_hidden(path) for path in ("_tmp/bucket_00000", "sub/.x/000000_0", "sub/_x"))
    assert not any(is_hidden(name) for name in ("base_0000001", "sub/000000_0"))


def test_the_guard_base_is_the_lowest_of_all():
    assert GUARD_BASE.name == "base_-9223372036854775808"
    assert parse_directory(GUARD_BASE.name) == GUARD_BASE


@pytest.mark.parametrize(
    ("prop", "bucket", "statement"), [(536870912, 0, 0), (536936448, 1, 0), (536870913, 0, 1), (805244927, 4095, 4095)]
)
def test_the_bucket_property_is_codec_version_1(prop, bucket, statement):
    assert encode_bucket_property(bucket=bucket, statement_id=statement) == prop
    assert bucket_of_property(prop) == bucket


def test_codec_version_0_is_the_bucket_itself():
    assert bucket_of_property(7) == 7


@pytest.mark.parametrize("prop", [2 << 29, 7 << 29, -1])
def test_an_unknown_codec_version_is_refused(prop):
    with pytest.raises(ValueError, match=f"bucket property {prop} has codec version"):
        bucket_of_property(prop)


@pytest.mark.parametrize(("bucket", "statement"), [(4096, 0), (-1, 0), (0, 4096)])
def test_numbers_that_do_not_fit_the_codec_are_refused(bucket, statement):
    with pytest.raises(ValueError, match="is not in"):
        encode_bucket_property(bucket=bucket, statement_id=statement)


def test_the_side_files_have_the_bytes_that_hive_writes():
    base = FIXTURES / "hive-3.1.3" / "table_txn_001" / "after-major" / "base_0000003"
    assert (base / METADATA_ACID).read_bytes() == METADATA_ACID_CONTENT
    assert (base / ORC_ACID_VERSION).read_bytes() == ORC_ACID_VERSION_CONTENT


def test_every_name_that_real_hive_wrote_is_understood():
    directories = [path for path in FIXTURES.glob("hive-*/*/*/**/*") if path.is_dir() and "=" not in path.name]
    assert len(directories) > 300
    for path in directories:
        parsed = parse_directory(path.name)
        assert parsed is not None
        assert (
            AcidDirectory(
                parsed.kind, parsed.min_write_id, parsed.max_write_id, parsed.statement_id, parsed.visibility_txn
            )
            == parsed
        )
        assert parsed.is_base == (parsed.kind is DirectoryKind.BASE)
