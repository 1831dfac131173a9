"""Which streams a column becomes: those that Java's writer would have."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_operator.orc.encoding import EncodedColumn, encode_column
from compaction_operator.orc.file import StripeBuilder, StripeLayout
from compaction_operator.orc.spec import WORDS, Compression, Encoding, Kind, StreamKind, physical_type
from tests.unit.orc.columns import LONG, STRING, Shape, decimal, tree


def encoded(shape: Shape, values: Sequence[Any]) -> list[EncodedColumn]:
    types = tree(shape)
    return list(
        encode_column(types, 1, pa.array(values, physical_type(types, 1)), row_groups=np.array([0, len(values)]))
    )


def kinds(column: EncodedColumn) -> list[StreamKind]:
    return [stream.kind for stream in column.streams]


def test_present_is_only_where_there_are_nulls():
    assert kinds(encoded(LONG, [1, 2])[0]) == [StreamKind.DATA]
    assert kinds(encoded(LONG, [1, None])[0]) == [StreamKind.PRESENT, StreamKind.DATA]


def test_strings_that_repeat_have_a_sorted_dictionary():
    [column] = encoded(STRING, [b"b", b"\xff", b"a", b"b", None, b"b"])
    assert (column.encoding, column.dictionary_size) == (Encoding.DICTIONARY_V2, 3)
    assert kinds(column) == [
        StreamKind.PRESENT,
        StreamKind.DATA,
        StreamKind.LENGTH,
        StreamKind.DICTIONARY_DATA,
    ]
    assert bytes(column.streams[3].data) == b"ab\xff"
    assert [stream.positions for stream in column.streams[2:]] == [None, None]


@pytest.mark.parametrize(
    "values",
    [
        [b"%d" % number for number in range(100)],
        [b"%d" % (number % 10_000) for number in range(10_000)] + [b"same"] * 20_000,
        [b"same"] * 10_000 + [b"%d" % number for number in range(60_000)],
        [None, None],
        [],
    ],
    ids=["distinct", "distinct at first", "distinct later", "all null", "none"],
)
def test_strings_that_do_not_repeat_have_no_dictionary(values: list[bytes | None]):
    [column] = encoded(STRING, values)
    assert (column.encoding, column.dictionary_size) == (Encoding.DIRECT_V2, 0)
    assert kinds(column)[-2:] == [StreamKind.DATA, StreamKind.LENGTH]


def test_binaries_never_have_a_dictionary():
    assert encoded((Kind.BINARY, ()), [b"same"] * 10)[0].encoding is Encoding.DIRECT_V2


def test_children_come_in_the_order_of_their_ids_without_values_of_absent_parents():
    shape = (Kind.STRUCT, ((Kind.LIST, (LONG,)), (Kind.DECIMAL, ())))
    rows = [None, {"0": [1, None], "1": None}, {"0": None, "1": decimal(5, 0)}, {"0": [], "1": decimal(6, 0)}]
    columns = encoded(shape, rows)
    assert [column.column for column in columns] == [1, 2, 3, 4]
    assert [len(column.array) for column in columns] == [4, 3, 2, 3]
    assert [column.groups.tolist() for column in columns] == [[0, 4], [0, 3], [0, 2], [0, 3]]


def test_a_union_has_the_values_of_its_tags():
    rows = [{"tag": 1, "1": b"x"}, {"tag": 0, "0": None}, {"tag": 0, "0": 5}, None]
    union, number, text = encoded((Kind.UNION, (LONG, STRING)), rows)
    assert kinds(union) == [StreamKind.PRESENT, StreamKind.DATA]
    assert number.array.to_pylist() == [None, 5]
    assert text.array.to_pylist() == [b"x"]


def test_slices_of_arrays_are_encoded_as_what_they_hold():
    shape = (Kind.MAP, (STRING, (Kind.LIST, (LONG,))))
    values = [[{"key": b"k%d" % number, "value": [number] * number}] for number in range(9)]
    types = tree(shape)
    array = pa.array(values, physical_type(types, 1))
    sliced = encode_column(types, 1, array.slice(3, 4), row_groups=np.array([0, 4]))
    copied = encoded(shape, values[3:7])
    for left, right in zip(sliced, copied, strict=True):
        assert [bytes(stream.data) for stream in left.streams] == [bytes(stream.data) for stream in right.streams]


def test_a_timestamp_with_a_null_inside_is_refused():
    with pytest.raises(ValueError, match="has a null in it"):
        encoded((Kind.TIMESTAMP, ()), [{"seconds": None, "nanos": 0}])


TEXTS = st.sampled_from([b"", b"a", b"ab", b"b", b"\xff", "\uff21".encode(), "\U0001f600".encode()])
INDICES = st.lists(st.integers(0, 3) | st.none(), max_size=25)


@given(words=st.lists(TEXTS, min_size=4, max_size=6), indices=INDICES)
@pytest.mark.parametrize("kind", [Kind.STRING, Kind.CHAR, Kind.VARCHAR])
def test_that_words_become_the_same_bytes_as_their_text(kind: Kind, words: list[bytes], indices: list[int | None]):
    """Some words are in the dictionary twice, some in no row; some rows are null."""
    array = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int64()), pa.array(words, pa.large_binary()))
    assert array.type == WORDS
    assert stored(kind, array) == stored(kind, array.dictionary_decode())
    assert stored(kind, array[2:]) == stored(kind, array[2:].dictionary_decode())


def stored(kind: Kind, array: pa.Array) -> list[Any]:
    """Return all of a column that is written: streams, row index, Bloom filters, encoding and statistics."""
    layout = StripeLayout(tree((kind, ())), Compression.NONE, 1024, 0, {1: 0.05}, row_index_stride=10)
    builder = StripeBuilder(len(array), layout)
    builder.add(1, array)
    column = builder.columns[1]
    return [column.index, column.data, column.encoding, column.statistics]


def test_that_only_a_column_of_text_may_be_words():
    builder = StripeBuilder(1, StripeLayout(tree((Kind.BINARY, ())), Compression.NONE, 1024, 0, {}))
    with pytest.raises(ValueError, match="1 values of dictionary"):
        builder.add(1, pa.DictionaryArray.from_arrays(pa.array([0], pa.int64()), pa.array([b"a"], pa.large_binary())))
