"""Unpacks bit-packed integers of runs of version 2 (ORC specification, "Direct")."""

import numpy as np

from compaction_operator.orc.encoding.bit_packing import ALL_WIDTHS
from compaction_operator.orc.encoding.runs import PADDING, unzigzag
from compaction_operator.orc.spec.arrays import Integers

_RUNS_AT_ONCE = 4096  # of at most 512 values


def width_of_code(code: int) -> int:
    """Return the bit width for the five-bit code in a run's header."""
    return ALL_WIDTHS[code]


def closest_width(bits: int) -> int:
    """Return the narrowest width that holds `bits` bits; raise ValueError if there is none."""
    for width in ALL_WIDTHS:
        if width >= bits:
            return width
    raise ValueError("a packed number of more than 64 bits")


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
