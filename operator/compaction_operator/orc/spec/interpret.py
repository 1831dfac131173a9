"""The meaning of physical values: decimals as exact numbers, timestamps as milliseconds since 1970."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compaction_operator.orc.spec.arrays import Booleans, Integers, Words

MAX_DECIMAL_DIGITS = 38
_EPOCH = 1_420_070_400  # 2015-01-01 00:00:00 UTC in seconds since 1970, the base of the stream's seconds
MILLISECOND = 1_000_000
"""One millisecond in nanoseconds."""

_NANOS_LIMIT = 1_000_000_000
_SECONDS_LIMIT = 2**53  # keeps milliseconds within 64 bits, with room for the epoch
_LONGEST_VARINT = 24  # bytes; 128 bits take 19


def offsets_of(values: pa.Array) -> Integers:
    """Return the `len + 1` offsets of a large binary or large list array into its data or child."""
    if not len(values):
        return np.zeros(1, np.int64)
    return np.frombuffer(values.buffers()[1], np.int64, len(values) + 1, values.offset * 8)


def words_at(data: pa.Buffer | None) -> Words:
    """Return the eight bytes at each position of the data, its end included, as little-endian words, zero-padded."""
    padded = np.zeros((data.size if data else 0) + 8, np.uint8)
    padded[:-8] = np.frombuffer(data or b"", np.uint8)
    return np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))


def word_of(words: Words, starts: Integers, lengths: Integers, block: int | Integers) -> Words:
    """Return the `block`-th eight bytes of each value in `starts`, padded with zeros where the value is shorter.

    `words` is from `words_at`.
    """
    rest = np.clip(lengths - 8 * block, 0, 8)
    found = words[np.where(rest, starts + 8 * block, 0)]
    return np.where(rest == 8, found, found & ((np.uint64(1) << (8 * (rest & 7)).astype(np.uint64)) - np.uint64(1)))


def milliseconds(values: pa.Array) -> tuple[Integers, Booleans] | None:
    """Return each physical timestamp rounded down to milliseconds since 1970, and whether it was rounded.

    `values` has no nulls. Before 1970 Java's rule applies (ORC's TimestampTreeReader): it subtracts a second when the
    milliseconds are negative and the fraction is at least one millisecond. Returns None when Java cannot represent a
    value.
    """
    seconds = values.field("seconds").to_numpy()
    if np.any((seconds > _SECONDS_LIMIT) | (seconds < -_SECONDS_LIMIT)):
        return None
    try:
        nanos = nanoseconds(values.field("nanos").to_numpy())
    except ValueError:
        return None
    result = (seconds + _EPOCH) * 1000 + nanos // MILLISECOND
    result -= np.where((result < 0) & (nanos >= MILLISECOND), 1000, 0)
    return result, nanos % MILLISECOND != 0


def nanoseconds(encoded: Integers) -> Integers:
    """Decode a stream's nanoseconds: the lowest three bits hold the number of removed zeros minus one, 0 for none.

    Raises ValueError for a fraction of more than a second.
    """
    zeros = encoded & 7
    decoded = (encoded >> 3) * np.where(zeros, 10 ** (zeros + 1), 1)
    if np.any((encoded < 0) | (encoded >> 3 >= _NANOS_LIMIT) | (decoded >= _NANOS_LIMIT)):
        raise ValueError("a fraction of more than a second")
    return decoded


def decimals(values: pa.Array) -> list[pa.Array] | None:
    """Return physical decimals as Arrow decimal128 arrays, one array per scale.

    `values` has no nulls. Returns None when a value has more than 38 digits or a scale outside 0..38, which Hive's
    decimals cannot have.
    """
    scales = values.field("scale").to_numpy()
    words = _unscaled(values.field("value"))
    if words is None or np.any((scales < 0) | (scales > MAX_DECIMAL_DIGITS)):
        return None
    found = [_decimal128(words[scales == scale], int(scale)) for scale in np.unique(scales)]
    return None if any(_too_long(array) for array in found) else found


def plain_strings(values: pa.Array) -> pa.Array:
    """Return decimal128 values as HiveDecimal writes them: plain notation without trailing zeros in the fraction."""
    scale = values.type.scale
    unscaled = _without_scale(values)
    sign = pc.if_else(pc.less(unscaled, pa.scalar(0)), "-", "")
    digits = pc.ascii_lpad(pc.cast(pc.abs(unscaled), pa.string()), scale + 1, "0")
    if not scale:
        return pc.binary_join_element_wise(sign, digits, "")
    whole = pc.utf8_slice_codeunits(digits, 0, -scale)
    fraction = pc.ascii_rtrim(pc.utf8_slice_codeunits(digits, -scale), "0")
    number = pc.ascii_rtrim(pc.binary_join_element_wise(whole, fraction, "."), ".")
    return pc.binary_join_element_wise(sign, number, "")


def _unscaled(values: pa.Array) -> Words | None:
    """Return zigzag varints as (low, high) words in two's complement, or None when one has more than 128 bits."""
    offsets = offsets_of(values)
    starts, lengths = offsets[:-1], np.diff(offsets)
    longest = int(lengths.max(initial=0))
    if longest > _LONGEST_VARINT:
        return None
    data = words_at(values.buffers()[2])
    parts = [_seven_of_eight(word_of(data, starts, lengths, part)) for part in range(-(-longest // 8))]
    if len(parts) > 2 and np.any(parts[2] >> np.uint64(128 - 112)):
        return None
    words = np.zeros((len(values), 2), np.uint64)
    for part, shift in zip(parts, (0, 56, 112), strict=False):
        word, within = divmod(shift, 64)
        words[:, word] |= part << np.uint64(within)
        if within == 56:
            words[:, 1] |= part >> np.uint64(8)
    return _unzigzag(words)


def _seven_of_eight(words: Words) -> Words:
    """Pack the lower seven bits of each of the eight bytes into 56 bits: into pairs, then fours, then all."""
    words = words & np.uint64(0x7F7F7F7F7F7F7F7F)
    for bits in (8, 16, 32):
        low = np.uint64(sum(((1 << bits) - 1) << shift for shift in range(0, 64, 2 * bits)))
        words = (words & low) | ((words & ~low) >> np.uint64(bits // 8))
    return words


def _unzigzag(words: Words) -> Words:
    one = np.uint64(1)
    negative = np.uint64(0) - (words[:, 0] & one)
    low = (words[:, 0] >> one) | (words[:, 1] << np.uint64(63))
    return np.stack([low ^ negative, (words[:, 1] >> one) ^ negative], axis=1)


def _decimal128(words: Words, scale: int) -> pa.Array:
    type_ = pa.decimal128(MAX_DECIMAL_DIGITS, scale)
    return pa.Array.from_buffers(type_, len(words), [None, pa.py_buffer(np.ascontiguousarray(words))])


def _without_scale(values: pa.Array) -> pa.Array:
    """Return the unscaled values as decimals of scale 0."""
    type_ = pa.decimal128(MAX_DECIMAL_DIGITS, 0)
    return pa.Array.from_buffers(type_, len(values), values.buffers(), offset=values.offset)


def _too_long(values: pa.Array) -> bool:
    bounds = pc.min_max(_without_scale(values))
    # the buffers may hold more digits than the type allows; Python integers do not overflow
    return any(abs(int(bounds[end].as_py() or 0)) >= 10**MAX_DECIMAL_DIGITS for end in ("min", "max"))
