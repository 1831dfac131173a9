"""Stripes are decoded as Hive's and Arrow's writers meant them; what is damaged or not known is refused by name."""

import gc
import io
import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_operator.orc import OrcError
from compaction_operator.orc.file import StripeReader, Tail, read_tail
from compaction_operator.orc.spec import Compression, Encoding, Kind, StreamKind, physical_type
from compaction_operator.orc.spec.messages import Footer, PostScript, StripeFooter
from compaction_operator.storage import look_up
from tests.unit.orc.build import DATA, FIXTURES
from tests.unit.orc.columns import LONG, STRING, layout, tree, write
from tests.unit.orc.meaning import comparable, meaning

PRESENT, DATA_, LENGTH, WORDS, SECONDARY = (
    StreamKind.PRESENT,
    StreamKind.DATA,
    StreamKind.LENGTH,
    StreamKind.DICTIONARY_DATA,
    StreamKind.SECONDARY,
)
Streams = Mapping[Any, bytes]


@dataclass(frozen=True)
class HandMade:
    """A file of one stripe without compression, its streams given as they are."""

    types: Sequence[Any]
    rows: int
    streams: Streams
    encodings: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # kind and dictionary size; else DIRECT_V2
    timezone: str = "UTC"

    def footer(self) -> Any:
        footer = StripeFooter(writer_timezone=self.timezone)
        for (column, kind), data in self.streams.items():
            footer.streams.add(column=column, kind=kind, length=len(data))
        for column in range(len(self.types)):
            kind, size = self.encodings.get(column, (Encoding.DIRECT_V2, 0))
            footer.columns.add(kind=kind, dictionary_size=size)
        return footer

    def open(self, footer: Any = None) -> StripeReader:
        body = b"".join(self.streams.values())
        end = (self.footer() if footer is None else footer).SerializeToString()
        tail = Footer(number_of_rows=self.rows, types=self.types)
        tail.stripes.add(
            offset=3, index_length=0, data_length=len(body), footer_length=len(end), number_of_rows=self.rows
        )
        file = io.BytesIO(b"ORC" + body + end)
        return StripeReader(file, Tail("bucket_00000", look_up("/bucket_00000"), 0, PostScript(), tail, b""), 0)

    def column(self, column: int) -> list[Any]:
        array = self.open().column(column)
        array.validate(full=True)
        values: list[Any] = array.to_pylist()
        return values


def repeated(value: int, count: int) -> bytes:
    """A value below 128, or its zigzag form, in 3 to 10 rows."""
    return bytes([count - 3, value])


def refused(made: HandMade, column: int, reason: str) -> None:
    with pytest.raises(OrcError, match=reason) as caught:
        made.open().column(column)
    assert str(caught.value).startswith("bucket_00000: stripe 0: ")


def by_arrow(path: Path) -> list[Any]:
    """The rows as Arrow reads them, timestamps in nanoseconds."""
    table = po.ORCFile(str(path)).read()
    fields = [pa.field(one.name, _timestamps_as_numbers(one.type)) for one in table.schema]
    rows: list[Any] = comparable(table.cast(pa.schema(fields)).to_pylist())
    return rows


