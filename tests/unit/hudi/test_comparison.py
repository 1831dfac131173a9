"""A merged log block is compared with its originals: rows, deletes, and what is too large or of an unknown kind."""

import io
import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO

import pytest
from fastavro import parse_schema, schemaless_writer

from compaction_operator.hudi import Action, LogFile, Operation, Plan
from compaction_operator.hudi import comparison as module
from compaction_operator.hudi.comparison import Compared, MergedWronglyError, Rule, chosen, compare, replayed
from compaction_operator.hudi.log_format import LogFormatError
from tests.unit.hudi.test_log_format import AVRO, DELETE, INSTANT, REPLACED, SCHEMA, block

FIELDS = (("_hoodie_commit_time", "string"), ("_hoodie_record_key", "string"), ("ts", "long"), ("v", "string"))
MERGED = ".f_40.log.1"
LONG = 3
BY_OPERATION = None


def schema(*fields: tuple[str, Any]) -> str:
    columns = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields]
    return json.dumps({"type": "record", "name": "row", "fields": columns})


PLAIN = schema(*FIELDS)


def rows(instant: str, *found: tuple[str, Any, str], text: str = PLAIN, merged: str = "", **more: Any) -> bytes:
    """A block of rows, each a key, an ordering value and a value, with a commit time of the block's."""
    names = ("_hoodie_record_key", "ts", "v")
    content = struct.pack(">ii", 3, len(found))
    for row in found:
        out = io.BytesIO()
        schemaless_writer(
            out,
            parse_schema(json.loads(text)),
            {"_hoodie_commit_time": instant} | dict(zip(names, row, strict=True)) | more,
        )
        content += struct.pack(">i", len(out.getvalue())) + out.getvalue()
    return block(AVRO, {INSTANT: instant, SCHEMA: text, **({REPLACED: merged} if merged else {})}, content)


def deletes(instant: str, *found: tuple[str, int | None], merged: str = "") -> bytes:
    """A block of deleted keys, each with a small ordering value, or with Hudi's default of 0."""
    items = b""
    for key, value in found:
        ordering = b"\x04\x00" if value is None else bytes([2 * LONG, 2 * value])
        items += b"\x02" + bytes([2 * len(key)]) + key.encode() + b"\x00" + ordering
    content = struct.pack(">iib", 3, len(items) + 2, 2 * len(found)) + items + b"\x00"
    return block(DELETE, {INSTANT: instant, SCHEMA: PLAIN, **({REPLACED: merged} if merged else {})}, content)


def files(*contents: bytes, **more: Any) -> dict[str, tuple[LogFile, bytes]]:
    """Log files of instants 10, 20, ..."""
    names = [(f".f_{number}0.log.1", f"{number}0", data) for number, data in enumerate(contents, 1)]
    return {name: (LogFile(name, (time,), len(data), **more), data) for name, time, data in names}


def compared(
    originals: Mapping[str, tuple[LogFile, bytes]], merged: bytes, *, fields: tuple[str, ...] = ("ts",)
) -> Compared:
    data = {name: content for name, (_, content) in originals.items()} | {MERGED: merged}

    @contextmanager
    def open_file(partition: str, name: str) -> Iterator[BinaryIO]:
        assert partition == "day=1"
        yield io.BytesIO(data[name])

    operation = Operation("day=1", "f", tuple(file for file, _ in originals.values()))
    plan = Plan("40", Action.LOG_COMPACTION, (operation,))
    return compare(plan, {"f": [MERGED]}, rule=Rule(fields), open_file=open_file)


ORIGINALS = files(
    rows("10", ("a", 5, "old"), ("b", 9, "new"), ("c", 1, "gone")),
    rows("20", ("a", 5, "new"), ("b", 8, "late")),
    deletes("30", ("c", BY_OPERATION), ("d", 7)),
)
RIGHT = rows("40", ("a", 5, "new"), ("b", 9, "new"), merged="10,20,30") + deletes("40", ("c", BY_OPERATION), ("d", 7))


def test_a_block_that_is_what_its_originals_are_is_right_whatever_its_commit_time() -> None:
    assert compared(ORIGINALS, RIGHT) == Compared(1, 1, 4)


