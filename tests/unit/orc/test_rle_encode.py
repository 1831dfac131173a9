"""Run lengths: the specification's examples, and whatever is written is read back, each row group by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_operator.orc.rle import decode_booleans, decode_bytes, decode_integers
from compaction_operator.orc.rle_encode import Encoded, Integers, encode_booleans, encode_bytes, encode_integers

LONGS = st.integers(-(2**63), 2**63 - 1)
SIZES = st.integers(0, 1100)
RUNS = st.one_of(
    st.lists(LONGS, max_size=20),
    st.lists(st.integers(0, 3), max_size=20),
    st.builds(lambda value, size: [value] * size, LONGS, SIZES),
    st.builds(
        lambda first, step, size: [first + step * number for number in range(size)],
        st.integers(-(2**40), 2**40),
        st.integers(-(2**40), 2**40),
        SIZES,
    ),
    st.lists(st.integers(0, 100), min_size=3, max_size=600).map(lambda steps: np.cumsum(steps).tolist()),
    st.lists(st.integers(0, 100), min_size=3, max_size=600).map(lambda steps: (-np.cumsum(steps)).tolist()),
)


def whole(values: np.ndarray) -> Integers:
    return np.array([0, len(values)])


@st.composite
def grouped(draw: st.DrawFn, runs: st.SearchStrategy[list[int]]) -> tuple[list[int], Integers]:
    """Values and offsets of row groups in them."""
    values = [value for run in draw(st.lists(runs, max_size=4)) for value in run]
    inner = draw(st.lists(st.integers(0, len(values)), max_size=4))
    return values, np.array([0, *sorted(inner), len(values)])


def slices(encoded: Encoded) -> list[bytes]:
    """The bytes of each row group."""
    starts = [position[0] for position in encoded.positions]
    assert all(skip == 0 for _, skip in encoded.positions)
    return [encoded.data[start:end] for start, end in zip(starts, [*starts[1:], len(encoded.data)], strict=True)]


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([10_000] * 5, "0a 27 10"),
        ([23_713, 43_806, 57_005, 48_879], "5e 03 5c a1 ab 1e de ad be ef"),
        ([2, 3, 5, 7, 11, 13, 17, 19, 23, 29], "c6 09 02 02 22 42 42 46"),
    ],
)
def test_integers_of_the_specification(values: list[int], written: str):
    array = np.array(values)
    assert encode_integers(array, whole(array), signed=False).data == bytes.fromhex(written)


@pytest.mark.parametrize(("values", "written"), [([0] * 100, "61 00"), ([0x44, 0x45], "fe 44 45")])
def test_bytes_of_the_specification(values: list[int], written: str):
    array = np.array(values, np.uint8)
    assert encode_bytes(array, whole(array)).data == bytes.fromhex(written)


def test_booleans_of_the_specification():
    array = np.array([True, *[False] * 7])
    assert encode_booleans(array, whole(array)).data == bytes.fromhex("ff 80")


@given(grouped(RUNS), st.booleans())
def test_each_row_group_of_integers_is_read_by_itself(drawn: tuple[list[int], Integers], signed: bool):
    array = np.array(drawn[0], np.int64)
    encoded = encode_integers(array, drawn[1], signed=signed)
    for start, end, data in zip(drawn[1], drawn[1][1:], slices(encoded), strict=False):
        assert decode_integers(data, end - start, signed=signed, version=2).tolist() == array[start:end].tolist()


@given(grouped(st.one_of(st.lists(st.integers(0, 255)), st.builds(lambda n: [7] * n, st.integers(0, 300)))))
def test_each_row_group_of_bytes_is_read_by_itself(drawn: tuple[list[int], Integers]):
    encoded = encode_bytes(np.array(drawn[0], np.uint8), drawn[1])
    for start, end, data in zip(drawn[1], drawn[1][1:], slices(encoded), strict=False):
        assert decode_bytes(data, end - start).tolist() == drawn[0][start:end]


@given(grouped(st.one_of(st.lists(st.integers(0, 1)), st.builds(lambda n: [1] * n, st.integers(0, 300)))))
def test_booleans_are_read_from_the_bit_where_a_row_group_begins(drawn: tuple[list[int], Integers]):
    values, groups = np.array(drawn[0], np.bool_), drawn[1]
    encoded = encode_booleans(values, groups)
    assert decode_booleans(encoded.data, len(values)).tolist() == values.tolist()
    for start, (offset, skip, bit) in zip(groups, encoded.positions, strict=False):
        rest = decode_booleans(encoded.data[offset:], bit + len(values) - start) if start < len(values) else values[:0]
        assert skip == 0
        assert rest[bit:].tolist() == values[start:].tolist()


@pytest.mark.parametrize(
    ("values", "most"),
    [
        (np.full(512, 10**12), 10),
        (np.arange(10**6, 10**6 + 512), 10),
        (np.flatnonzero(np.arange(540) % 20), 140),
        (np.concatenate((np.arange(200), np.arange(10**6, 10**6 + 300))), 20),
    ],
    ids=["one value", "a sequence", "a sequence with gaps", "two sequences"],
)
def test_regular_integers_are_small(values: Integers, most: int):
    assert len(encode_integers(values, whole(values), signed=True).data) <= most
