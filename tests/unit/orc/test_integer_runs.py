"""A column as runs has the values of the decoder, or its refusal."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_operator.orc.encoding import IntegerRuns, StripeStreams, column_runs, decode_column
from compaction_operator.orc.encoding.integer_runs import integer_blocks, integer_runs
from compaction_operator.orc.encoding.rle import decode_integers
from compaction_operator.orc.encoding.rle_encode import encode_integers
from compaction_operator.orc.spec import Integers, Kind, Type
from compaction_operator.orc.spec.messages import ColumnEncoding
from tests.unit.orc.test_rle_encode import RUNS, grouped


def steady(first: int, step: int, size: int) -> Integers:
    return first + step * np.arange(size)


def stored(values: Integers, *ends: int) -> bytes:
    return encode_integers(values, np.array([0, *ends, len(values)]), signed=True).data


def values_of(runs: IntegerRuns) -> Integers:
    some = np.arange(0, runs.count, 3)
    assert np.array_equal(runs.at(some), runs.values()[some])
    return runs.values()


def outcome_of(read: Callable[..., Integers], *arguments: object, **options: object) -> list[int] | str:
    """The values that are read, or the error."""
    try:
        found: list[int] = read(*arguments, **options).tolist()
    except ValueError as error:
        return str(error)
    return found


def read_as_runs(data: bytes, count: int, *, version: int) -> Integers:
    return values_of(integer_runs(data, count, version=version))


@given(grouped(RUNS))
def test_every_stream_has_the_values_of_the_decoder(written: tuple[list[int], Integers]):
    values, groups = written
    data = encode_integers(np.array(values, np.int64), groups, signed=True).data
    assert values_of(integer_runs(data, len(values), version=2)).tolist() == values


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, int]:
    """A stream with some bytes changed, and a number of values that may be wrong."""
    parts = draw(st.lists(RUNS, min_size=1, max_size=3))
    data = bytearray(b"".join(stored(np.array(part, np.int64)) for part in parts))
    for place in draw(st.lists(st.integers(0, max(0, len(data) - 1)), max_size=3 if data else 0)):
        data[place] = draw(st.integers(0, 255))
    end = draw(st.sampled_from([len(data), draw(st.integers(0, len(data)))]))
    return bytes(data[:end]), max(0, sum(map(len, parts)) + draw(st.integers(-1, 1)))


@given(damaged(), st.sampled_from([1, 2]))
def test_a_damaged_stream_ends_as_in_the_decoder(stream: tuple[bytes, int], version: int):
    expected = outcome_of(decode_integers, *stream, signed=True, version=version)
    assert outcome_of(read_as_runs, *stream, version=version) == expected


def read_in_blocks(data: bytes, count: int, *, version: int, size: int) -> Integers:
    blocks = list(integer_blocks(data, count, version=version, size=size))
    assert all(len(block) == size for block in blocks[:-1])
    assert all(0 < len(block) <= size for block in blocks)
    return np.concatenate([np.zeros(0, np.int64), *blocks])


@given(grouped(RUNS), st.sampled_from([1, 3, 512, 700, 10**6]))
def test_blocks_have_the_values_of_the_decoder(written: tuple[list[int], Integers], size: int):
    values, groups = written
    data = encode_integers(np.array(values, np.int64), groups, signed=True).data
    assert read_in_blocks(data, len(values), version=2, size=size).tolist() == values


@given(damaged(), st.sampled_from([1, 2]), st.sampled_from([1, 600, 10**6]))
def test_blocks_of_a_damaged_stream_are_refused(stream: tuple[bytes, int], version: int, size: int):
    """A run is decoded by itself, so another of several faults may be found first."""
    expected = outcome_of(decode_integers, *stream, signed=True, version=version)
    found = outcome_of(read_in_blocks, *stream, version=version, size=size)
    assert isinstance(found, str) if isinstance(expected, str) else found == expected


@pytest.mark.parametrize(
    ("values", "runs"),
    [
        (steady(0, 0, 400_000), 1),
        (steady(0, 1, 400_000), 1),
        (steady(-5, -3, 2000), 1),
        (np.repeat([3, 4, 7], 5000), 3),
        (steady(0, 1, 512), 1),
        (np.zeros(0, np.int64), 0),
    ],
    ids=["one write id", "row ids", "descending", "three write ids", "one run", "nothing"],
)
def test_regular_keys_are_few_runs(values: Integers, runs: int):
    """Also where the writer began a run for each row group."""
    for ends in ((), range(10_000, len(values), 10_000)):
        found = integer_runs(stored(values, *ends), len(values), version=2)
        assert len(found.starts) == len(found.lengths) == runs
        assert found.lengths.sum() == len(values)
        assert np.array_equal(values_of(found), values)


def test_row_ids_that_begin_again_are_runs_but_for_the_values_around_that():
    """Java's writer packs the values around the beginning of a transaction."""
    values = np.concatenate([steady(0, 1, 50_100)] * 4)
    found = integer_runs(stored(values), len(values), version=2)
    assert len(found.starts) < 4 * 512
    assert np.array_equal(values_of(found), values)


@pytest.mark.parametrize("irregular", [np.arange(40_000) ** 2 % 977, np.arange(10) ** 2])
def test_irregular_values_are_runs_of_one_value(irregular: Integers):
    found = integer_runs(stored(irregular), len(irregular), version=2)
    assert np.array_equal(values_of(found), irregular)


@pytest.mark.parametrize("step", [2**54, 2**60, -(2**60)])
def test_values_that_overflow_are_no_run(step: int):
    """As in Java, a run wraps at 64 bits: its first and last value would not be its extremes."""
    data = b"\xc1\xff" + varint(2 * 2**61) + varint(2 * step if step > 0 else -2 * step - 1)
    expected = decode_integers(data, 512, signed=True, version=2)
    found = integer_runs(data, 512, version=2)
    assert len(found.starts) == 512
    assert np.array_equal(values_of(found), expected)


def varint(number: int) -> bytes:
    septets = [number >> shift & 0x7F for shift in range(0, max(1, number.bit_length()), 7)]
    return bytes([*(septet | 0x80 for septet in septets[:-1]), septets[-1]])


def test_constant_runs_have_the_same_values():
    columns: Sequence[Integers] = [steady(7, 0, 1000), steady(7, 1, 1000)]
    for values in columns:
        found = integer_runs(stored(values), len(values), version=2).constant()
        assert not found.steps.any()
        assert np.array_equal(values_of(found), values)


@pytest.mark.parametrize(("kind", "refused"), [(0, False), (1, False), (2, False), (3, False), (4, True), (13, True)])
def test_an_unknown_encoding_is_refused(kind: int, refused: bool):
    """As the decoder does: its bytes may mean anything."""
    values = steady(0, 1, 600)
    version_1 = b"".join(bytes([127, 1]) + varint(2 * first) for first in range(0, 520, 130)) + b"\x4d\x01\x90\x08"
    data = version_1 if kind < 2 else stored(values)
    types = [Type(kind=Kind.LONG)]
    streams = StripeStreams(types, [ColumnEncoding(kind=kind)], "UTC", lambda _, kind: data if kind else None)
    if refused:
        for read in (lambda: column_runs(streams, 0, len(values)), lambda: decode_column([streams], 0, [len(values)])):
            with pytest.raises(ValueError, match="is not a valid Encoding"):
                read()
        return
    found = column_runs(streams, 0, len(values))
    assert found is not None
    assert values_of(found).tolist() == decode_column([streams], 0, [len(values)]).to_pylist() == values.tolist()
