"""Files that are written are read back: every type and codec, stripes, row groups, nulls at every level."""

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sandbox.harness.orctail import content_end

from compaction_operator.orc import OrcError
from compaction_operator.orc.encoding import UTF8_UTC, bloom_columns
from compaction_operator.orc.file import OrcWriter, StripeReader, read_tail, stripe_statistics
from compaction_operator.orc.spec import Compression, Kind
from compaction_operator.orc.spec.messages import PROLEPTIC_GREGORIAN
from tests.unit.orc.columns import (
    BITS,
    LONG,
    PRIMITIVE_SHAPES,
    STRING,
    add_stripe,
    arrays_of,
    decimal,
    layout,
    random_arrays,
    read,
    same_bits,
    shapes,
    timestamp,
    tree,
    values,
    write,
)
from tests.unit.orc.groups import row_index

NESTED = [
    (Kind.LIST, (LONG,)),
    (Kind.MAP, (STRING, (Kind.LIST, (STRING,)))),
    (Kind.STRUCT, (LONG, (Kind.STRUCT, (STRING, (Kind.BOOLEAN, ()))))),
    (Kind.LIST, ((Kind.STRUCT, ((Kind.DECIMAL, ()), (Kind.TIMESTAMP, ()))),)),
    (Kind.UNION, (LONG, STRING, (Kind.LIST, (LONG,)))),
]
EVERYTHING = [*PRIMITIVE_SHAPES, *NESTED]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def writer_of(path: Path) -> OrcWriter:
    return OrcWriter(str(path), layout(tree(LONG, STRING)))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_values_of_any_types_come_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject):
    below = data.draw(st.lists(shapes(), min_size=1, max_size=3))
    types = tree(*below)
    rows = st.lists(st.tuples(*map(values, below)), min_size=1, max_size=20)
    stripes = [arrays_of(types, data.draw(rows)) for _ in range(data.draw(st.integers(1, 2)))]
    path = tmp_path_factory.mktemp("any") / "file"
    write(path, layout(types, row_index_stride=7, block_size=64), *stripes)
    for written, found in zip(stripes, read(path), strict=True):
        assert all(same_bits(written[column], found[column]) for column in written)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.LZO])
@pytest.mark.parametrize("block_size", [512, 65536])
def test_every_type_in_every_codec(path: Path, codec: Compression, block_size: int):
    types = tree(*EVERYTHING)
    stripes = [random_arrays(types, EVERYTHING, count, seed=count) for count in (1200, 10)]
    write(path, layout(types, compression=codec, block_size=block_size, row_index_stride=500), *stripes)
    for written, found in zip(stripes, read(path), strict=True):
        assert all(same_bits(written[column], found[column]) for column in written)


def _arrow_value(kind: Kind, value: Any) -> Any:
    if value is None or kind not in (Kind.STRING, Kind.CHAR, Kind.VARCHAR):
        return value
    return value.decode()


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.LZO])
def test_arrow_reads_the_same_values(path: Path, codec: Compression):
    kinds = [
        *BITS,
        Kind.BOOLEAN,
        Kind.FLOAT,
        Kind.DOUBLE,
        Kind.STRING,
        Kind.CHAR,
        Kind.VARCHAR,
        Kind.BINARY,
    ]
    below = [(kind, ()) for kind in kinds]
    types = tree(*below)
    stripe = random_arrays(types, below, 2500, seed=1)
    write(path, layout(types, compression=codec, row_index_stride=1000), stripe)
    table = po.ORCFile(str(path)).read()
    for kind, array, column in zip(kinds, stripe.values(), table.columns, strict=True):
        found = column.cast(pa.int32()) if kind is Kind.DATE else column
        assert found.to_pylist() == [_arrow_value(kind, value) for value in array.to_pylist()], kind


def test_the_tail_says_what_the_file_is(path: Path):
    types = tree(LONG, STRING)
    stripes = [arrays_of(types, [(number, b"x")] * count) for number, count in ((1, 3), (2, 4))]
    file = layout(types, compression=Compression.SNAPPY, calendar=PROLEPTIC_GREGORIAN, row_index_stride=1000)
    with OrcWriter(str(path), file) as writer:
        for columns in stripes:
            add_stripe(writer, columns)
        assert writer.stripe_rows == [3, 4]
        assert writer.finish({"b": b"2", "a": b"1"}) == path.stat().st_size
    tail = read_tail(str(path))
    assert (tail.compression, tail.block_size, tail.stripe_rows, tail.rows) == (Compression.SNAPPY, 65536, [3, 4], 7)
    assert tail.user_metadata == {"a": b"1", "b": b"2"}
    assert (list(tail.postscript.version), tail.postscript.writer_version) == ([0, 12], 7)
    footer = tail.footer
    assert (footer.calendar, footer.row_index_stride, footer.writer) == (PROLEPTIC_GREGORIAN, 1000, 0)
    assert footer.header_length + footer.content_length == content_end(tail)


def test_statistics_are_of_row_groups_stripes_and_the_file(path: Path):
    types = tree(LONG)
    stripes = [arrays_of(types, [(number,) for number in range(start, start + 20)]) for start in (0, 100)]
    write(path, layout(types, row_index_stride=10), *stripes)
    tail = read_tail(str(path))
    root, numbers = tail.footer.statistics
    assert root.number_of_values == numbers.number_of_values == 40
    assert (numbers.int_statistics.minimum, numbers.int_statistics.maximum) == (0, 119)
    assert [stripe_statistics(tail, index).column_stats[1].int_statistics.maximum for index in (0, 1)] == [19, 119]
    with path.open("rb") as file:
        index = row_index(StripeReader(file, tail, 1), 1)
    assert [entry.statistics.int_statistics.minimum for entry in index.entry] == [100, 110]


