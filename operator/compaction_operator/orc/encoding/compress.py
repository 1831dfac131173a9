"""Compresses streams into the frames of an ORC file (ORC specification, "Compression")."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from isal import isal_zlib

from compaction_operator.orc.spec.messages import Compression

_HEADER_BYTES = 3
LARGEST_FRAME = (1 << 23) - 1
"""The largest length in the header of a frame."""

_RAW_DEFLATE = -15
_LEVEL = 2
_ARROW_NAMES = {Compression.SNAPPY: "snappy", Compression.LZ4: "lz4_raw", Compression.ZSTD: "zstd"}


@dataclass(frozen=True, slots=True)
class CompressedStream:
    """A stream as stored in the file; `chunks` are the offsets of its frames and of its end, empty without a codec."""

    data: bytes
    chunks: tuple[int, ...]
    block_size: int

    def position(self, offset: int) -> tuple[int, ...]:
        """Return a plain offset as a row index stores it: alone, or as a frame's start and the offset inside it."""
        if not self.chunks:
            return (offset,)
        chunk, rest = divmod(offset, self.block_size)
        return (self.chunks[chunk], rest)


def compress(data: Any, *, codec: Compression, block_size: int) -> CompressedStream:
    """Return `data` as a stream of a file with this codec, in frames of at most `block_size` plain bytes.

    `data` is bytes or another object with the buffer protocol, such as an Arrow buffer. A frame that would not shrink
    is stored uncompressed. Raises ValueError for LZO.
    """
    if codec is Compression.NONE:
        return CompressedStream(bytes(data), (), block_size)
    shrink, block_size = _compressor(codec), min(block_size, LARGEST_FRAME)
    plain, length = memoryview(data), 0
    parts: list[bytes | memoryview] = []
    starts = [0]
    for start in range(0, len(plain), block_size):
        header, frame = _frame(plain[start : start + block_size], shrink)
        parts += (header, frame)
        length += _HEADER_BYTES + len(frame)
        starts.append(length)
    return CompressedStream(b"".join(parts), tuple(starts), block_size)


def _frame(plain: memoryview, shrink: Callable[[memoryview], bytes]) -> tuple[bytes, bytes | memoryview]:
    """Return a frame's header and content."""
    small = shrink(plain)
    original = len(small) >= len(plain)
    frame = plain if original else small
    return (len(frame) << 1 | original).to_bytes(_HEADER_BYTES, "little"), frame


@cache
def _compressor(codec: Compression) -> Callable[[memoryview], bytes]:
    if codec is Compression.ZLIB:
        return lambda plain: bytes(isal_zlib.compress(plain, _LEVEL, wbits=_RAW_DEFLATE))
    if codec not in _ARROW_NAMES:
        raise ValueError(f"{codec.name} compression is not supported")
    arrow = pa.Codec(_ARROW_NAMES[codec])
    return lambda plain: bytes(arrow.compress(pa.py_buffer(plain), asbytes=True))