@pytest.mark.parametrize(
    ("merged", "key"),
    [
        (rows("40", ("b", 9, "new")) + deletes("40", ("c", None), ("d", 7)), "a"),
        (rows("40", ("a", 5, "new"), ("b", 8, "late")) + deletes("40", ("c", None), ("d", 7)), "b"),
        (rows("40", ("a", 5, "new"), ("b", 9, "new")) + deletes("40", ("d", 7)), "c"),
        (rows("40", ("a", 5, "new"), ("b", 9, "new"), ("c", 1, "gone")) + deletes("40", ("d", 7)), "c"),
        (rows("40", ("a", 5, "new"), ("b", 9, "new")) + deletes("40", ("c", None), ("d", 6)), "d"),
        (RIGHT + rows("40", ("e", 1, "new")), "e"),
    ],
    ids=["a row", "an older row", "a delete", "a row in place of a delete", "an ordering value", "a key too many"],
)
def test_a_block_that_lost_or_changed_anything_is_wrong(merged: bytes, key: str) -> None:
    with pytest.raises(MergedWronglyError, match=rf"log compaction 40 in file group f .*: key '{key}' has "):
        compared(ORIGINALS, merged)


def test_by_commit_time_the_last_change_stays_whatever_its_ordering_value() -> None:
    merged = rows("40", ("a", 5, "new"), ("b", 8, "late")) + deletes("40", ("c", BY_OPERATION), ("d", BY_OPERATION))
    assert compared(ORIGINALS, merged, fields=()).keys == 4
    with pytest.raises(MergedWronglyError, match="key 'b'"):
        compared(ORIGINALS, RIGHT, fields=())


def test_a_row_after_a_delete_by_operation_comes_back_and_a_late_one_after_one_by_flag_does_not() -> None:
    both = files(deletes("10", ("a", BY_OPERATION), ("b", 7)), rows("20", ("a", 1, "back"), ("b", 6, "late")))
    assert compared(both, rows("40", ("a", 1, "back")) + deletes("40", ("b", 7))).keys == 2


def test_a_block_that_hides_what_it_does_not_contain_is_wrong() -> None:
    with pytest.raises(MergedWronglyError, match="it hides 35"):
        compared(ORIGINALS, rows("40", ("a", 5, "new"), ("b", 9, "new"), merged="10,20,30,35"))


def test_a_file_without_the_merged_block_is_wrong() -> None:
    with pytest.raises(MergedWronglyError, match="there is none"):
        compared(ORIGINALS, rows("39", ("a", 5, "new")))


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


@pytest.mark.parametrize(
    ("merged", "why"),
    [
        (block(5, {INSTANT: "40", SCHEMA: PLAIN}), "a block of kind 5"),
        (rows("40", ("a", 5, "new"), text=schema(*FIELDS, ("_hoodie_operation", "string"))), "_hoodie_operation"),
        (rows("40", ("a", 5, "x"), text=schema(*FIELDS[:2], ("ts", MILLIS), FIELDS[3])), "ordering field ts"),
        (rows("40", ("a", None, "new")), "an ordering value that is null"),
        (block(AVRO, {INSTANT: "40", SCHEMA: "{"}), "a schema that cannot be read"),
        (block(AVRO, {INSTANT: "40", SCHEMA: PLAIN}, b"\0\0\0\3\0\0\0\1"), "EOFError"),
        (rows("40", ("a", 5, "new"), text=schema(*FIELDS, ("w", "double"))), "blocks of different schemas"),
        (rows("40", ("a", 5, "new"), text=schema(*FIELDS[:3])), "blocks of different schemas"),
    ],
    ids=["Parquet", "operations", "another unit", "null", "no schema", "no row", "a column more", "a column less"],
)
def test_what_cannot_be_compared_is_said(merged: bytes, why: str) -> None:
    found = compared(ORIGINALS, merged)
    assert (found.groups, found.of) == (0, 1)
    assert why in found.why_not
    assert str(found).startswith("0 of 1 file group (0 keys) compared with the originals; not compared: file group f: ")