def _timestamps_as_numbers(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.int64()
    if pa.types.is_struct(type_):
        return pa.struct([(one.name, _timestamps_as_numbers(one.type)) for one in type_])
    if pa.types.is_map(type_):
        return pa.map_(_timestamps_as_numbers(type_.key_type), _timestamps_as_numbers(type_.item_type))
    return pa.list_(_timestamps_as_numbers(type_.value_type)) if pa.types.is_list(type_) else type_


def by_us(path: Path) -> list[Any]:
    tail = read_tail(str(path))
    rows: list[Any] = []
    with path.open("rb") as file:
        for index in range(len(tail.footer.stripes)):
            array = StripeReader(file, tail, index).column(0)
            array.validate(full=True)
            assert array.type == physical_type(tail.types, 0)
            rows += [comparable(meaning(tail.types, 0, row)) for row in array.to_pylist()]
    return rows


@pytest.mark.parametrize("version", ["hive-3.1.3", "hive-4.0.1"])
def test_every_file_of_the_fixtures_is_as_arrow_reads_it(version: str):
    files = [path for path in (FIXTURES / version).rglob("*") if re.fullmatch(r"(bucket_)?\d+(_\d+)*", path.name)]
    assert len(files) > 150
    for path in files:
        assert by_us(path) == by_arrow(path), path


@pytest.mark.parametrize("name", ["nest", "ts_utc", "ts_local", "ts_neg", "ts_zero", "update"])
def test_files_of_hives_writer_are_as_arrow_reads_them(name: str):
    path = DATA / f"{name}.orc"
    assert by_us(path) == by_arrow(path)


ROWS = 3000
NUMBERS = np.random.default_rng(3)
MANY = pa.table(
    {
        "long": pa.array(NUMBERS.integers(-(2**62), 2**62, ROWS)),
        "skewed": pa.array((NUMBERS.pareto(1.0, ROWS) * 10).astype(np.int64), mask=NUMBERS.random(ROWS) < 0.1),
        "steady": pa.array(np.cumsum(NUMBERS.integers(0, 50, ROWS))),
        "date": pa.array(NUMBERS.integers(-20_000, 20_000, ROWS).astype(np.int32)).cast(pa.date32()),
        "byte": pa.array(NUMBERS.integers(-3, 3, ROWS).astype(np.int8)),
        "flag": pa.array(NUMBERS.random(ROWS) < 0.5, mask=NUMBERS.random(ROWS) < 0.5),
        "double": pa.array(NUMBERS.normal(size=ROWS), mask=NUMBERS.random(ROWS) < 0.1),
        "text": pa.array([None if number % 7 == 0 else f"user-{number}" for number in range(ROWS)]),
        "word": pa.array([f"word-{number % 20}" for number in range(ROWS)]),
        "decimal": pa.array([Decimal(number**3 - 10**6).scaleb(-2) for number in range(ROWS)], pa.decimal128(30, 2)),
        "time": pa.array(NUMBERS.integers(10**17, 10**18, ROWS) // 1000 * 1000).cast(pa.timestamp("ns")),
        "list": pa.array([None if number % 9 == 0 else [number] * (number % 4) for number in range(ROWS)]),
        "struct": pa.array([None if number % 5 == 0 else {"a": number, "b": [str(number)]} for number in range(ROWS)]),
        "map": pa.array([[(number, "x")] * (number % 3) for number in range(ROWS)], pa.map_(pa.int32(), pa.string())),
    }
)


@pytest.mark.parametrize("version", ["0.11", "0.12"])
@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_both_versions_of_runs_in_every_codec(tmp_path: Path, version: str, codec: str):
    """Version 0.11 has integers in runs of version 1; the dictionary is of words only."""
    path = tmp_path / "a.orc"
    options: dict[str, Any] = {"dictionary_key_size_threshold": 0.5, "compression_block_size": 65536}
    po.write_table(MANY, path, compression=codec, file_version=version, **options)
    assert by_us(path) == by_arrow(path)


def test_a_union_has_its_tag_and_only_that_alternative():
    path = DATA / "union.orc"
    tail = read_tail(str(path))
    union = next(column for column, type_ in enumerate(tail.types) if type_.kind == Kind.UNION)
    with path.open("rb") as file:
        values = [value for value in StripeReader(file, tail, 0).column(union).to_pylist() if value is not None]
    assert {value["tag"] for value in values} == {0, 1}
    for value in values:
        assert value[str(value["tag"])] is not None
        assert value[str(1 - value["tag"])] is None


def test_a_null_key_of_a_map_stays():
    path = DATA / "mapnull.orc"
    assert any(key is None for row in by_us(path) for key, _ in row["row"]["m"] or [])


@pytest.mark.parametrize("zone", ["", "Mars/Olympus"])
def test_a_timestamp_without_a_known_zone_is_refused(zone: str):
    streams = {(1, DATA_): repeated(0, 3), (1, SECONDARY): repeated(0, 3)}
    made = HandMade(tree((Kind.TIMESTAMP, ())), 3, streams, timezone=zone)
    refused(made, 1, r"column c0: (the stripe does not state its time zone|the time zone 'Mars/Olympus' is unknown)")
    instant = replace(made, types=tree((Kind.TIMESTAMP_INSTANT, ())))
    assert instant.column(1) == [{"seconds": 0, "nanos": 0}] * 3
    nulls = replace(made, streams={(1, PRESENT): b"\xff\x00"})
    assert nulls.column(1) == [None] * 3


def test_streams_of_other_kinds_and_columns_of_others_are_passed_over():
    streams = {(1, 77): b"zzz", (9, DATA_): b"zz", (1, DATA_): repeated(2, 3)}
    made = HandMade(tree(LONG), 3, streams)
    assert made.column(1) == [1, 1, 1]
    assert made.open().column_bytes(1) == 5
    assert made.open().bloom_filters(1) == []


def test_sizes_are_of_all_below_a_column_but_of_no_index():
    types = tree(LONG, (Kind.LIST, (STRING,)))
    sizes = {(1, DATA_): 1, (2, LENGTH): 10, (3, DATA_): 100, (3, LENGTH): 1000, (3, StreamKind.ROW_INDEX): 10_000}
    stripe = HandMade(types, 0, {key: bytes(size) for key, size in sizes.items()}).open()
    assert [stripe.column_bytes(column) for column in range(4)] == [1111, 1, 1110, 1100]


def test_nulls_at_every_level():
    """A child has no values where its parent is null; a column of nulls has no other streams than that they are."""
    inner = (Kind.STRUCT, (LONG, (Kind.STRUCT, (LONG,))))
    streams = {
        (0, PRESENT): b"\xff\xf8",  # five rows
        (1, PRESENT): b"\xff\xb8",  # not the second
        (2, PRESENT): b"\xff\x70",  # of these four not the first
        (2, DATA_): repeated(6, 3),
        (4, PRESENT): b"\xff\x00",
    }
    made = HandMade(tree(inner), 5, streams)
    full = {"0": 3, "1": {"0": None}}
    assert made.column(1) == [{"0": None, "1": {"0": None}}, None, full, full, full]
    assert made.column(0) == [{"0": value} for value in made.column(1)]
    assert HandMade(tree(LONG), 5, {(1, PRESENT): b"\xff\x00"}).column(1) == [None] * 5


def test_a_column_in_a_struct_that_is_null_somewhere_is_refused():
    """Its own values alone would not say which rows they belong to."""
    types = tree((Kind.STRUCT, (LONG,)))
    streams = {(1, PRESENT): b"\xff\xe0", (2, DATA_): repeated(2, 3)}
    assert HandMade(types, 3, streams).column(2) == [1, 1, 1]
    refused(HandMade(types, 4, streams), 2, r"column c0\.c0: its ancestor c0 is null in some rows")


def test_a_column_in_a_list_is_refused():
    made = HandMade(tree((Kind.LIST, (LONG,))), 3, {(1, LENGTH): repeated(1, 3), (2, DATA_): repeated(2, 3)})
    assert made.column(1) == [[1]] * 3
    refused(made, 2, r"column c0\._elem: not all of its ancestors are structs")


def test_floating_point_values_keep_every_bit():
    """Also those of a NaN."""
    patterns = [0x7FF0000000000001, 0xFFF8000000000ABC, 0x8000000000000000, 1]
    data = b"".join(pattern.to_bytes(8, "little") for pattern in patterns)
    made = HandMade(tree((Kind.DOUBLE, ())), 5, {(1, PRESENT): b"\xff\xd8", (1, DATA_): data})
    values = made.open().column(1)
    assert values.is_valid().to_pylist() == [True, True, False, True, True]
    assert values.drop_null().to_numpy().view(np.uint64).tolist() == patterns


DICTIONARY = {1: (Encoding.DICTIONARY_V2, 2)}
WORD_STREAMS = {(1, DATA_): repeated(1, 3), (1, LENGTH): b"\x42\x01\x60", (1, WORDS): b"abb"}


def test_a_dictionary():
    streams = WORD_STREAMS | {(1, LENGTH): b"\x42\x01\x60"}  # one and two, in two bits each
    made = HandMade(tree(STRING), 3, streams, DICTIONARY)
    assert made.column(1) == [b"bb"] * 3
    words = made.open().column(1, words=True)
    assert (words.dictionary.to_pylist(), words.indices.to_pylist()) == ([b"a", b"bb"], [1, 1, 1])


def test_that_a_reader_ends_with_its_last_reference():
    """It may hold a whole stripe: hundreds of them must not wait for Python's collector of cycles."""
    gc.disable()
    try:
        reader = HandMade(tree(STRING), 3, WORD_STREAMS, DICTIONARY).open()
        reader.column(1)
        gone = weakref.ref(reader)
        del reader
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("kind", "streams", "encodings", "reason"),
    [
        (Kind.LONG, {}, {}, "truncated"),
        (Kind.LONG, {(1, DATA_): repeated(0, 4)}, {}, "more than 3 values"),
        (Kind.DOUBLE, {(1, DATA_): bytes(23)}, {}, "23 bytes does not hold 3 values"),
        (Kind.BOOLEAN, {(1, DATA_): b""}, {}, "truncated"),
        (Kind.LONG, {(1, PRESENT): b"\xff"}, {}, "truncated"),
        (Kind.STRING, {(1, LENGTH): repeated(1, 3), (1, DATA_): b"ab"}, {}, "whose lengths add up to 3"),
        (Kind.STRING, {(1, LENGTH): b"\x38" + b"\xff" * 8}, {}, "a length outside 0 to 2147483647"),
        (Kind.STRING, WORD_STREAMS | {(1, DATA_): repeated(2, 3)}, DICTIONARY, "outside the dictionary"),
        (Kind.STRING, WORD_STREAMS, {1: (Encoding.DICTIONARY_V2, 2**31)}, "truncated"),
        (Kind.STRING, WORD_STREAMS, {1: (9, 0)}, "9 is not a valid Encoding"),
        (
            Kind.DECIMAL,
            {(1, DATA_): b"\x02\x02\x82", (1, SECONDARY): repeated(0, 3)},
            {},
            "a stream of 2 numbers, not 3",
        ),
        (Kind.DECIMAL, {(1, DATA_): b"\x02\x02\x02"}, {}, "truncated"),
    ],
)
def test_streams_that_do_not_hold_the_values_are_refused(kind: Kind, streams: Streams, encodings: Any, reason: str):
    refused(HandMade(tree((kind, ())), 3, streams, encodings), 1, f"column c0: .*{reason}")


def test_a_tag_that_a_union_does_not_have_is_refused():
    made = HandMade(tree((Kind.UNION, (LONG,))), 3, {(1, DATA_): repeated(0, 3), (2, DATA_): repeated(2, 3)})
    assert made.column(1) == [{"tag": 0, "0": 1}] * 3
    refused(replace(made, streams={(1, DATA_): repeated(1, 3)}), 1, "a union tag without an alternative")


def test_lists_cannot_ask_for_more_elements_than_there_are():
    """Nothing is allocated for two thousand million elements a row."""
    streams = {(1, LENGTH): b"\x18\x7f\xff\xff\xff", (2, DATA_): repeated(2, 3)}
    refused(HandMade(tree((Kind.LIST, (LONG,))), 3, streams), 1, "truncated")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda footer: footer.columns.add(), "it has 3 columns, not 2"),
        (lambda footer: footer.streams.add(column=1, kind=1, length=0), "column 1 has two streams of kind 1"),
        (lambda footer: footer.streams.add(column=1, kind=2, length=1), "its streams are longer than the stripe"),
        (lambda footer: setattr(footer, "encryption", b"\x08\x01"), "it is encrypted"),
    ],
)
def test_a_stripes_footer_that_cannot_be_is_refused(change: Any, reason: str):
    made = HandMade(tree(LONG), 3, {(1, DATA_): repeated(0, 3)})
    footer = made.footer()
    change(footer)
    with pytest.raises(OrcError, match=f"^bucket_00000: stripe 0: its footer: {reason}"):
        made.open(footer)


