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


VALUES = {0: b"", 2: b"\x00", 3: b"\x50", 7: b"\x02x", 12: b"\x02\x02\x04\x0a\x00"}
"""Ordering values as Avro has them, by their types: none, 0, 40, "x", and 5 as one of several."""


def deletes(*kinds: int, value: bytes | None = None, version: int = 3, sized: bool = False) -> bytes:
    """The content of a delete block (HoodieDeleteBlock): a key in no partition for each type of ordering values."""
    items = b"".join(b"\x02\x06key\x00" + bytes([2 * kind]) + (value or VALUES[kind]) for kind in kinds)
    count = bytes([2 * len(kinds) - 1, 2 * len(items)]) if sized else bytes([2 * len(kinds)])
    return struct.pack(">ii", version, len(count + items) + 1) + count + items + b"\x00"


def types(content: bytes) -> frozenset[int]:
    return read(block(DELETE, {INSTANT: "20"}, content))[0].deletes


def read(data: bytes) -> tuple[Header, ...]:
    headers, size = read_headers(io.BytesIO(data))
    assert size == len(data)
    return headers


def test_a_file_that_hudi_wrote_has_one_block_of_its_commit() -> None:
    (path,) = FIXTURES.glob("*.log.4_*")
    assert read(path.read_bytes()) == (Header(False, frozenset(), "20261124151603134", frozenset(), False, ""),)


def test_each_block_says_what_it_is() -> None:
    data = block(AVRO, {INSTANT: "20", SCHEMA: "x" * 9999, PARTIAL: "TRUE"})
    data += block(DELETE, {INSTANT: "30", REPLACED: "10,20"}, deletes(3)) + block(
        COMMAND, {INSTANT: "40", TARGET: "20"}
    )
    assert read(data) == (
        Header(False, frozenset(), "20", frozenset(), True, ""),
        Header(False, frozenset({3}), "30", frozenset({"10", "20"}), False, ""),
        Header(True, frozenset(), "40", frozenset(), False, "20"),
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
@pytest.mark.parametrize("kind", VALUES)
def test_the_deletes_say_of_which_type_their_ordering_values_are(kind: int, sized: bool) -> None:
    assert types(deletes(kind, sized=sized)) == {kind}


@pytest.mark.parametrize("sized", [False, True])
def test_each_delete_of_a_block_counts(sized: bool) -> None:
    assert types(deletes(3, 3, 2, 3, sized=sized)) == {2, 3}


def test_deletes_of_an_unknown_type_are_deletes_all_the_same() -> None:
    assert types(deletes(2, version=2)) == {UNKNOWN}


def test_deletes_that_are_too_many_to_look_at_are_of_an_unknown_type(monkeypatch: pytest.MonkeyPatch) -> None:
    content = deletes(3)
    monkeypatch.setattr("compaction_operator.hudi.log_format.LARGEST_DELETES", len(content) - 1)
    assert types(content) == {UNKNOWN}


def test_an_int_tells_deletes_by_flag_from_those_by_operation() -> None:
    """Hudi gives the latter its default ordering value, 0."""
    kinds = [types(deletes(2, value=value)) for value in (b"\x00", b"\x02", b"\x7e")]
    assert kinds == [{2}, {BY_FLAG_AS_INT}, {BY_FLAG_AS_INT}]


def test_a_block_of_no_deleted_key_has_no_deletes() -> None:
    assert types(struct.pack(">iib", 3, 1, 0)) == frozenset()


def test_a_content_does_not_reach_beyond_its_block() -> None:
    data = block(DELETE, {INSTANT: "20"}, deletes(3))
    place = data.index(deletes(3)) - 1
    with pytest.raises(LogFormatError, match="the content of the block"):
        read(data[:place] + b"\x7f" + data[place + 1 :] + block(AVRO, {INSTANT: "30"}))


@pytest.mark.parametrize("length", [1 << 40, (1 << 63) - 1])
def test_a_block_does_not_reach_beyond_its_file(length: int) -> None:
    """Nothing looks for its end there: a place of more than 63 bits would be an error of another kind."""
    whole = block(AVRO, {INSTANT: "20"})
    with pytest.raises(LogFormatError, match="ends within"):
        read(whole[:6] + struct.pack(">q", length) + whole[14:])


BROKEN = [
    b"\xff" * 99,
    b"\x02\x02\x80\x01",
    b"\x02\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x00",
    b"\x02\x02\x01",
    b"\x02\x7f",
]


@pytest.mark.parametrize("avro", [*BROKEN, b"", b"\x04\x00\x00\x00", b"\x02\x00\x00\x70"])
def test_deletes_that_cannot_be_read_are_of_an_unknown_type(avro: bytes) -> None:
    """A number without an end, keys of a length of 64, an enormous one and -1, types that are not there, no end."""
    assert types(struct.pack(">ii", 3, len(avro)) + avro) == {UNKNOWN}
