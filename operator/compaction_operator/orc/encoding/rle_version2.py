"""Decodes integer runs of version 2 (ORC specification, "Integer Run Length Encoding, version 2")."""

from collections import defaultdict

import numpy as np

from compaction_operator.orc.encoding.bit_packing import ALL_WIDTHS, any_width, unpack, unpack_few
from compaction_operator.orc.encoding.runs import (
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
from compaction_operator.orc.spec import Integers


class Version2Decoder:
    """Decodes one stream: a first pass notes the runs, then all runs of one bit width are unpacked at once.

    A method that reads a run takes the run's byte position and the offset of its first value. It returns the byte
    position of the end and the number of values.
    """

    def __init__(self, data: bytes, signed: bool) -> None:
        self._data = data
        self._padded = data + PADDING
        self._signed = signed
        self._repeats = Notes(2)  # position, offset
        self._linear = Notes(4)  # offset, number of values, first value, step
        # packed values by (width, zigzag): start of the bytes, offset, number of values
        self._packed: defaultdict[tuple[int, bool], Notes] = defaultdict(lambda: Notes(3))
        self._deltas = Notes(4)  # offset, number of values, first value, first delta
        self._bases = Notes(3)  # offset, number of values, base to add
        self._patches = Notes(2)  # offset, bits to set

    def decode(self, count: int) -> Integers:
        """Return the `count` values of the stream; raise ValueError if it holds another number."""
        data, end = self._data, len(self._data)
        readers = (self._direct, self._patched_base, self._delta)
        position = total = 0
        while position < end and total < count:
            header = data[position]
            if header < 64:  # a short repeat; only noted, as there may be hundreds of thousands
                self._repeats.add((position, total))
                position += 2 + (header >> 3)
                total += (header & 7) + 3
            else:
                position, length = readers[(header >> 6) - 1](position, total)
                total += length
        check_end(data, position, count=count, total=total)
        return self._written(count)

    def _written(self, count: int) -> Integers:
        out = np.empty(count, dtype=np.int64)
        self._write_repeats(out)
        write_linear(self._linear, out)
        for (width, is_zigzag), runs in self._packed.items():
            unpack(self._padded, runs.columns(), width=width, zigzag=is_zigzag, out=out)
        self._write_deltas(out)
        self._write_patched(out)
        return out

    def _direct(self, position: int, offset: int) -> tuple[int, int]:
        width, length = self._header(position)
        self._packed[width, self._signed].add((position + 2, offset, length))
        return position + 2 + (length * width + 7) // 8, length

    def _header(self, position: int) -> tuple[int, int]:
        """Return the bit width and the number of values from the two-byte header of most runs."""
        header = self._padded[position]
        return ALL_WIDTHS[header >> 1 & 31], ((header & 1) << 8 | self._padded[position + 1]) + 1

    def _delta(self, position: int, offset: int) -> tuple[int, int]:
        width, length = self._header(position)
        first, end = varint(self._padded, position + 2)
        step, end = varint(self._padded, end)
        first, step = zigzag(first) if self._signed else first, zigzag(step)
        if not self._padded[position] & 0x3E:  # no width: all deltas are equal
            self._linear.add((offset, length, first, step))
            return end, length
        if length < 2:
            raise ValueError("a delta run without a delta")
        self._deltas.add((offset, length, first, step))
        self._packed[width, False].add((end, offset + 2, length - 2))
        return end + ((length - 2) * width + 7) // 8, length

    def _patched_base(self, position: int, offset: int) -> tuple[int, int]:
        width, length = self._header(position)
        third, fourth = self._padded[position + 2], self._padded[position + 3]
        start = position + 5 + (third >> 5)
        base = _sign_and_magnitude(self._padded[position + 4 : start])
        self._packed[width, False].add((start, offset, length))
        self._bases.add((offset, length, base))
        patches = start + (length * width + 7) // 8
        patch_width, gap_width, number = ALL_WIDTHS[third & 31], (fourth >> 5) + 1, fourth & 31
        entry_width = any_width(patch_width + gap_width)
        end = patches + (number * entry_width + 7) // 8
        if end > len(self._data):
            raise ValueError("a truncated stream")
        at = offset
        for entry in unpack_few(self._padded[patches:end], number, entry_width):
            at += entry >> patch_width
            if at >= offset + length:
                raise ValueError("a patch beyond its run")
            self._patches.add((at, (entry & (1 << patch_width) - 1) << width & MASK))
        return end, length

    def _write_repeats(self, out: Integers) -> None:
        """Write short repeats; their value is in the one to eight bytes after the header, highest first."""
        if not self._repeats:
            return
        positions, offsets = self._repeats.columns()
        headers = np.frombuffer(self._padded, dtype=np.uint8)[positions]
        behind = np.ndarray((len(self._data),), dtype=">u8", buffer=self._padded, offset=1, strides=(1,))
        # NB: without astype, numpy computes large arrays in place and returns the bytes reversed
        words = behind[positions].astype(np.uint64) >> (56 - (headers & 0x38)).astype(np.uint64)
        values = unzigzag(words) if self._signed else words.view(np.int64)
        lengths = (headers & 7).astype(np.int64) + 3
        out[indexes(offsets, lengths)] = np.repeat(values, lengths)

    def _write_deltas(self, out: Integers) -> None:
        """Turn deltas into values; a run with a negative first delta subtracts the others."""
        if not self._deltas:
            return
        offsets, lengths, first, step = self._deltas.columns()
        index = indexes(offsets, lengths)
        values = out[index]
        np.negative(values, out=values, where=np.repeat(step < 0, lengths))
        starts = np.cumsum(lengths) - lengths
        values[starts] = first
        values[starts + 1] = step
        sums = np.cumsum(values)
        out[index] = sums - np.repeat(sums[starts] - first, lengths)

    def _write_patched(self, out: Integers) -> None:
        if not self._bases:
            return
        if self._patches:
            at, bits = self._patches.columns()
            np.bitwise_or.at(out, at, bits)
        offsets, lengths, base = self._bases.columns()
        out[indexes(offsets, lengths)] += np.repeat(base, lengths)


def _sign_and_magnitude(data: bytes) -> int:
    """Return a sign-and-magnitude number (the highest bit is the sign) as a 64-bit two's complement."""
    value = int.from_bytes(data, "big")
    sign = 1 << (8 * len(data) - 1)
    return (sign - value if value & sign else value) & MASK
