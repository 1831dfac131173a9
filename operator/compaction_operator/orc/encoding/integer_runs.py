"""Reads an integer column as runs with a fixed step, without a value for each row.

The key columns of ACID files consist of few such runs: one write id, one bucket, consecutive row ids. Values that are
stored otherwise become runs of one value, so the result is exact for every column.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from compaction_operator.orc import kernels
from compaction_operator.orc.encoding.bit_packing import ALL_WIDTHS, any_width
from compaction_operator.orc.encoding.columns import StripeStreams, present_rows
from compaction_operator.orc.encoding.rle import decode_integers
from compaction_operator.orc.encoding.runs import LONGEST_VARINT, unzigzag, varint
from compaction_operator.orc.spec import Encoding, Integers, StreamKind, sums_before

_MOST = 65_536
_STEADY = rb"[\xc0\xc1].[\x80-\xff]{0,8}[\x00-\x7f][\x80-\xff]{0,8}[\x00-\x7f]"
_RUN, _RUNS = re.compile(_STEADY, re.DOTALL), re.compile(rb"(?:%b){1,%d}+" % (_STEADY, _MOST), re.DOTALL)
"""A run whose deltas are all equal, and as many of them as are read at once: a header of two bytes, and the base-128
numbers of its first value and its step. Longer numbers might not fit into 64 bits, and are left to the decoder."""

_FEW, _VALUES_PER_PIECE = 4, 4096
"""A stream with more pieces than these for the values so far is decoded: that is faster then."""

_LONGEST_HEAD = 2 + 2 * LONGEST_VARINT
"""Bytes of a run that determine its size, at most."""

_SAFE = float(1 << 62)
"""Numbers below this bound cannot overflow 64 bits within a run."""


@dataclass(frozen=True, slots=True)
class IntegerRuns:
    """The `count` values of a column as runs: the index of each run's first value, that value, and the run's step."""

    count: int
    starts: Integers
    firsts: Integers
    steps: Integers

    @classmethod
    def of(cls, values: Integers) -> "IntegerRuns":
        """Return values as runs of one value each."""
        return cls(len(values), np.arange(len(values)), values, np.zeros(len(values), np.int64))

    @property
    def lengths(self) -> Integers:
        """The number of values of each run."""
        return np.diff(self.starts, append=self.count)

    def values(self) -> Integers:
        """Return all values."""
        if len(self.starts) == self.count:
            return self.firsts
        values = np.repeat(self.firsts, self.lengths)
        if self.steps.any():
            places = np.arange(self.count) - np.repeat(self.starts, self.lengths)
            values += np.repeat(self.steps, self.lengths) * places
        return values

    def at(self, indexes: Integers) -> Integers:
        """Return the values at some indexes, which ascend and are there once each."""
        if len(indexes) == self.count:
            return self.values()
        run = np.searchsorted(self.starts, indexes, "right") - 1
        return self.firsts[run] + self.steps[run] * (indexes - self.starts[run])

    def constant(self) -> "IntegerRuns":
        """Return the same values as runs without a step."""
        return IntegerRuns.of(self.values()) if self.steps.any() else self


def column_runs(streams: StripeStreams, column: int, count: int) -> IntegerRuns | None:
    """Return a column of a signed integer kind as runs, or None if it has nulls.

    Raises ValueError for a damaged stream, as `decode_column` does.
    """
    stream = _stream(streams, column, count)
    return stream and integer_runs(stream[0], count, version=stream[1])


def column_blocks(streams: StripeStreams, column: int, count: int, *, size: int) -> Iterator[Integers] | None:
    """Return the values of such a column in arrays of `size` values, the last of fewer, or None if it has nulls.

    At no time are more values decoded than two arrays and one run have. Iterating raises ValueError for a damaged
    stream.
    """
    stream = _stream(streams, column, count)
    return stream and integer_blocks(stream[0], count, version=stream[1], size=size)


def _stream(streams: StripeStreams, column: int, count: int) -> tuple[bytes, int] | None:
    """Return the bytes of an integer column and the version of its runs, or None if it has nulls."""
    present = present_rows(streams, column, count)
    if present is not None and not present.all():
        return None
    encoding = Encoding(streams.encodings[column].kind)
    version = 1 if encoding in (Encoding.DIRECT, Encoding.DICTIONARY) else 2
    return streams.read(column, StreamKind.DATA) or b"", version


def integer_blocks(data: bytes, count: int, *, version: int, size: int) -> Iterator[Integers]:
    """Yield the signed values of an integer stream, `size` at a time; raise ValueError as `decode_integers` does."""
    if version == 2 and (runs := _runs(data, count)):
        for start in range(0, count, size):
            yield runs.at(np.arange(start, min(count, start + size)))
        return
    rest = np.empty(0, np.int64)
    for stretch, length in _stretches(data, count, version=version, size=size):
        rest = np.concatenate([rest, decode_integers(stretch, length, signed=True, version=version)])
        whole = len(rest) // size * size
        yield from np.split(rest[:whole], range(size, whole, size)) if whole else ()
        rest = rest[whole:]
    if len(rest):
        yield rest


def _stretches(data: bytes, count: int, *, version: int, size: int) -> list[tuple[bytes, int]]:
    """Cut a stream between runs into stretches of at least `size` values, each with its number of values.

    A damaged stream is not cut, so that the decoder says what is wrong with it, and neither are runs of version 1.
    """
    stretches = []
    start = position = values = total = 0
    try:
        while version == 2 and position < len(data):
            length, position = _extent(data, position)
            values += length
            if values >= size or position >= len(data):
                stretches.append((data[start:position], values))
                total += values
                start, values = position, 0
    except (IndexError, ValueError):
        return [(data, count)]
    return stretches if total == count and position == len(data) else [(data, count)]


def integer_runs(data: bytes, count: int, *, version: int) -> IntegerRuns:
    """Return the signed values of an integer stream as runs; raise ValueError as `decode_integers` does."""
    found = _runs(data, count) if version == 2 else None
    return found or IntegerRuns.of(decode_integers(data, count, signed=True, version=version))


def _runs(data: bytes, count: int) -> IntegerRuns | None:
    """Return the runs of a stream of version 2, or None if decoding it is faster, or finds what is wrong with it."""
    pieces: list[Integers] = []
    values = 0
    try:
        for piece in _pieces(data):
            pieces.append(piece)
            values += int(piece[2].sum())
            if len(pieces) > _FEW + values // _VALUES_PER_PIECE:
                return None
    except (IndexError, ValueError):
        return None
    return _joined(np.concatenate(pieces, axis=1), count) if pieces else None


def _joined(runs: Integers, count: int) -> IntegerRuns | None:
    """Join runs that continue each other; return None if they do not have `count` values, or values may overflow."""
    firsts, steps, lengths = runs
    ends = firsts.astype(np.float64) + steps.astype(np.float64) * lengths
    if lengths.sum() != count or max(np.abs(firsts.astype(np.float64)).max(), np.abs(ends).max()) >= _SAFE:
        return None
    begins = np.ones(len(firsts), np.bool_)
    begins[1:] = (steps[1:] != steps[:-1]) | (firsts[1:] != (firsts + steps * lengths)[:-1])
    return IntegerRuns(count, sums_before(lengths)[:-1][begins], firsts[begins], steps[begins])


def _pieces(data: bytes) -> Iterator[Integers]:
    """Yield the runs of a stream, several at a time, as rows of first values, steps and lengths.

    Raises IndexError or ValueError for a damaged stream.
    """
    position = 0
    while position < len(data):
        piece, position = _steady_runs(data, position) or _next_run(data, position)
        if position > len(data):
            raise ValueError("a truncated stream")
        yield piece


def _steady_runs(data: bytes, start: int) -> tuple[Integers, int] | None:
    """Return the runs of the kind `_RUN` from a position on, and their end, or None if there is none."""
    if kernels.compiled:
        runs, end = kernels.compiled.steady_runs(data, start, _MOST)
        return (np.frombuffer(runs, np.int64).reshape(-1, 3).T, end) if runs else None
    found = _RUNS.match(data, start)
    return found and (_between(data, start, found.end()), found.end())


def _between(data: bytes, start: int, end: int) -> Integers:
    """Return the runs between two positions, which are all of the kind `_RUN`."""
    stream = np.frombuffer(data, np.uint8, end - start, start).astype(np.int64)
    lasts = np.flatnonzero(stream < 128)  # the last byte of each number, and some bytes of headers
    starts = _longest_runs(stream, lasts)
    rest = _RUN.findall(data, start + int(starts[-1]), end)
    starts = np.append(starts[:-1], starts[-1] + sums_before(np.fromiter(map(len, rest), np.int64))[:-1])
    number = np.searchsorted(lasts, starts + 2)
    firsts = _numbers(stream, starts + 2, lasts[number])
    steps = _numbers(stream, lasts[number] + 1, lasts[number + 1])
    return np.stack([firsts, steps, ((stream[starts] & 1) << 8 | stream[starts + 1]) + 1])


def _longest_runs(stream: Integers, lasts: Integers) -> Integers:
    """Return the starts of the leading runs that have no low byte in their header, and where the last of them ends.

    Most runs have 512 values and the header C1 FF. Then each second byte without its highest bit ends a run.
    """
    ends = np.append(0, lasts[1::2] + 1)
    longest = (stream[ends[:-1]] >= 0xC0) & (stream[ends[:-1] + 1] >= 0x80)
    return ends[: len(longest) + 1 if longest.all() else int(np.argmin(longest)) + 1]


def _numbers(stream: Integers, starts: Integers, ends: Integers) -> Integers:
    """Return the signed base-128 numbers whose first and last bytes are at these positions."""
    codes = np.zeros(len(starts), np.int64)
    for place in range(int((ends - starts).max()) + 1):
        at = starts + place
        codes |= np.where(at <= ends, stream[np.minimum(at, ends)] & 0x7F, 0) << (7 * place)
    return unzigzag(codes.view(np.uint64))


def _next_run(data: bytes, start: int) -> tuple[Integers, int]:
    """Return the run at a position, and its end. Packed values become runs of one value.

    Source: ORC specification, "Integer Run Length Encoding, version 2".
    """
    length, end = _extent(data, start)
    if data[start] < 64:  # a short repeat
        code = int.from_bytes(data[start + 1 : end], "big")
        return np.array([[code >> 1 ^ -(code & 1)], [0], [length]]), end
    values = decode_integers(data[start:end], length, signed=True, version=2)
    return np.stack([values, np.zeros(length, np.int64), np.ones(length, np.int64)]), end


def _extent(data: bytes, start: int) -> tuple[int, int]:
    """Return the number of values of the run at a position, and its end. Raises IndexError or ValueError."""
    header = data[start]
    if header < 64:  # a short repeat
        return (header & 7) + 3, start + (header >> 3) + 2
    length = ((header & 1) << 8 | data[start + 1]) + 1
    return length, start + _packed_size(data[start : start + _LONGEST_HEAD], length)


def _packed_size(head: bytes, length: int) -> int:
    """Return the size in bytes of a run that begins with these bytes."""
    width = ALL_WIDTHS[head[0] >> 1 & 31]
    if head[0] < 128:  # direct
        return 2 + (length * width + 7) // 8
    if head[0] < 192:  # patched base
        patch = any_width(ALL_WIDTHS[head[2] & 31] + (head[3] >> 5) + 1)
        return 5 + (head[2] >> 5) + (length * width + 7) // 8 + ((head[3] & 31) * patch + 7) // 8
    _, end = varint(head, 2)
    _, end = varint(head, end)
    return end + (((length - 2) * width + 7) // 8 if head[0] & 0x3E else 0)