def test_types_that_are_no_tree_are_refused():
    types = tree(LONG)
    types[1].subtypes.append(0)
    with pytest.raises(OrcError, match="its types are not a tree"):
        HandMade(types, 3, {}).open()


def test_a_stripe_in_a_file_that_is_cut_off_is_refused(tmp_path: Path):
    tail = read_tail(str(DATA / "nest.orc"))
    with pytest.raises(OrcError, match=r"nest\.orc: stripe 0: its footer: the file is truncated"):
        StripeReader(io.BytesIO((DATA / "nest.orc").read_bytes()[:100]), tail, 0)


def _unpacked(name: str) -> HandMade:
    """A file of Hive's with its streams not compressed, so that damage reaches them."""
    path = DATA / f"{name}.orc"
    tail = read_tail(str(path))
    with path.open("rb") as file:
        stripe = StripeReader(file, tail, 0)
        streams = {
            (one.column, one.kind): stripe._stream(one.column, one.kind) or b""
            for one in stripe.footer.streams
            if one.kind <= SECONDARY
        }
    encodings = {column: (one.kind, one.dictionary_size) for column, one in enumerate(stripe.footer.columns)}
    return HandMade(tail.types, stripe.rows, streams, encodings, stripe.footer.writer_timezone)


VICTIMS = [_unpacked(name) for name in ("nest", "union", "ts_local", "mapnull", "zone_europe_dublin")]


