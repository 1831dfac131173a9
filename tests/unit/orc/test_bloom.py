"""Bloom filters: the same bits as ORC's Java writer sets."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_operator.orc.encoding import bloom_columns, bloom_filter, fpp_of
from compaction_operator.orc.spec import Kind, StreamKind, Type, physical_type
from compaction_operator.orc.spec.messages import BloomFilter, StripeFooter
from tests.unit.orc.groups import JavaFile

pytestmark = pytest.mark.usefixtures("both_means")

WORD = 2**64 - 1


def filter_of(kind: Kind, values: list[Any], *, fpp: float = 0.05, expected_entries: int = 100) -> Any:
    array = pa.array(values, physical_type([Type(kind=kind)], 0))
    return bloom_filter(kind, array, fpp=fpp, expected_entries=expected_entries)


def murmur(data: bytes) -> int:
    """Murmur3.hash64 of Hive's storage-api, one byte string at a time."""

    def rotate(word: int, bits: int) -> int:
        return (word << bits | word >> (64 - bits)) & WORD

    def mix(word: int) -> int:
        return rotate(word * 0x87C37B91114253D5 & WORD, 31) * 0x4CF5AD432745937F & WORD

    found, whole = 104729, len(data) // 8 * 8
    for start in range(0, whole, 8):
        found = (rotate(found ^ mix(int.from_bytes(data[start : start + 8], "little")), 27) * 5 + 0x52DCE729) & WORD
    found ^= mix(int.from_bytes(data[whole:], "little")) ^ len(data)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        found = (found ^ found >> 33) * factor & WORD
    return found ^ found >> 33


def bits_of(filter_: Any) -> set[int]:
    number = int.from_bytes(filter_.utf8bitset, "little")
    return {bit for bit in range(8 * len(filter_.utf8bitset)) if number >> bit & 1}


def positions(hash_: int, *, functions: int, size: int) -> set[int]:
    """The bits of one hash, in Java's 32-bit arithmetic."""
    found = set()
    for index in range(1, functions + 1):
        combined = (hash_ + index * (hash_ >> 32)) & 0xFFFFFFFF
        found.add((combined if combined < 2**31 else combined ^ 0xFFFFFFFF) % size)
    return found


@pytest.mark.parametrize("name", ["statistics.orc", "statistics4.orc"])
def test_filters_are_those_of_java(name: str) -> None:
    """Of every kind that a column can have, nested ones too, for row groups with all kinds of values."""
    java, compared = JavaFile(name), set()
    for group in java.groups():
        if group.bloom_filter is None:
            continue
        fpp = fpp_of(group.bloom_filter, expected_entries=java.stride)
        ours = bloom_filter(group.kind, group.array, fpp=fpp, expected_entries=java.stride)
        assert ours == group.bloom_filter, (group.column, group.kind)
        compared.add(group.kind)
    assert compared >= {Kind.STRING, Kind.BYTE, Kind.TIMESTAMP}
    if name == "statistics.orc":
        absent = {
            Kind.BOOLEAN,
            Kind.SHORT,
            Kind.FLOAT,
            Kind.VARCHAR,
            Kind.LIST,
            Kind.STRUCT,
            Kind.TIMESTAMP_INSTANT,
        }
        assert compared == set(Kind) - absent


@given(st.lists(st.binary(max_size=40), max_size=80), st.lists(st.binary(min_size=60, max_size=200), max_size=3))
def test_strings_of_any_length_are_hashed_as_murmur3(short: list[bytes], long: list[bytes]) -> None:
    """Few long ones among many short ones, and the other way round, are hashed in different ways."""
    for values in (short + long, long * 30 + short):
        found = filter_of(Kind.BINARY, values)
        size = 8 * len(found.utf8bitset)
        expected = [positions(murmur(value), functions=found.num_hash_functions, size=size) for value in values]
        assert bits_of(found) == set().union(*expected)


def test_slices_of_arrays_and_nulls() -> None:
    """An array may begin anywhere in its buffers; a null enters in no way."""
    for kind, values in (
        (Kind.STRING, [b"ab", b"cde", None, b"fghijklmnop"]),
        (Kind.LIST, [[1], [], None, [1, 2]]),
    ):
        types = [Type(kind=kind, subtypes=[1] if kind is Kind.LIST else []), Type(kind=Kind.INT)]
        array = pa.array(values, physical_type(types, 0))
        alone = pa.array([values[1], values[3]], array.type)
        assert bloom_filter(kind, array.slice(1), fpp=0.1) == bloom_filter(kind, alone, fpp=0.1)


def test_every_nan_is_the_one_nan_of_java() -> None:
    other = pa.array([-math.nan], pa.float64())
    assert bloom_filter(Kind.DOUBLE, other, fpp=0.1, expected_entries=100) == filter_of(Kind.FLOAT, [math.nan], fpp=0.1)


def test_a_value_that_has_no_form_of_java_is_found_whatever_is_asked() -> None:
    """A decimal of 39 digits, a timestamp that no writer makes: the filter must not say that it is not there."""
    for kind, value in (
        (Kind.DECIMAL, {"value": b"\xff" * 18 + b"\x7f", "scale": 0}),
        (Kind.DECIMAL, {"value": b"\x02", "scale": 99}),
        (Kind.TIMESTAMP, {"seconds": 2**62, "nanos": 0}),
    ):
        found = filter_of(kind, [value])
        assert set(found.utf8bitset) == {0xFF}


@pytest.mark.parametrize("entries", [1, 1000, 10_000])
def test_the_size_of_a_filter_is_kept(entries: int) -> None:
    """The choice of the table is known from its filters only: made again they have the same size and functions."""
    for fpp in (0.9, 0.5, 0.3, 0.1, 0.05, 0.01, 1e-6):
        first = filter_of(Kind.INT, [1, 2], fpp=fpp, expected_entries=entries)
        again = filter_of(Kind.INT, [1, 2], fpp=fpp_of(first, expected_entries=entries), expected_entries=entries)
        assert again == first


def test_the_size_of_an_old_filter_is_kept() -> None:
    """Its bits are numbers, not bytes."""
    assert fpp_of(BloomFilter(bitset=[0] * 10)) == fpp_of(BloomFilter(utf8bitset=bytes(80)))


@pytest.mark.parametrize("filter_", [BloomFilter(), BloomFilter(utf8bitset=b"1234567")])
def test_a_filter_without_bits_is_refused(filter_: Any) -> None:
    with pytest.raises(ValueError, match="without bits"):
        fpp_of(filter_)


def test_a_probability_is_never_zero() -> None:
    """A filter of absurd size for its entries still gives one that a filter can be made of."""
    assert 0 < fpp_of(BloomFilter(utf8bitset=bytes(8_000)), expected_entries=1) < 1


def test_columns_with_filters_of_both_encodings_are_found() -> None:
    footer = StripeFooter()
    for column, kind in enumerate((StreamKind.DATA, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)):
        footer.streams.add(kind=kind, column=column, length=1)
    assert bloom_columns(footer) == {1, 2}