def test_bloom_filters_are_one_a_row_group_and_the_encoding_says_it(path: Path):
    types = tree(LONG, STRING)
    columns = arrays_of(types, [(number, b"%d" % number) for number in range(25)])
    write(path, layout(types, row_index_stride=10, bloom_filters={2: 0.05}), columns)
    with path.open("rb") as file:
        stripe = StripeReader(file, read_tail(str(path)), 0)
        assert bloom_columns(stripe.footer) == {2}
        assert len(stripe.bloom_filters(2)) == 3
    assert [encoding.bloom_encoding for encoding in stripe.footer.columns] == [0, 0, UTF8_UTC]


def test_a_file_without_rows_has_no_stripe_and_empty_statistics(path: Path):
    types = tree(*EVERYTHING)
    write(path, layout(types), arrays_of(types, []))
    tail = read_tail(str(path))
    assert (tail.rows, tail.stripe_rows) == (0, [])
    assert [statistics.number_of_values for statistics in tail.footer.statistics] == [0] * len(types)


def test_a_row_of_nulls_has_children_without_values(path: Path):
    types = tree(LONG, (Kind.STRUCT, (LONG, STRING)))
    written = arrays_of(types, [(number, None) for number in range(15)])
    write(path, layout(types, row_index_stride=10), written)
    [found] = read(path)
    assert found == written
    with path.open("rb") as file:
        stripe = StripeReader(file, read_tail(str(path)), 0)
        assert stripe.column_bytes(2) < 20


def test_structs_left_out_are_never_null(path: Path):
    types = tree((Kind.STRUCT, (LONG, STRING)))
    columns = {2: pa.array([1, None]), 3: pa.array([b"x", b"y"], pa.large_binary())}
    write(path, layout(types), columns)
    [found] = read(path)
    assert found[1].to_pylist() == [{"0": 1, "1": b"x"}, {"0": None, "1": b"y"}]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({2: pa.array([b"x"], pa.large_binary())}, "column 1 has no values"),
        ({1: pa.array([1])}, "column 2 has no values"),
        ({2: pa.array([b"x"], pa.large_binary()), 1: pa.array([1])}, "column 1 has no values"),
        ({1: pa.array([1, 2])}, "column 1: 2 values of int64, not 1 of int64"),
        ({1: pa.array(["x"])}, "column 1: 1 values of string, not 1 of int64"),
    ],
)
def test_a_stripe_that_is_not_whole_is_refused_and_the_file_removed(
    path: Path, columns: dict[int, pa.Array], reason: str
):
    with pytest.raises(OrcError, match=f"cannot be written: {reason}") as raised, writer_of(path) as writer:
        with writer.stripe(1) as stripe:
            for column, array in columns.items():
                stripe.add(column, array)
        writer.finish({})
    assert raised.value.path == str(path)
    assert not path.exists()


def test_a_column_is_not_written_twice(path: Path):
    columns = {1: pa.array([1]), 2: pa.array([b"x"], pa.large_binary())}
    with (
        pytest.raises(OrcError, match="column 2 is out of order"),
        writer_of(path) as writer,
        writer.stripe(1) as stripe,
    ):
        for column, array in [*columns.items(), (2, columns[2])]:
            stripe.add(column, array)
    assert not path.exists()


def test_a_file_that_is_not_finished_is_removed(path: Path):
    with writer_of(path):
        assert path.exists()
    assert not path.exists()


def test_an_error_of_others_removes_the_file_and_stays_what_it_is(path: Path):
    with pytest.raises(KeyError, match="other"), writer_of(path) as writer:
        writer.finish({})
        raise KeyError("other")
    assert not path.exists()


def test_a_file_that_exists_is_left_alone(path: Path):
    path.write_text("mine")
    with pytest.raises(OrcError, match="cannot be created: File exists"), writer_of(path):
        pass
    assert path.read_text() == "mine"


def test_arrow_reads_what_is_nested_scaled_and_timed(path: Path):
    shapes_ = [NESTED[0], NESTED[1], NESTED[2], (Kind.DECIMAL, ()), (Kind.TIMESTAMP, ())]
    types = tree(*shapes_)
    inner = {"0": 1, "1": {"0": b"x", "1": True}}
    rows = [
        ([1, None, 3], [{"key": b"k", "value": [b"a", None]}], inner, decimal(-15, 1), timestamp(86_400, 120_000_000)),
        ([], [], {"0": None, "1": None}, decimal(10**37, 18), timestamp(-2 * 10**8, 0)),
        (None, None, None, None, None),
    ]
    write(path, layout(types), arrays_of(types, rows * 20))
    found = [list(row.values()) for row in po.ORCFile(str(path)).read().to_pylist()]
    first = [
        [1, None, 3],
        [("k", ["a", None])],
        {"c0": 1, "c1": {"c0": "x", "c1": True}},
        Decimal("-1.5"),
        datetime(2015, 1, 2, microsecond=120_000),
    ]
    second = [[], [], {"c0": None, "c1": None}, Decimal(10**19), datetime(2015, 1, 1) - timedelta(seconds=2 * 10**8)]
    assert found == [first, second, [None] * 5] * 20
