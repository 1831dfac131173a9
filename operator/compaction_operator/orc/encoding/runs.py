"""What the decoders of both versions of integer runs share."""

from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

MASK = (1 << 64) - 1
LONGEST_VARINT = 10
"""The bytes that a base-128 number of 64 bits may take."""

PADDING = bytes(72)
"""What decoders put behind a stream, so that the fixed part of any run, and what its last group of packed values has
too much, may be read without looking for the end."""


def check_end(data: bytes, position: int, *, count: int, total: int) -> None:
    """Raise ValueError unless the runs end where the stream does, and held `total` = `count` values."""
    if position > len(data) or total < count:
        raise ValueError("a stream that is cut off")
    if position < len(data) or total > count:
        raise ValueError(f"a stream of more than {count} values")


def zigzag(value: int) -> int:
    """Return the signed number of a zigzag form, as the 64 bits of its two's complement."""
    return ((value >> 1) ^ -(value & 1)) & MASK


def unzigzag(values: Words) -> Integers:
    """Return the signed numbers of zigzag forms."""
    return (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)


def varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the base-128 number at `position`, cut to 64 bits, and where it ends; ValueError for a longer one."""
    value = 0
    for shift in range(0, 7 * LONGEST_VARINT, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value & MASK, position
    raise ValueError("a number of more than 64 bits")


def indexes(offsets: Integers, lengths: Integers) -> Integers:
    """Return the indexes offset, offset + 1, ... of each run, one run after the other."""
    ends = np.cumsum(lengths)
    return np.repeat(offsets - (ends - lengths), lengths) + np.arange(ends[-1])


class Notes:
    """What a pass over a stream notes of its runs: a few words of 64 bits for each, packed, as there may be many."""

    def __init__(self, words: int) -> None:
        self._width = words
        self._words = array("Q")

    def __bool__(self) -> bool:
        return bool(self._words)

    def add(self, note: Iterable[int]) -> None:
        """Add the words of one run."""
        self._words.extend(note)

    def columns(self) -> Integers:
        """Return an array for each word of a note, with that word of all runs."""
        words = np.frombuffer(self._words, dtype=np.int64)
        return np.ascontiguousarray(words.reshape(-1, self._width).T)


class LinearRuns:
    """Runs of values that are a fixed step apart."""

    def __init__(self) -> None:
        self._notes = Notes(4)

    def add(self, offset: int, length: int, first: int, step: int) -> None:
        """Add a run that is to be at `offset`; `first` and `step` are 64 bits each."""
        self._notes.add((offset, length, first, step))

    def write(self, out: Integers) -> None:
        """Write the values where they belong; as in Java, what is beyond 64 bits is lost."""
        if not self._notes:
            return
        offsets, lengths, first, step = self._notes.columns()
        index = indexes(offsets, lengths)
        values = np.repeat(first, lengths)
        if step.any():
            values += np.repeat(step, lengths) * (index - np.repeat(offsets, lengths))
        out[index] = values