def test_a_merged_block_that_is_cut_off_is_no_block() -> None:
    with pytest.raises(LogFormatError, match="the file ends within"):
        compared(ORIGINALS, RIGHT[:-3])


def test_an_original_that_cannot_be_read_is_not_compared() -> None:
    name, (file, data) = next(iter(ORIGINALS.items()))
    found = compared({**ORIGINALS, name: (file, data[:-3])}, RIGHT)
    assert (found.groups, "LogFormatError" in found.why_not) == (0, True)


DATE = {"type": "int", "logicalType": "date"}


@pytest.mark.parametrize(("kind", "value"), [("string", "x"), ("double", 1.5), (DATE, 7)], ids=["text", "-0.0", "date"])
def test_ordering_values_that_are_no_plain_integers_are_not_compared(kind: Any, value: Any) -> None:
    """Hudi orders texts by their bytes, and -0.0 before 0.0. A delete by a date is of another class than the row."""
    text = schema(*FIELDS[:2], ("ts", kind), FIELDS[3])
    found = compared(files(rows("10", ("a", value, "x"), text=text)), rows("40", ("a", value, "x"), text=text))
    assert found.why_not == "file group f: ordering field ts of another type than int and long"


def test_a_delete_of_another_type_than_the_rows_is_not_compared() -> None:
    text = schema(*FIELDS[:2], ("ts", "int"), FIELDS[3])
    found = compared(files(rows("10", ("a", 9, "x"), text=text), deletes("20", ("a", 5))), rows("40", text=text))
    assert found.why_not == "file group f: ordering values of two types"


def test_several_ordering_fields_are_not_compared() -> None:
    assert compared(ORIGINALS, RIGHT, fields=("ts", "v")).why_not == "file group f: several ordering fields"


def test_a_large_file_group_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUDGET", 1 << 20)
    large = {name: (replace(file, size=1 << 20), data) for name, (file, data) in ORIGINALS.items()}
    assert compared(large, RIGHT).why_not == "file group f: over the 1 MiB that are read"


def test_file_groups_of_one_name_in_two_partitions_are_not_compared() -> None:
    plan = Plan("40", Action.LOG_COMPACTION, tuple(Operation(part, "f", ()) for part in ("a", "b")))
    found = compare(plan, {"f": [MERGED]}, rule=Rule(()), open_file=lambda *_: pytest.fail("opened"))
    assert (found.groups, found.why_not) == (0, "file group f: another partition has one of that name")


def test_as_many_file_groups_are_compared_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUDGET", 100)
    assert chosen({"a": 60, "b": 40}, seed="1") == {"a", "b"}
    many = {f"{number}": 30 for number in range(20)}
    one, other = (chosen(many, seed=seed) for seed in "12")
    assert len(one) == len(other) == 3
    assert one != other
    assert chosen({"a": 250, "b": 90}, seed="1") == {"b"}


def test_a_merged_block_is_replayed_in_the_place_of_its_newest_original() -> None:
    first, second, third = (LogFile(f".f_{n}.log.1", (f"{n}",), 1) for n in (10, 20, 30))
    inner = LogFile(".f_25.log.1", ("25",), 1, frozenset({"10"}))
    assert replayed([third, inner, second, first]) == [inner, second, third]
    outer = LogFile(".f_35.log.1", ("35",), 1, frozenset({"25", "20"}))
    assert replayed([outer, third, inner, second, first]) == [outer, third]


def test_what_was_rolled_back_is_not_replayed() -> None:
    dead, command = LogFile(".f_10.log.1", ("10",), 1), LogFile(".f_20.log.1", ("20",), 1, rolls_back=frozenset({"10"}))
    assert replayed([dead, command]) == [command]


def test_a_merged_block_that_was_rolled_back_hides_none_of_its_originals() -> None:
    first, merged = LogFile(".f_10.log.1", ("10",), 1), LogFile(".f_20.log.1", ("20",), 1, frozenset({"10"}))
    command = LogFile(".f_30.log.1", ("30",), 1, rolls_back=frozenset({"20"}))
    assert replayed([first, merged, command]) == [first, command]
