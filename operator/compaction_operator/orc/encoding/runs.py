"""Helpers that the decoders of both versions of integer runs share."""

from array import array
from collections.abc import Iterable

import numpy as np

from compaction_operator.orc.spec import Integers, Words

MASK = (1 << 64) - 1
LONGEST_VARINT = 10
"""The largest number of bytes of a 64-bit base-128 number."""

PADDING = bytes(72)
"""Bytes that decoders append to a stream. Reads of a run's fixed part, or of the surplus in its last group of packed
values, then need no check for the end."""


def check_end(data: bytes, position: int, *, count: int, total: int) -> None:
    """Raise ValueError unless the runs end exactly where the stream ends and hold `total` = `count` values."""
    if position > len(data) or total < count:
        raise ValueError("a truncated stream")
    if position < len(data) or total > count:
        raise ValueError(f"a stream of more than {count} values")


def zigzag(value: int) -> int:
    """Return the signed number for a zigzag code, as a 64-bit two's complement."""
    return ((value >> 1) ^ -(value & 1)) & MASK


def unzigzag(values: Words) -> Integers:
    """Return the signed numbers for zigzag codes."""
    return (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)


def varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the base-128 number at `position`, cut to 64 bits, and its end; raise ValueError for a longer one."""
    value = 0
    for shift in range(0, 7 * LONGEST_VARINT, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value & MASK, position
    raise ValueError("a number of more than 64 bits")


def indexes(offsets: Integers, lengths: Integers) -> Integers:
    """Return the concatenated indexes offset, offset + 1, ... of all runs."""
    ends = np.cumsum(lengths)
    return np.repeat(offsets - (ends - lengths), lengths) + np.arange(ends[-1])


class Notes:
    """Notes about the runs of a stream: a few 64-bit words per run, packed because there may be many runs."""

    def __init__(self, words: int) -> None:
        self._width = words
        self._words = array("Q")

    def __bool__(self) -> bool:
        return bool(self._words)

    def add(self, note: Iterable[int]) -> None:
        """Add the words of one run."""
        self._words.extend(note)

    def columns(self) -> Integers:
        """Return one array per word of a note, with the values of all runs."""
        words = np.frombuffer(self._words, dtype=np.int64)
        return np.ascontiguousarray(words.reshape(-1, self._width).T)


def write_linear(runs: Notes, out: Integers) -> None:
    """Write the values of runs with a fixed step to their offsets; as in Java, arithmetic wraps at 64 bits.

    A note has the offset of the values, their number, the first value and the step.
    """
    if not runs:
        return
    offsets, lengths, first, step = runs.columns()
    index = indexes(offsets, lengths)
    values = np.repeat(first, lengths)
    if step.any():
        values += np.repeat(step, lengths) * (index - np.repeat(offsets, lengths))
    out[index] = values
