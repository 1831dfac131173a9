"""The run-length encodings of ORC streams, decoded (ORC specification, "Run Length Encoding").

All functions take the plain bytes of a stream and the number of values that it must hold, neither more nor fewer,
and raise ValueError otherwise. What a run says is counted before anything is allocated for it.
"""

from collections import defaultdict

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]

_WIDTHS: tuple[int, ...] = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_MASK = (1 << 64) - 1
_LONGEST_VARINT = 10
# the fixed part of any run fits into this many bytes, so that a header may be read without looking for the end
_PADDING = bytes(72)


def decode_bytes(data: bytes, count: int) -> npt.NDArray[np.uint8]:
    """Return the values of a byte run-length stream."""
    parts = []
    position = total = 0
    while position < len(data) and total < count:
        control = data[position]
        if control < 128:
            length = control + 3
            parts.append(data[position + 1 : position + 2] * length)
            position += 2
        else:
            length = 256 - control
            parts.append(data[position + 1 : position + 1 + length])
            position += 1 + length
        total += length
    _check_end(data, position, count, total)
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


def decode_booleans(data: bytes, count: int) -> npt.NDArray[np.bool_]:
    """Return the values of a boolean stream: bits, the highest first, in a byte run-length stream."""
    packed = decode_bytes(data, (count + 7) // 8)
    return np.unpackbits(packed, count=count).view(np.bool_)


def decode_integers(data: bytes, count: int, *, signed: bool, version: int) -> Integers:
    """Return the values of an integer run-length stream of version 1 or 2.

    Unsigned values from 2**63 on come out negative, as in Java.
    """
    return _Version1(data, signed).decode(count) if version == 1 else _Version2(data, signed).decode(count)


def split_varints(data: bytes, count: int) -> Integers:
    """Return the length in bytes of each of the base-128 numbers, of any size, that make up `data`."""
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.int8) >= 0)
    if len(ends) != count or (data and data[-1] >= 128):
        raise ValueError(f"a stream of {len(ends)} numbers, not {count}")
    return np.diff(ends, prepend=-1)


def _check_end(data: bytes, position: int, count: int, total: int) -> None:
    if position > len(data) or total < count:
        raise ValueError("a stream that is cut off")
    if position < len(data) or total > count:
        raise ValueError(f"a stream of more than {count} values")


def _zigzag(value: int) -> int:
    """A signed number from its zigzag form, as the 64 bits of its two's complement."""
    return ((value >> 1) ^ -(value & 1)) & _MASK


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the base-128 number at `position`, cut to 64 bits, and where it ends."""
    value = 0
    for shift in range(0, 7 * _LONGEST_VARINT, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value & _MASK, position
    raise ValueError("a number of more than 64 bits")


def _spread(offsets: Integers, lengths: Integers) -> Integers:
    """The indexes offset, offset + 1, ... of each run, one run after the other."""
    starts = np.cumsum(lengths) - lengths
    return np.repeat(offsets - starts, lengths) + np.arange(int(lengths.sum()))


class _LinearRuns:
    """Runs of values that are a fixed step apart: the offset in the output, length, first value and step of each."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []
        self._values: list[tuple[int, int]] = []

    def add(self, offset: int, length: int, first: int, step: int) -> None:
        """`first` and `step` are 64 bits each."""
        self._runs.append((offset, length))
        self._values.append((first, step))

    def write(self, out: _Words) -> None:
        if not self._runs:
            return
        offsets, lengths = np.array(self._runs, dtype=np.int64).T
        first, step = np.array(self._values, dtype=np.uint64).T
        index = _spread(offsets, lengths)
        values = np.repeat(first, lengths)
        if step.any():
            values += np.repeat(step, lengths) * (index - np.repeat(offsets, lengths)).view(np.uint64)
        out[index] = values


