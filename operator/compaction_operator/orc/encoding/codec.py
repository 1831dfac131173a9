"""Compresses and decompresses the frames of an ORC file's sections (ORC specification, "Compression")."""

import bisect
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import pyarrow as pa
from isal import isal_zlib

from compaction_operator.orc.spec import Compression

DEFAULT_BLOCK_SIZE = 256 * 1024
LARGEST_BLOCK_SIZE = 1 << 23
"""A frame's length has 23 bits, so Java's writer accepts no larger block (OutStream.assertBufferSizeValid)."""

LARGEST_FRAME = (1 << 23) - 1
"""The largest length in the header of a frame."""

_HEADER_BYTES = 3
_LEVEL = 1
"""NB: another process may write a few bytes more or less for the same plain bytes. isa-l hashes the third place of each
buffer by an address of its stack (igzip_icf_body_h1_gr_bt.asm: `.write_first_byte` does not set `tmp2`), so it may miss
a match there. It compares each match that it finds, so the plain bytes are always the same."""

_WORTH = 0.95
"""A frame is compressed if it becomes smaller than this share: readers inflate nearly random numbers for nothing."""

_SAMPLE_BYTES = 16 * 1024
"""So much of a frame says whether the rest is worth it, once the frame before was not."""

_ARROW_NAMES = {Compression.SNAPPY: "snappy", Compression.LZ4: "lz4_raw", Compression.ZSTD: "zstd"}
_INFLATE_ERROR = cast(type[Exception], isal_zlib.error)  # the type stub declares an instance, not a class


def decompress(data: bytes, *, codec: Compression, block_size: int) -> bytes:
    """Return the plain bytes of a framed section of the file.

    No frame may hold more than `block_size` plain bytes, so a damaged section cannot exhaust the memory.
    Raises ValueError for damaged frames and for LZO.
    """
    if codec is Compression.NONE:
        return data
    if block_size > LARGEST_BLOCK_SIZE:
        raise ValueError(f"compression blocks of {block_size} bytes are larger than a frame can be")
    parts, position = [], 0
    while position < len(data):
        header = int.from_bytes(data[position : position + _HEADER_BYTES], "little")
        start, end = position + _HEADER_BYTES, position + _HEADER_BYTES + (header >> 1)
        if end > len(data):
            raise ValueError("a compression frame ends after its section")
        frame = data[start:end]
        parts.append(frame if header & 1 else _decompress_frame(frame, codec, block_size))
        position = end
    return b"".join(parts)


def _decompress_frame(frame: bytes, codec: Compression, block_size: int) -> bytes:
    try:
        match codec:
            case Compression.ZLIB:
                return _inflate(frame, block_size)
            case Compression.SNAPPY:
                return bytes(pa.decompress(frame, _snappy_length(frame, block_size), "snappy", asbytes=True))
            case Compression.LZ4:
                return bytes(pa.decompress(frame, _lz4_length(frame, block_size), "lz4_raw", asbytes=True))
            case Compression.ZSTD:
                return _zstd(frame, block_size)
    except (_INFLATE_ERROR, pa.ArrowException, OSError) as error:
        raise ValueError(f"a damaged {codec.name} frame: {error}") from error
    raise ValueError(f"{codec.name} compression is not supported")


def _inflate(frame: bytes, block_size: int) -> bytes:
    inflater = isal_zlib.decompressobj(-zlib.MAX_WBITS)
    plain: bytes = inflater.decompress(frame, block_size + 1)
    if not inflater.eof or len(plain) > block_size:
        raise ValueError("a truncated ZLIB frame, or one larger than the file's blocks")
    return plain


def _zstd(frame: bytes, block_size: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(frame), "zstd") as stream:
        plain = bytes(stream.read(block_size + 1))
    if len(plain) > block_size:
        raise ValueError("a ZSTD frame larger than the file's blocks")
    return plain


def _snappy_length(frame: bytes, block_size: int) -> int:
    """Return the plain length, the base-128 number at the start of a Snappy block."""
    length = 0
    for shift, byte in enumerate(frame[:5]):
        length |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            if length > block_size:
                raise ValueError("a SNAPPY frame larger than the file's blocks")
            return length
    raise ValueError("a SNAPPY frame without a valid length")


def _lz4_length(frame: bytes, block_size: int) -> int:
    """Return the plain length, which an LZ4 block does not store: the smallest buffer that holds the block."""

    def fits(length: int) -> bool:
        try:
            pa.decompress(frame, length, "lz4_raw")
        except OSError:
            return False
        return True

    # only the last frame of a stream is not full, so the search is rarely needed
    if not fits(block_size - 1):
        return block_size
    return bisect.bisect_left(range(block_size), True, key=fits)


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

    `data` is bytes or another object with the buffer protocol, such as an Arrow buffer. A frame that would hardly
    shrink is stored uncompressed. Raises ValueError for LZO.
    """
    if codec is Compression.NONE:
        return CompressedStream(bytes(data), (), block_size)
    shrink, block_size = _compressor(codec), min(block_size, LARGEST_FRAME)
    plain, length = memoryview(data), 0
    parts: list[bytes | memoryview] = []
    starts = [0]
    compact = True
    for start in range(0, len(plain), block_size):
        block = plain[start : start + block_size]
        small = _shrunk(block, shrink) if compact or _shrunk(_sample(block), shrink) is not None else None
        compact = small is not None
        frame = block if small is None else small
        parts += ((len(frame) << 1 | (not compact)).to_bytes(_HEADER_BYTES, "little"), frame)
        length += _HEADER_BYTES + len(frame)
        starts.append(length)
    return CompressedStream(b"".join(parts), tuple(starts), block_size)


def _shrunk(plain: memoryview, shrink: Callable[[memoryview], bytes]) -> bytes | None:
    """Return a frame's compressed content, or None if that is not worth it."""
    small = shrink(plain)
    return small if len(small) < _WORTH * len(plain) else None


def _sample(plain: memoryview) -> memoryview:
    """Return the middle of a frame."""
    start = max(0, len(plain) - _SAMPLE_BYTES) // 2
    return plain[start : start + _SAMPLE_BYTES]


@cache
def _compressor(codec: Compression) -> Callable[[memoryview], bytes]:
    if codec is Compression.ZLIB:
        return lambda plain: bytes(isal_zlib.compress(plain, _LEVEL, wbits=-zlib.MAX_WBITS))
    if codec not in _ARROW_NAMES:
        raise ValueError(f"{codec.name} compression is not supported")
    arrow = pa.Codec(_ARROW_NAMES[codec])
    return lambda plain: bytes(arrow.compress(pa.py_buffer(plain), asbytes=True))
