"""Run lengths: the specification's examples, and whatever is written is read back, each row group by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_operator.orc.encoding.patched_base import patched_base
from compaction_operator.orc.encoding.rle import decode_booleans, decode_bytes, decode_integers
from compaction_operator.orc.encoding.rle_encode import Encoded, encode_booleans, encode_bytes, encode_integers
from compaction_operator.orc.spec import Integers

pytestmark = pytest.mark.usefixtures("both_means")

LONGS = st.integers(-(2**63), 2**63 - 1)
SIZES = st.integers(0, 1100)


@st.composite
def mostly_small(draw: st.DrawFn) -> list[int]:
    base, width = draw(st.integers(-(2**61), 2**61)), draw(st.integers(0, 56))
    values = [base + draw(st.integers(0, 2**width - 1))] * draw(st.integers(25, 1100))
    for place in draw(st.lists(st.integers(0, len(values) - 1), max_size=30)):
        values[place] += draw(st.integers(0, 2**60))
    return values


RUNS = st.one_of(
    mostly_small(),
    st.lists(LONGS, max_size=20),
    st.lists(st.integers(0, 3), max_size=20),
    st.builds(lambda value, size: [value] * size, LONGS, SIZES),
    st.builds(
        lambda first, step, size: [first + step * number for number in range(size)],
        st.integers(-(2**40), 2**40),
        st.integers(-(2**40), 2**40),
        SIZES,
    ),
    st.lists(st.integers(0, 1), min_size=3, max_size=600).map(lambda steps: np.cumsum(steps).tolist()),
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


def test_patched_integers_of_the_specification():
    values = np.array([2030, 2000, 2020, 1_000_000, *range(2040, 2200, 10)])
    written = "8e 13 2b 21 07 d0 1e 00 14 70 28 32 3c 46 50 5a 64 6e 78 82 8c 96 a0 aa b4 be fc e8"
    assert patched_base(values) == bytes.fromhex(written)


@pytest.mark.parametrize("places", [[0, 255, 510], [511], [*range(400, 425)], [*range(487, 512)]])
def test_patches_may_be_far_apart_and_many(places: list[int]):
    values = np.arange(512) % 7 - 3
    values[places] += 1000
    run = patched_base(values)
    assert run is not None
    assert decode_integers(run, 512, signed=True, version=2).tolist() == values.tolist()


def test_steps_of_one_bit_are_not_taken_for_one_step():
    values = np.arange(100, 300) // 2
    encoded = encode_integers(values, whole(values), signed=False)
    assert len(encoded.data) < 60
    assert decode_integers(encoded.data, 200, signed=False, version=2).tolist() == values.tolist()


def test_differences_that_overflow_are_not_written():
    values = np.array([2**63 - 2, 2**63 - 1, -(2**63), -(2**63) + 1])
    assert encode_integers(values, whole(values), signed=True).data[:2] == bytes.fromhex("7e 03")


@pytest.mark.parametrize(
    "values",
    [
        [*range(50)],
        [*range(30), *range(2**40, 2**40 + 30)],
        [2**56 + (number == 5) * 2**40 for number in range(50)],
        [(number == 5) * 2**61 for number in range(50)],
    ],
    ids=["no patch", "too many", "the base is too large", "the patch is too large"],
)
def test_what_cannot_be_patched(values: list[int]):
    assert patched_base(np.array(values)) is None


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
        (np.arange(512) ** 3 % 97 + 2**40 * (np.arange(512) % 60 == 7), 600),
        (np.concatenate((np.arange(200), np.arange(10**6, 10**6 + 300))), 20),
    ],
    ids=["one value", "a sequence", "a sequence with gaps", "a few large ones", "two sequences"],
)
def test_regular_integers_are_small(values: Integers, most: int):
    assert len(encode_integers(values, whole(values), signed=True).data) <= most
