"""Tails are read, and refused when they are not what they should be."""

from pathlib import Path
from typing import Any

import pytest
from sandbox.harness.orctail import rewrite_tail, write_tail

from compaction_operator.orc import OrcError, count_rows
from compaction_operator.orc.file import read_tail
from compaction_operator.orc.spec import Compression, Kind
from tests.unit.orc.build import FIXTURES, insert, read_events, write_acid

TYPES = FIXTURES / "hive-3.1.3" / "types" / "before" / "delta_0000001_0000001_0000" / "bucket_00000"


def test_a_file_by_hive():
    tail = read_tail(str(TYPES))
    assert (tail.rows, tail.stripe_rows, tail.compression) == (1, [1], Compression.ZLIB)
    assert tail.user_metadata == {
        "hive.acid.key.index": b"1,536870912,0;",
        "hive.acid.stats": b"1,0,0",
        "hive.acid.version": b"2",
    }
    decimal, varchar, char = tail.types[13], tail.types[16], tail.types[17]
    assert (decimal.kind, decimal.precision, decimal.scale) == (Kind.DECIMAL, 20, 4)
    assert (varchar.kind, char.kind, char.maximum_length) == (Kind.VARCHAR, Kind.CHAR, 6)


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_a_tail_of_each_codec_can_be_read_and_replaced(tmp_path: Path, codec: str):
    """Also one of more than a frame's size; unknown fields of the footer stay."""
    rows = [insert(1, number) for number in range(300)]
    path = write_acid(tmp_path / "a", rows, compression=codec).path
    types = read_tail(path).types
    metadata = {"hive.acid.key.index": b"1,536870912,0;" * 20_000, "b": b""}
    statistics = read_tail(path).footer.SerializeToString().count(b"\x3a")
    rewrite_tail(path, types=types, user_metadata=metadata, calendar=2)
    tail = read_tail(path)
    assert tail.user_metadata == metadata
    assert tail.footer.calendar == 2
    assert statistics <= tail.footer.SerializeToString().count(b"\x3a")
    assert read_events(path) == rows


@pytest.mark.parametrize("size", [0, 1, 3, 4, 50, 200, -100, -30, -10, -2, -1])
def test_a_file_cut_off_anywhere_is_refused_by_name(tmp_path: Path, size: int):
    cut = tmp_path / "bucket_00000"
    cut.write_bytes(TYPES.read_bytes()[:size])
    with pytest.raises(OrcError, match="bucket_00000: not a readable ORC file: ") as caught:
        read_tail(str(cut))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"ORC", b"some text that is not ORC\n" * 20, bytes(1000), b"\xff" * 1000])
def test_what_is_not_orc_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(OrcError, match="not a readable ORC file"):
        count_rows(str(tmp_path / "a"))


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path):
    with pytest.raises(OrcError, match="No such file"):
        read_tail(str(tmp_path / "none"))
    with pytest.raises(OrcError, match="Is a directory"):
        read_tail(str(tmp_path))


@pytest.mark.parametrize("byte", range(2, 40, 3))
def test_a_flipped_byte_in_the_tail_never_passes_as_another_file(tmp_path: Path, byte: int):
    """Either it is refused, or what matters of the tail is unchanged."""
    content = bytearray(TYPES.read_bytes())
    content[-byte] ^= 0xFF
    (tmp_path / "a").write_bytes(content)
    try:
        tail = read_tail(str(tmp_path / "a"))
    except OrcError:
        return
    assert (tail.rows, tail.stripe_rows) == (1, [1])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"number_of_rows": 2}, "the row counts of its stripes do not add up"),
        ({"encryption": b"\x08\x01"}, "it is encrypted"),
        ({"types": []}, "it has no types"),
        ({"stripe_length": 10_000}, "a stripe ends after the file's content"),
    ],
)
def test_a_footer_that_cannot_be_is_refused(tmp_path: Path, change: dict[str, Any], reason: str):
    path = write_acid(tmp_path / "a", [insert(1, 0)], compression="uncompressed").path
    tail = read_tail(path)
    footer = tail.footer
    footer.number_of_rows = change.get("number_of_rows", 1)
    footer.stripes[0].data_length += change.get("stripe_length", 0)
    if "encryption" in change:
        footer.encryption = change["encryption"]
    if "types" in change:
        del footer.types[:]
    write_tail(tail)
    with pytest.raises(OrcError, match=reason):
        read_tail(path)


@pytest.mark.parametrize(("version", "known"), [((), True), ((0, 11), True), ((1, 9999), False), ((2, 0), False)])
def test_a_file_of_another_version_of_the_format_is_refused(tmp_path: Path, version: tuple[int, ...], known: bool):
    """In UNSTABLE-PRE-2.0 (`orc.write.format`) decimals have another encoding: no reader could read a copy."""
    path = write_acid(tmp_path / "a", [insert(1, 0)], compression="uncompressed").path
    tail = read_tail(path)
    tail.postscript.version[:] = version
    write_tail(tail)
    if known:
        assert read_tail(path).rows == 1
        return
    with pytest.raises(OrcError, match=r"it has version [0-9.]+ of ORC"):
        read_tail(path)


def test_a_file_of_lzo_is_refused_even_where_nothing_in_it_is_compressed(tmp_path: Path):
    path = write_acid(tmp_path / "a", [insert(1, 0)], compression="uncompressed").path
    tail = read_tail(path)
    tail.postscript.compression = Compression.LZO
    write_tail(tail)
    with pytest.raises(OrcError, match="LZO compression is not supported"):
        read_tail(path)


def test_more_rows_than_java_can_count_are_refused(tmp_path: Path):
    path = write_acid(tmp_path / "a", [insert(1, 0)], compression="uncompressed").path
    tail = read_tail(path)
    tail.footer.number_of_rows = tail.footer.stripes[0].number_of_rows = 1 << 63
    write_tail(tail)
    with pytest.raises(OrcError, match="it has more rows than Java can count"):
        read_tail(path)
