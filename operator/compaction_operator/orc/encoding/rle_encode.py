"""Encodes ORC streams with run lengths: bytes, booleans, and integers in version 2."""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from compaction_operator.orc import kernels
from compaction_operator.orc.encoding.bit_packing import CODES, WIDTHS, pack, width_of
from compaction_operator.orc.encoding.patched_base import patched_base
from compaction_operator.orc.spec import Booleans, Integers

Bytes = npt.NDArray[np.uint8]
Positions = list[tuple[int, ...]]

_LONGEST_BLOCK = 512
_SHORTEST_SEQUENCE = 128
_SHORTEST_REPEAT, _LONGEST_SHORT_REPEAT = 3, 10
_LONGEST_BYTE_REPEAT, _LONGEST_BYTE_LITERALS = 130, 128
_TAME = 1 << 62
_FEW = 20
"""Patches pay if at most one in this many values needs the full width."""


_SHORT_REPEAT, _DIRECT, _DELTA = 0x00, 0x40, 0xC0


class Encoded(NamedTuple):
    """A plain stream, and the position of each row group: the byte offset, then the counts to skip from there."""

    data: bytes
    positions: Positions


def encode_bytes(values: Bytes, groups: Integers) -> Encoded:
    """Encode bytes as runs (ORC specification, "Byte Run Length Encoding").

    `groups` holds the offset of each row group's values and the number of values, in ascending order from 0. No run
    crosses an offset, so each row group starts with a run.
    """
    if kernels.compiled:
        return _encoded(*kernels.compiled.encode_bytes(np.ascontiguousarray(values, np.uint8), _offsets(groups)))
    return _joined([_byte_runs(values[start:end]) for start, end in pairwise(groups.tolist())])


