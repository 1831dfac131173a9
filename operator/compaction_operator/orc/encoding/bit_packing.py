"""Packs integers into a fixed number of bits, as runs of version 2 do (ORC specification, "Direct")."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from compaction_operator.orc.spec.arrays import Integers

Unsigned = npt.NDArray[np.uint64]

WIDTHS: Integers = np.array([1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64])
"""The bit widths that this writer uses: those to which Java's writer rounds in its speed strategy."""

_LARGEST = np.array([(1 << int(width)) - 1 for width in WIDTHS[:-1]], np.uint64)
ALL_WIDTHS: tuple[int, ...] = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""All bit widths of the specification; the index is the five-bit code."""

_CODES = {width: code for code, width in enumerate(ALL_WIDTHS)}


def width_of(largest: Unsigned) -> Integers:
    """Return, for each number, the written width that fits it and all smaller numbers."""
    return WIDTHS[np.searchsorted(_LARGEST, largest)]


def code_of(width: int) -> int:
    """Return the five-bit code of a width in a run's header; the width must be one of `ALL_WIDTHS`."""
    return _CODES[width]


def any_width(bits: int) -> int:
    """Return the narrowest width of the specification that holds `bits` bits, which are at most 64."""
    return next(width for width in ALL_WIDTHS if width >= bits)


def pack(values: Unsigned, sizes: Integers, width: int) -> bytes:
    """Pack consecutive blocks of values, each into whole bytes; `sizes` holds the number of values per block.

    Only the lowest `width` bits of a value count. `width` must be one of `WIDTHS`.
    """
    return _pack_bytes(values, width) if width >= 8 else _pack_bits(values, sizes, width)


def _pack_bytes(values: Unsigned, width: int) -> bytes:
    big_endian = values.astype(">u8").view(np.uint8).reshape(-1, 8)
    return big_endian[:, 8 - width // 8 :].tobytes()


def _pack_bits(values: Unsigned, sizes: Integers, width: int) -> bytes:
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
