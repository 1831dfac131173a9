"""Bit-packed integers, as the runs of version 2 hold them, unpacked (ORC specification, "Direct")."""

import numpy as np

from compaction_operator.orc.encoding.bit_packing import ALL_WIDTHS
from compaction_operator.orc.encoding.runs import PADDING, Integers, unzigzag

_RUNS_AT_ONCE = 4096  # of at most 512 values


def width_of_code(code: int) -> int:
    """Return the bit width that five bits of a run's header stand for."""
    return ALL_WIDTHS[code]


def closest_width(bits: int) -> int:
    """Return the narrowest width for a number of so many bits; ValueError when there is none."""
    for width in ALL_WIDTHS:
        if width >= bits:
            return width
    raise ValueError("a packed number of more than 64 bits")


def unpack_few(data: bytes, count: int, width: int) -> list[int]:
    """Return the numbers, few of any width, that fill `data`."""
    bits = int.from_bytes(data, "big") >> (-count * width % 8)
    return [bits >> place * width & (1 << width) - 1 for place in reversed(range(count))]


def unpack(data: bytes, runs: Integers, *, width: int, zigzag: bool, out: Integers) -> None:
    """Write the packed values of runs of one width to where they belong in `out`.

    `runs` has three rows: where in `data` each run's bytes begin, the offset of its values in `out`, and how many
    they are. `data` must go on for `PADDING` behind the last run.
    """
    for start in range(0, runs.shape[1], _RUNS_AT_ONCE):
        _unpack_some(data, runs[:, start : start + _RUNS_AT_ONCE], width, zigzag, out)


def _unpack_some(data: bytes, runs: Integers, width: int, zigzag: bool, out: Integers) -> None:
    """Eight values fill `width` bytes, whatever the width: each run is cut into such groups. The values at one place
    of all groups are the same bits of as many words of 64 bits. What a last group has too much is left out.
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
