"""Decodes integer runs of version 1 (ORC specification, "Integer Run Length Encoding, version 1")."""

import numpy as np

from compaction_operator.orc.encoding.runs import (
    LONGEST_VARINT,
    MASK,
    PADDING,
    Notes,
    check_end,
    indexes,
    unzigzag,
    varint,
    write_linear,
    zigzag,
)
from compaction_operator.orc.spec import Integers, Words, sums_before


class Version1Decoder:
    """Decodes one stream: a first pass notes the runs, then all literals are decoded at once."""

    def __init__(self, data: bytes, signed: bool) -> None:
        self._data = data
        self._padded = data + PADDING
        self._signed = signed
        self._linear = Notes(4)  # offset, number of values, first value, step
        self._literals = Notes(4)  # offset, number of values, start and end of the bytes
        is_end = np.frombuffer(data, dtype=np.int8) >= 0
        self._ends = np.flatnonzero(is_end)  # the last byte of each base-128 number
        self._ended = sums_before(is_end)  # the number of ends before each byte

    def decode(self, count: int) -> Integers:
        """Return the `count` values of the stream; raise ValueError if it holds another number."""
        position = total = 0
        while position < len(self._data) and total < count:
            control = self._data[position]
            if control < 128:
                length = control + 3
                position = self._run(position + 1, total, length)
            else:
                length = 256 - control
                position = self._literal(position + 1, total, length)
            total += length
        check_end(self._data, position, count=count, total=total)
        out = np.empty(count, dtype=np.int64)
        write_linear(self._linear, out)
        self._write_literals(out)
        return out

    def _run(self, position: int, offset: int, length: int) -> int:
        step = self._padded[position]
        first, end = varint(self._padded, position + 1)
        if step >= 128:
            step = (step - 256) & MASK
        self._linear.add((offset, length, zigzag(first) if self._signed else first, step))
        return end

    def _literal(self, start: int, offset: int, length: int) -> int:
        last = int(self._ended[start]) + length - 1
        if last >= len(self._ends):
            raise ValueError("a truncated stream")
        end = int(self._ends[last]) + 1
        self._literals.add((offset, length, start, end))
        return end

    def _write_literals(self, out: Integers) -> None:
        if not self._literals:
            return
        offsets, lengths, starts, ends = self._literals.columns()
        pieces = zip(starts.tolist(), ends.tolist(), strict=True)
        values = _varints(b"".join([self._data[start:end] for start, end in pieces]))
        out[indexes(offsets, lengths)] = unzigzag(values) if self._signed else values.view(np.int64)


def _varints(data: bytes) -> Words:
    """Return the base-128 numbers in `data`."""
    septets = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(septets < 128)
    lengths = np.diff(ends, prepend=-1)
    if lengths.max() > LONGEST_VARINT:
        raise ValueError("a number of more than 64 bits")
    starts = ends + 1 - lengths
    shifts = (np.arange(len(septets)) - np.repeat(starts, lengths)) * 7
    return np.bitwise_or.reduceat((septets & 0x7F).astype(np.uint64) << shifts.astype(np.uint64), starts)