class _Version1:
    """A stream of run-length encoding version 1."""

    def __init__(self, data: bytes, signed: bool) -> None:
        self._data = data
        self._padded = data + _PADDING
        self._signed = signed
        self._linear = _LinearRuns()
        self._literals: list[tuple[int, int, int, int]] = []  # offset, length, start and end of the bytes
        # where varints end, and how many of them end before each byte
        is_end = np.frombuffer(data, dtype=np.int8) >= 0
        self._ends = np.flatnonzero(is_end)
        self._rank = np.concatenate(([0], np.cumsum(is_end)))

    def decode(self, count: int) -> Integers:
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
        _check_end(self._data, position, count, total)
        out = np.empty(count, dtype=np.uint64)
        self._linear.write(out)
        self._write_literals(out)
        return out.view(np.int64)

    def _run(self, position: int, offset: int, length: int) -> int:
        step = self._padded[position]
        first, end = _varint(self._padded, position + 1)
        if step >= 128:
            step = (step - 256) & _MASK
        self._linear.add(offset, length, _zigzag(first) if self._signed else first, step)
        return end

    def _literal(self, start: int, offset: int, length: int) -> int:
        last = int(self._rank[min(start, len(self._data))]) + length - 1
        if last >= len(self._ends):
            raise ValueError("a stream that is cut off")
        end = int(self._ends[last]) + 1
        self._literals.append((offset, length, start, end))
        return end

    def _write_literals(self, out: _Words) -> None:
        if not self._literals:
            return
        values = _varints(b"".join(self._data[start:end] for _, _, start, end in self._literals))
        if self._signed:
            values = _unzigzag(values)
        offsets, lengths = np.array([literal[:2] for literal in self._literals], dtype=np.int64).T
        out[_spread(offsets, lengths)] = values


def _varints(data: bytes) -> _Words:
    """The base-128 numbers that make up `data`."""
    septets = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(septets < 128)
    lengths = np.diff(ends, prepend=-1)
    if lengths.max() > _LONGEST_VARINT:
        raise ValueError("a number of more than 64 bits")
    starts = ends + 1 - lengths
    shifts = (np.arange(len(septets)) - np.repeat(starts, lengths)) * 7
    return np.bitwise_or.reduceat((septets & 0x7F).astype(np.uint64) << shifts.astype(np.uint64), starts)


def _unzigzag(values: _Words) -> _Words:
    return (values >> np.uint64(1)) ^ (-(values & np.uint64(1)).view(np.int64)).view(np.uint64)


