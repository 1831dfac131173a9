"""Packs integers into a fixed number of bits and back, as runs of version 2 do (ORC specification, "Direct")."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from compaction_operator.orc.encoding.runs import PADDING, unzigzag
from compaction_operator.orc.spec import Integers, Words

WIDTHS: Integers = np.array([1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64])
"""The bit widths that this writer uses: those to which Java's writer rounds in its speed strategy."""

_LARGEST = np.array([(1 << int(width)) - 1 for width in WIDTHS[:-1]], np.uint64)
ALL_WIDTHS: tuple[int, ...] = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""All bit widths of the specification; the index is the five-bit code."""

CODES = {width: code for code, width in enumerate(ALL_WIDTHS)}
"""The five-bit code of each width in a run's header."""

_RUNS_AT_ONCE = 4096  # of at most 512 values


def width_of(largest: Words) -> Integers:
    """Return, for each number, the written width that fits it and all smaller numbers."""
    return WIDTHS[np.searchsorted(_LARGEST, largest)]


def any_width(bits: int) -> int:
    """Return the narrowest width of the specification that holds `bits` bits; raise ValueError if there is none."""
    for width in ALL_WIDTHS:
        if width >= bits:
            return width
    raise ValueError("a packed number of more than 64 bits")


def pack(values: Words, sizes: Integers, width: int) -> bytes:
    """Pack consecutive blocks of values, each into whole bytes; `sizes` holds the number of values per block.

    Only the lowest `width` bits of a value count. `width` must be one of `WIDTHS`.
    """
    return _pack_bytes(values, width) if width >= 8 else _pack_bits(values, sizes, width)


def _pack_bytes(values: Words, width: int) -> bytes:
    big_endian = values.astype(">u8").view(np.uint8).reshape(-1, 8)
    return big_endian[:, 8 - width // 8 :].tobytes()


def _pack_bits(values: Words, sizes: Integers, width: int) -> bytes:
    share = 8 // width
    filled = -(-sizes // share) * share
    room = np.zeros(filled.sum(), np.uint8)
    moved = np.repeat(np.cumsum(filled) - filled - (np.cumsum(sizes) - sizes), sizes)
    room[np.arange(len(values)) + moved] = values & np.uint64((1 << width) - 1)
    shifts = np.arange(8 - width, -1, -width, dtype=np.uint8)
    packed: npt.NDArray[np.uint8] = np.bitwise_or.reduce(room.reshape(-1, share) << shifts, axis=1)
    return packed.tobytes()


def pack_few(numbers: Sequence[int], width: int) -> bytes:
    """Pack a few numbers into whole bytes, with any width of the specification."""
    bits = 0
    for number in numbers:
        bits = bits << width | number
    size = -(-len(numbers) * width // 8)
    return (bits << (8 * size - len(numbers) * width)).to_bytes(size, "big")


def unpack_few(data: bytes, count: int, width: int) -> list[int]:
    """Return the `count` packed numbers of any width in `data`; slow, for a few numbers."""
    bits = int.from_bytes(data, "big") >> (-count * width % 8)
    return [bits >> place * width & (1 << width) - 1 for place in reversed(range(count))]


def unpack(data: bytes, runs: Integers, *, width: int, zigzag: bool, out: Integers) -> None:
    """Unpack runs of one width and write their values to their places in `out`.

    `runs` has three rows: the byte offset of each run in `data`, the offset of its values in `out`, and the number of
    values. `PADDING` must follow the last run in `data`.
    """
    for start in range(0, runs.shape[1], _RUNS_AT_ONCE):
        _unpack_some(data, runs[:, start : start + _RUNS_AT_ONCE], width, zigzag, out)


def _unpack_some(data: bytes, runs: Integers, width: int, zigzag: bool, out: Integers) -> None:
    """Unpack all runs at once, in groups of eight values.

    Eight values fill `width` bytes for any width. The n-th values of all groups have the same bit position, so one
    operation on 64-bit words extracts them. Surplus values of a run's last group are dropped.
    """
    positions, offsets, lengths = runs.tolist()
    groups = [(length + 7) // 8 for length in lengths]
    sizes = zip(positions, groups, strict=True)
    packed = b"".join([*(data[position : position + size * width] for position, size in sizes), PADDING])
    total = sum(groups)
    words = np.empty((total, 8), dtype=np.uint64)
    mask = np.uint64((1 << width) - 1)
    for place in range(8):
        byte, bit = divmod(place * width, 8)
        found = np.ndarray((total,), dtype=">u8", buffer=packed, offset=byte, strides=(width,))
        words[:, place] = found >> np.uint64(64 - width - bit) & mask
    flat = words.reshape(-1)
    values = unzigzag(flat) if zigzag else flat.view(np.int64)
    start = 0
    for offset, length, size in zip(offsets, lengths, groups, strict=True):
        out[offset : offset + length] = values[start : start + length]
        start += size * 8
