"""The headers of a log file, read without a JVM: from a file that Hudi wrote, and from files that are not whole."""

import io
import struct
from pathlib import Path

import pytest

from compaction_operator.hudi.log_blocks import BY_FLAG_AS_INT, UNKNOWN
from compaction_operator.hudi.log_format import Header, LogFormatError, read_headers

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hudi-0.15.0" / "commit_time"
INSTANT, TARGET, SCHEMA, REPLACED, PARTIAL = 0, 1, 2, 4, 7
COMMAND, DELETE, AVRO = 0, 1, 3


def block(kind: int, header: dict[int, str], content: bytes = b"content") -> bytes:
    """A block as HoodieLogFormatWriter writes it."""
    entries = b"".join(struct.pack(">ii", key, len(text)) + text.encode() for key, text in header.items())
    body = struct.pack(">iii", 1, kind, len(header)) + entries
    body += struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    length = len(body) + 8
    return b"#HUDI#" + struct.pack(">q", length) + body + struct.pack(">q", length + 6)


def deletes(kind: int, *, value: int = 0, version: int = 3, sized: bool = False) -> bytes:
    """The content of a delete block (HoodieDeleteBlock): one key in no partition, with an ordering value of a type."""
    items = b"\x02\x06key\x00" + bytes([2 * kind, 2 * value]) + b"\x00"
    avro = (b"\x01" + bytes([2 * len(items)]) if sized else b"\x02") + items
    return struct.pack(">ii", version, len(avro)) + avro


def read(data: bytes) -> tuple[Header, ...]:
    headers, size = read_headers(io.BytesIO(data))
    assert size == len(data)
    return headers


def test_a_file_that_hudi_wrote_has_one_block_of_its_commit() -> None:
    (path,) = FIXTURES.glob("*.log.4_*")
    assert read(path.read_bytes()) == (Header(False, None, "20261124151603134", frozenset(), False, ""),)


def test_each_block_says_what_it_is() -> None:
    data = block(AVRO, {INSTANT: "20", SCHEMA: "x" * 9999, PARTIAL: "TRUE"})
    data += block(DELETE, {INSTANT: "30", REPLACED: "10,20"}, deletes(3)) + block(
        COMMAND, {INSTANT: "40", TARGET: "20"}
    )
    assert read(data) == (
        Header(False, None, "20", frozenset(), True, ""),
        Header(False, 3, "30", frozenset({"10", "20"}), False, ""),
        Header(True, None, "40", frozenset(), False, "20"),
    )


def test_only_a_command_rolls_back() -> None:
    assert read(block(AVRO, {INSTANT: "20", TARGET: "10"}))[0].target == ""


def test_an_empty_file_has_no_block() -> None:
    assert read(b"") == ()


@pytest.mark.parametrize("kept", [1, 5, 13, 30, 60, -9, -1])
def test_a_file_that_ends_too_early_is_left_to_hudi(kept: int) -> None:
    data = block(AVRO, {INSTANT: "20"}) + block(AVRO, {INSTANT: "30", SCHEMA: "{}"})
    whole = len(block(AVRO, {INSTANT: "20"}))
    for cut in (data[:kept], data[: whole + kept] if kept > 0 else data[:kept]):
        with pytest.raises(LogFormatError):
            read(cut)


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, b"#"), (6, b"\x7f"), (17, b"\2"), (21, b"\7"), (22, b"\xff"), (25, b"\2"), (30, b"\x7f"), (-1, b"\0")],
    ids=["magic", "size", "version", "kind", "less than no entry", "entries", "length", "second size"],
)
def test_a_block_that_is_not_as_hudi_writes_it_is_left_to_hudi(place: int, value: bytes) -> None:
    data = bytearray(block(AVRO, {INSTANT: "20"}))
    data[place : place + 1 or None] = b"\0" + value if place == 0 else value
    with pytest.raises(LogFormatError):
        read(bytes(data))


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("kind", [0, 2, 3, 12])
def test_the_first_delete_says_of_which_type_the_ordering_values_are(kind: int, sized: bool) -> None:
    content = deletes(kind, sized=sized)
    assert read(block(DELETE, {INSTANT: "20"}, content))[0].deletes == kind


def test_deletes_of_an_unknown_type_are_deletes_all_the_same() -> None:
    assert read(block(DELETE, {INSTANT: "20"}, deletes(2, version=2)))[0].deletes == UNKNOWN


def test_an_int_tells_deletes_by_flag_from_those_by_operation() -> None:
    """Hudi gives the latter its default ordering value, 0."""
    kinds = [read(block(DELETE, {INSTANT: "20"}, deletes(2, value=value)))[0].deletes for value in (0, 1, 63)]
    assert kinds == [2, BY_FLAG_AS_INT, BY_FLAG_AS_INT]


def test_a_block_of_no_deleted_key_has_no_deletes() -> None:
    assert read(block(DELETE, {INSTANT: "20"}, struct.pack(">iib", 3, 1, 0)))[0].deletes is None


def test_a_number_without_an_end_is_left_to_hudi() -> None:
    with pytest.raises(LogFormatError):
        read(block(DELETE, {INSTANT: "20"}, struct.pack(">ii", 3, 99) + b"\xff" * 99))


@pytest.mark.parametrize("length", [1 << 40, (1 << 63) - 1])
def test_a_block_does_not_reach_beyond_its_file(length: int) -> None:
    """Nothing looks for its end there: a place of more than 63 bits would be an error of another kind."""
    whole = block(AVRO, {INSTANT: "20"})
    with pytest.raises(LogFormatError, match="ends within"):
        read(whole[:6] + struct.pack(">q", length) + whole[14:])


@pytest.mark.parametrize("length", [b"\x80\x01", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x00", b"\x01"])
def test_a_deleted_key_does_not_reach_beyond_its_block(length: bytes) -> None:
    """Its length is 64, enormous or -1. The type of the ordering value would be read from the next block."""
    avro = b"\x02\x02" + length
    content = struct.pack(">ii", 3, len(avro)) + avro
    with pytest.raises(LogFormatError, match="a deleted key of"):
        read(block(DELETE, {INSTANT: "20"}, content) + block(AVRO, {INSTANT: "30"}))
