"""Bloom filters of ORC indexes, bit for bit as ORC's Java writer sets them (BloomFilterUtf8, Murmur3)."""

import math
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from compaction_operator.orc import kernels
from compaction_operator.orc.spec import Booleans, Integers, Kind, StreamKind, Words
from compaction_operator.orc.spec.interpret import decimals, milliseconds, offsets_of, plain_strings, word_of, words_at
from compaction_operator.orc.spec.messages import BloomFilter

UTF8_UTC = 1
"""The `bloom_encoding` of columns with these filters; without it, readers ignore filters of timestamps."""

_SEED = 104_729
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_M, _N = 5, 0x52DCE729
_WORD = 2**64 - 1
_FEW = 32  # for fewer values, numpy's call overhead exceeds the cost of Python integers
_LN2 = math.log(2)
_CANONICAL_NAN = np.int64(0x7FF8000000000000)


def bloom_filter(kind: Kind, array: pa.Array, *, fpp: float, expected_entries: int = 10_000) -> Any:
    """Return the BloomFilter message of one row group of a column.

    `array` holds the rows in their `physical_type`, without rows whose parent is null. `fpp` is the false positive
    probability, between 0 and 1, at `expected_entries` (the row index stride) distinct values. As in Java, lists and
    maps add their length, unions add their tag, and booleans and structs add nothing. If Java cannot represent a
    value (a decimal or timestamp), the filter matches everything.
    """
    size = _size(fpp, expected_entries)
    functions = max(1, math.floor(size / expected_entries * _LN2 + 0.5))
    hashes = _hashes(kind, array.drop_null())
    bits = b"\xff" * (size // 8) if hashes is None else _bits(hashes, functions, size)
    return BloomFilter(num_hash_functions=functions, utf8bitset=bits)


def bloom_columns(footer: Any) -> set[int]:
    """Return the ids of the columns with Bloom filters, in either encoding, according to a StripeFooter."""
    kinds = (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)
    return {int(stream.column) for stream in footer.streams if stream.kind in kinds}


def fpp_of(filter_: Any, *, expected_entries: int = 10_000) -> float:
    """Return a false positive probability for which `bloom_filter` makes filters of the same size.

    Raises ValueError for a filter without bits.
    """
    size = 8 * len(filter_.utf8bitset) or 64 * len(filter_.bitset)
    if size < 64:
        raise ValueError("a Bloom filter without bits")
    # the size was rounded up by 1 to 64 bits; subtracting half of that is safe against rounding errors
    return max(math.exp(-(size - 32) * _LN2 * _LN2 / expected_entries), sys.float_info.min)


def _size(fpp: float, expected_entries: int) -> int:
    """Return the number of bits, rounded up to the next multiple of 64; an exact multiple is also increased."""
    bits = int(-expected_entries * math.log(fpp) / (_LN2 * _LN2))
    return bits + 64 - bits % 64


def _bits(hashes: Integers, functions: int, size: int) -> bytes:
    if kernels.compiled:
        found: bytes = kernels.compiled.bloom_bits(np.ascontiguousarray(hashes, np.int64), functions, size // 8)
        return found
    bits = np.zeros(size, np.bool_)
    _set_bits(bits, hashes, functions)
    return np.packbits(bits, bitorder="little").tobytes()


def _set_bits(bits: Booleans, hashes: Integers, functions: int) -> None:
    first = hashes.astype(np.int32)
    second = (hashes >> 32).astype(np.int32)
    for index in range(1, functions + 1):
        combined = first + np.int32(index) * second
        bits[np.where(combined < 0, ~combined, combined) % len(bits)] = True


def _hashes(kind: Kind, values: pa.Array) -> Integers | None:
    """Return the hashes that ORC's writer of that kind adds, or None if Java cannot represent a value."""
    if kind in (Kind.STRING, Kind.CHAR, Kind.VARCHAR, Kind.BINARY):
        return _hash_bytes(values)
    if kind is Kind.DECIMAL:
        return _hash_decimals(values)
    numbers = _numbers(kind, values)
    return None if numbers is None else _hash_integers(numbers)


def _numbers(kind: Kind, values: pa.Array) -> npt.NDArray[Any] | None:
    match kind:
        case Kind.BOOLEAN | Kind.STRUCT:
            return np.zeros(0, np.int64)
        case Kind.FLOAT | Kind.DOUBLE:
            return _double_bits(values)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_INSTANT:
            found = milliseconds(values)
            return found and found[0]
        case Kind.LIST | Kind.MAP:
            return np.diff(offsets_of(values))
    numbers: npt.NDArray[Any] = (values.field("tag") if kind is Kind.UNION else values).to_numpy()
    return numbers


def _double_bits(values: pa.Array) -> Integers:
    numbers: npt.NDArray[np.float64] = values.to_numpy().astype(np.float64)
    return np.where(np.isnan(numbers), _CANONICAL_NAN, numbers.view(np.int64))


def _hash_integers(values: npt.NDArray[Any]) -> Integers:
    """Return Thomas Wang's 64-bit hashes (BloomFilter.getLongHash), with Java's arithmetic shifts."""
    key: Integers = values.astype(np.int64)
    key = ~key + (key << 21)
    key ^= key >> 24
    key = key + (key << 3) + (key << 8)
    key ^= key >> 14
    key = key + (key << 2) + (key << 4)
    key ^= key >> 28
    key += key << 31
    return key


def _hash_decimals(values: pa.Array) -> Integers | None:
    arrays = decimals(values)
    if arrays is None:
        return None
    hashes = [_hash_bytes(plain_strings(array).cast(pa.large_binary())) for array in arrays]
    return np.concatenate([np.zeros(0, np.int64), *hashes])


def _hash_bytes(values: pa.Array) -> Integers:
    """Return Murmur3.hash64: each eight-byte word for all values at once, the few longest values one by one."""
    offsets = offsets_of(values)
    if kernels.compiled:
        return np.frombuffer(kernels.compiled.hash_strings(values.buffers()[2] or b"", offsets), np.int64)
    words = words_at(values.buffers()[2])
    order = np.argsort(-np.diff(offsets), kind="stable")  # longest first: values that have an n-th word form a prefix
    starts, lengths = offsets[:-1][order], np.diff(offsets)[order]
    hashes = np.full(len(values), _SEED, np.uint64)
    blocks = lengths >> 3
    shared = int(blocks[_FEW]) if len(blocks) > _FEW else 0
    counts = np.searchsorted(-blocks, -np.arange(shared))
    for block, count in enumerate(counts.tolist()):
        mixed = hashes[:count] ^ _mix(words[starts[:count] + 8 * block])
        hashes[:count] = _rotate(mixed, 27) * np.uint64(_M) + np.uint64(_N)
    for index, more in enumerate((blocks[:_FEW] - shared).tolist()):
        start = starts[index] + 8 * shared
        hashes[index] = _chain(int(hashes[index]), _mix(words[start : start + 8 * more : 8]).tolist())
    tail = word_of(words, starts, lengths, blocks)
    return _finish(hashes ^ _mix(tail) ^ lengths.astype(np.uint64)).view(np.int64)


def _chain(hash_: int, mixed: list[int]) -> int:
    """Add mixed words to the hash of one value."""
    for word in mixed:
        found = hash_ ^ word
        hash_ = ((found << 27 | found >> 37) * _M + _N) & _WORD
    return hash_


def _mix(words: Words) -> Words:
    return _rotate(words * _C1, 31) * _C2


def _rotate(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _finish(hashes: Words) -> Words:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        hashes = (hashes ^ (hashes >> np.uint64(33))) * np.uint64(factor)
    return hashes ^ (hashes >> np.uint64(33))