class _Version2:
    """A stream of run-length encoding version 2.

    One pass over the runs notes where the values of each are; then all runs of one bit width are unpacked at once.
    """

    def __init__(self, data: bytes, signed: bool) -> None:
        self._data = data
        self._padded = data + _PADDING
        self._signed = signed
        self._linear = _LinearRuns()
        # bit-packed values by width, and whether they are zigzag: position of the bytes, offset, number of values
        self._packed: defaultdict[tuple[int, bool], list[tuple[int, int, int]]] = defaultdict(list)
        self._deltas: list[tuple[int, int]] = []  # offset, length
        self._delta_values: list[tuple[int, int]] = []  # first value, first delta
        self._patched: list[tuple[int, int, int]] = []  # offset, length, base
        self._patches: list[tuple[int, int]] = []  # offset, bits to set

    def decode(self, count: int) -> Integers:
        data, end = self._data, len(self._data)
        readers = (self._short_repeat, self._direct, self._patched_base, self._delta)
        position = total = 0
        while position < end and total < count:
            position, length = readers[data[position] >> 6](position, total)
            total += length
        _check_end(data, position, count, total)
        out = np.empty(count, dtype=np.uint64)
        self._linear.write(out)
        for (width, zigzag), runs in self._packed.items():
            _unpack(self._padded, width=width, zigzag=zigzag, runs=runs, out=out)
        self._write_deltas(out)
        self._write_patched(out)
        return out.view(np.int64)

    def _short_repeat(self, position: int, offset: int) -> tuple[int, int]:
        header = self._padded[position]
        end = position + 2 + (header >> 3 & 7)
        value = int.from_bytes(self._padded[position + 1 : end], "big")
        length = (header & 7) + 3
        self._linear.add(offset, length, _zigzag(value) if self._signed else value, 0)
        return end, length

    def _direct(self, position: int, offset: int) -> tuple[int, int]:
        width, length = self._header(position)
        self._packed[width, self._signed].append((position + 2, offset, length))
        return position + 2 + (length * width + 7) // 8, length

    def _header(self, position: int) -> tuple[int, int]:
        """The bit width and the number of values in the two bytes that most runs begin with."""
        header = self._padded[position]
        return _WIDTHS[header >> 1 & 31], ((header & 1) << 8 | self._padded[position + 1]) + 1

    def _delta(self, position: int, offset: int) -> tuple[int, int]:
        width, length = self._header(position)
        first, end = _varint(self._padded, position + 2)
        step, end = _varint(self._padded, end)
        first, step = _zigzag(first) if self._signed else first, _zigzag(step)
        if not self._padded[position] & 0x3E:  # no width: all deltas are the same
            self._linear.add(offset, length, first, step)
            return end, length
        if length < 2:
            raise ValueError("a run of deltas without one")
        self._deltas.append((offset, length))
        self._delta_values.append((first, step))
        self._packed[width, False].append((end, offset + 2, length - 2))
        return end + ((length - 2) * width + 7) // 8, length

    def _patched_base(self, position: int, offset: int) -> tuple[int, int]:
        width, length = self._header(position)
        third, fourth = self._padded[position + 2], self._padded[position + 3]
        start = position + 5 + (third >> 5)
        base = _sign_and_magnitude(self._padded[position + 4 : start])
        self._packed[width, False].append((start, offset, length))
        self._patched.append((offset, length, base))
        patches = start + (length * width + 7) // 8
        patch_width, gap_width, number = _WIDTHS[third & 31], (fourth >> 5) + 1, fourth & 31
        entry_width = _closest_width(patch_width + gap_width)
        end = patches + (number * entry_width + 7) // 8
        entries = int.from_bytes(self._padded[patches:end], "big") >> (-number * entry_width % 8)
        at = offset
        for index in range(number - 1, -1, -1):
            entry = entries >> index * entry_width & ((1 << entry_width) - 1)
            at += entry >> patch_width
            if at >= offset + length:
                raise ValueError("a patch behind its run")
            self._patches.append((at, (entry & (1 << patch_width) - 1) << width & _MASK))
        return end, length

    def _write_deltas(self, out: _Words) -> None:
        if not self._deltas:
            return
        offsets, lengths = np.array(self._deltas, dtype=np.int64).T
        first, step = np.array(self._delta_values, dtype=np.uint64).T
        index = _spread(offsets, lengths)
        values = out[index]
        starts = np.cumsum(lengths) - lengths
        np.negative(values, out=values, where=np.repeat(step.view(np.int64) < 0, lengths))
        values[starts] = first
        values[starts + 1] = step
        sums = np.cumsum(values)
        out[index] = sums - np.repeat(sums[starts] - first, lengths)

    def _write_patched(self, out: _Words) -> None:
        if not self._patched:
            return
        if self._patches:
            at, bits = np.array(self._patches, dtype=np.uint64).T
            np.bitwise_or.at(out, at.view(np.int64), bits)
        offsets, lengths, base = np.array(self._patched, dtype=np.uint64).T
        out[_spread(offsets.view(np.int64), lengths.view(np.int64))] += np.repeat(base, lengths.view(np.int64))


def _sign_and_magnitude(data: bytes) -> int:
    """A number whose highest bit is its sign, as the 64 bits of its two's complement."""
    value = int.from_bytes(data, "big")
    sign = 1 << (8 * len(data) - 1)
    magnitude = value & (sign - 1)
    return -magnitude & _MASK if value & sign else magnitude


def _closest_width(bits: int) -> int:
    for width in _WIDTHS:
        if width >= bits:
            return width
    raise ValueError("a patch of more than 64 bits")


def _unpack(data: bytes, *, width: int, zigzag: bool, runs: list[tuple[int, int, int]], out: _Words) -> None:
    """Write the bit-packed values of runs of one width to where they belong.

    Eight values fill `width` bytes, whatever the width: each run is cut into such groups, and the values at one
    place of all groups are the same bits of as many words. What a run's last group has too much is left out.
    """
    groups = [(length + 7) // 8 for _, _, length in runs]
    pieces = [data[position : position + size * width] for (position, _, _), size in zip(runs, groups, strict=True)]
    packed = b"".join([*pieces, _PADDING])
    total = sum(groups)
    values = np.empty((total, 8), dtype=np.uint64)
    mask = np.uint64((1 << width) - 1)
    for place in range(8):
        byte, bit = divmod(place * width, 8)
        words = np.ndarray((total,), dtype=">u8", buffer=packed, offset=byte, strides=(width,))
        values[:, place] = words >> np.uint64(64 - width - bit) & mask
    flat = values.reshape(-1)
    if zigzag:
        flat = _unzigzag(flat)
    start = 0
    for (_, offset, length), size in zip(runs, groups, strict=True):
        out[offset : offset + length] = flat[start : start + length]
        start += size * 8