def encode_booleans(values: Booleans, groups: Integers) -> Encoded:
    """Encode booleans as runs of bytes, with the first value in the highest bit; `groups` as in `encode_bytes`."""
    bytes_ = groups // 8
    bytes_[-1] = -(-len(values) // 8)
    encoded = encode_bytes(np.packbits(values), bytes_)
    bits = (groups[:-1] % 8).tolist()
    positions = [(*position, bit) for position, bit in zip(encoded.positions, bits, strict=True)]
    return Encoded(encoded.data, positions)


def encode_integers(values: Integers, groups: Integers, *, signed: bool) -> Encoded:
    """Encode integers as runs (ORC specification, "Integer Run Length Encoding, version 2").

    `groups` as in `encode_bytes`. Values of an unsigned stream are taken as unsigned 64-bit numbers.
    """
    if kernels.compiled:
        plain = np.ascontiguousarray(values, np.int64)
        return _encoded(*kernels.compiled.encode_integers(plain, _offsets(groups), signed))
    return _joined([_integer_runs(values[start:end], signed=signed) for start, end in pairwise(groups.tolist())])


def _offsets(groups: Integers) -> Integers:
    return np.ascontiguousarray(groups, np.int64)


def _joined(parts: list[bytes]) -> Encoded:
    return _encoded(b"".join(parts), np.array([0, *accumulate(map(len, parts))][:-1], np.int64))


def _encoded(data: bytes, starts: bytearray | Integers) -> Encoded:
    """Return a stream with the positions of row groups that each start with a run."""
    return Encoded(data, [(start, 0) for start in np.frombuffer(starts, np.int64).tolist()])


def _chop(starts: Integers, total: int, limit: Integers) -> tuple[Integers, Integers]:
    """Cut each region into pieces up to its limit; return the pieces' starts and the region of each piece."""
    sizes: Integers = np.diff(starts, append=total)
    pieces = -(-sizes // limit)
    region = np.repeat(np.arange(len(starts)), pieces)
    within = np.arange(len(region)) - (np.cumsum(pieces) - pieces)[region]
    cut: Integers = starts[region] + within * limit[region]
    return cut, region


def _byte_runs(values: Bytes) -> bytes:
    if not len(values):
        return b""
    changes = np.flatnonzero(np.diff(values, prepend=~values[:1]))
    sizes = np.diff(changes, append=len(values))
    repeats = changes[sizes >= _SHORTEST_REPEAT]
    ends = repeats + sizes[sizes >= _SHORTEST_REPEAT]
    regions = np.unique(np.concatenate(([0], repeats, ends[ends < len(values)])))
    repeated = np.isin(regions, repeats)
    limits = np.where(repeated, _LONGEST_BYTE_REPEAT, _LONGEST_BYTE_LITERALS)
    starts, region = _chop(regions, len(values), limits)
    lengths = np.diff(starts, append=len(values))
    return _write_byte_runs(values, starts, lengths, repeated[region] & (lengths >= _SHORTEST_REPEAT))


def _write_byte_runs(values: Bytes, starts: Integers, lengths: Integers, repeated: Booleans) -> bytes:
    sizes = np.where(repeated, 2, 1 + lengths)
    offsets = np.cumsum(sizes) - sizes
    written = np.empty(sizes.sum(), np.uint8)
    written[offsets] = np.where(repeated, lengths - _SHORTEST_REPEAT, 256 - lengths)
    written[offsets[repeated] + 1] = values[starts[repeated]]
    literal = np.flatnonzero(np.repeat(~repeated, lengths))
    written[literal + np.repeat(offsets + 1 - starts, lengths)[literal]] = values[literal]
    return written.tobytes()


def _integer_runs(values: Integers, *, signed: bool) -> bytes:
    return b"".join(_write_blocks(_Blocks(values, signed=signed))) if len(values) else b""


class _Blocks:
    """Values cut into blocks of at most 512, and the encoding of each block.

    Per value: `codes`, the content of a direct run; `steps`, the difference to the value before (a block's first
    value has the step of its second). Per block: `starts`, `lengths`, `repeat`, `fixed` (one step throughout), `delta`
    (all steps in one direction and narrower than the codes), and `widths`, the bits of the packed values, 0 for none.
    `patched` maps block numbers to complete runs.
    """

    def __init__(self, values: Integers, *, signed: bool) -> None:
        self.values = values
        self.codes = (((values << 1) ^ (values >> 63)) if signed else values).view(np.uint64)
        self.starts = starts = _cut(values)
        self.lengths = np.diff(starts, append=len(values))
        self.steps = _steps(values, starts)
        # NB: only values beyond _TAME can overflow a difference; with any such value, all blocks use direct runs
        tame = bool(values.min() > -_TAME and values.max() < _TAME)
        many = (self.lengths >= _SHORTEST_REPEAT) & tame
        low, high = np.minimum.reduceat(self.steps, starts), np.maximum.reduceat(self.steps, starts)
        self.fixed = many & (low == high)
        self.repeat = self.fixed & (low == 0) & (self.lengths <= _LONGEST_SHORT_REPEAT)
        direct = width_of(np.maximum.reduceat(self.codes, starts))
        # NB: in a delta run the code of width 1 means a fixed step
        steps = np.maximum(width_of(np.maximum(np.abs(low), np.abs(high)).view(np.uint64)), 2)
        one_way = (low >= 0) | ((high <= 0) & (self.steps[starts] < 0))
        self.delta = many & ~self.fixed & one_way & (steps < direct)
        self.widths = np.where(self.fixed, 0, np.where(self.delta, steps, direct))
        self.patched = self._patch() if tame else {}
        self.widths[list(self.patched)] = 0

    def _patch(self) -> dict[int, bytes]:
        """Return patched runs of the direct blocks that become shorter with patches."""
        direct = ~self.fixed & ~self.delta & (self.lengths > _FEW) & (self.widths > WIDTHS[0])
        narrower = WIDTHS[np.searchsorted(WIDTHS, self.widths) - 1].astype(np.uint64)
        wide = self.codes >> np.repeat(narrower, self.lengths) != 0
        few = np.add.reduceat(wide, self.starts, dtype=np.int64) * _FEW <= self.lengths
        found = {}
        for block in np.flatnonzero(direct & few).tolist():
            start, length = self.starts[block], int(self.lengths[block])
            run = patched_base(self.values[start : start + length])
            if run and len(run) < length * int(self.widths[block]) // 8:
                found[block] = run
        return found


def _cut(values: Integers) -> Integers:
    """Return the starts of the blocks: a long sequence of one step is a block of its own, and the limit is 512."""
    steps = np.diff(values)
    same = steps[1:] == steps[:-1]
    edges = np.flatnonzero(np.diff(same, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2] + 2
    long = ends - starts >= _SHORTEST_SEQUENCE
    starts, ends = starts[long], ends[long]
    # two adjacent sequences may share a value: it goes to the first
    starts[1:] = np.maximum(starts[1:], ends[:-1])
    regions = np.unique(np.concatenate(([0], starts, ends[ends < len(values)])))
    return _chop(regions, len(values), np.full(len(regions), _LONGEST_BLOCK))[0]


def _steps(values: Integers, starts: Integers) -> Integers:
    steps = np.diff(values, prepend=values[:1])
    steps[starts] = 0
    follows = starts[np.diff(starts, append=len(values)) > 1]
    steps[follows] = steps[follows + 1]
    return steps


def _packed(blocks: _Blocks) -> Iterator[tuple[int, memoryview, list[int]]]:
    """Yield, for each width, the concatenated packed values of its blocks, and the end of each block in these bytes."""
    widths = np.repeat(blocks.widths, blocks.lengths)
    # a delta run stores its first value and step before the packed values
    first = blocks.starts[blocks.delta]
    widths[first] = 0
    widths[first + 1] = 0
    values = np.where(np.repeat(blocks.delta, blocks.lengths), np.abs(blocks.steps).view(np.uint64), blocks.codes)
    counts = blocks.lengths - 2 * blocks.delta
    for width in np.unique(blocks.widths[blocks.widths > 0]).tolist():
        sizes = counts[blocks.widths == width]
        ends = np.cumsum(-(-sizes * width // 8)).tolist()
        yield width, memoryview(pack(values[widths == width], sizes, width)), ends


def _write_blocks(blocks: _Blocks) -> Iterator[bytes | memoryview]:
    packed = {width: (content, iter(pairwise([0, *ends]))) for width, content, ends in _packed(blocks)}
    columns = (blocks.lengths, blocks.widths, blocks.repeat, blocks.fixed | blocks.delta)
    firsts = (blocks.codes[blocks.starts], blocks.steps[blocks.starts])
    rows: Any = zip(*(column.tolist() for column in (*columns, *firsts)), strict=True)
    for block, (length, width, repeat, delta, code, step) in enumerate(rows):
        if repeat or block in blocks.patched:
            yield blocks.patched.get(block) or _short_repeat(code, length)
            continue
        yield _head(_DELTA if delta else _DIRECT, width, length)
        if delta:
            yield _varint(code) + _varint(step << 1 if step >= 0 else ~(step << 1))
        if width:
            content, pieces = packed[width]
            start, end = next(pieces)
            yield content[start:end]


def _head(kind: int, width: int, length: int) -> bytes:
    code = CODES[width] if width else 0
    return (kind << 8 | code << 9 | (length - 1)).to_bytes(2, "big")


def _short_repeat(code: int, length: int) -> bytes:
    size = max(1, (code.bit_length() + 7) // 8)
    return bytes([_SHORT_REPEAT | (size - 1) << 3 | (length - _SHORTEST_REPEAT)]) + code.to_bytes(size, "big")


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