def test_the_victims_of_the_next_test_are_whole():
    assert all(len(victim.column(0)) == victim.rows for victim in VICTIMS)


@settings(max_examples=300, deadline=2000)
@given(victim=st.sampled_from(VICTIMS), data=st.data(), junk=st.binary(max_size=12))
def test_damage_is_refused_or_gives_as_many_valid_rows(victim: HandMade, data: st.DataObject, junk: bytes):
    """In any stream, in the number of rows or in a dictionary's size: never anything else than OrcError."""
    key = data.draw(st.sampled_from(sorted(victim.streams)))
    old = victim.streams[key]
    start = data.draw(st.integers(0, len(old)))
    end = data.draw(st.integers(start, min(len(old), start + 12)))
    rows = data.draw(st.sampled_from([victim.rows, victim.rows, victim.rows + 1, 0, 2**40]))
    kind, size = victim.encodings[key[0]]
    sizes = data.draw(st.sampled_from([size, size, size + 1, 2**32 - 1]))
    encodings = {**victim.encodings, key[0]: (data.draw(st.sampled_from([kind, kind, kind, *Encoding])), sizes)}
    streams = {**victim.streams, key: old[:start] + junk + old[end:]}
    try:
        array = replace(victim, rows=rows, streams=streams, encodings=encodings).open().column(0)
    except OrcError:
        return
    array.validate(full=True)
    assert len(array) == rows


class Counting(io.BytesIO):
    """A file that counts its reads."""

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)


@pytest.mark.parametrize(("item_bytes", "reads"), [(10, 1), (1 << 20, 4)])
def test_the_streams_of_a_small_column_are_read_at_once(tmp_path: Path, item_bytes: int, reads: int) -> None:
    """Those of a large one by themselves, so that not all of them are in memory."""
    types = tree((Kind.LIST, (STRING,)))
    arrays = {1: pa.array([None, [b"x" * item_bytes]], physical_type(types, 1))}
    path = write(tmp_path / "file", layout(types, compression=Compression.NONE), arrays)
    file = Counting(path.read_bytes())
    stripe = StripeReader(file, read_tail(str(path)), 0)
    file.reads = 0
    assert stripe.column(1).to_pylist() == arrays[1].to_pylist()
    assert file.reads == reads
