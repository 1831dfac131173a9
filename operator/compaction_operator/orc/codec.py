"""The compression frames of an ORC file's tail (ORC specification, "Compression")."""

import bisect
import zlib

import pyarrow as pa

from compaction_operator.orc.messages import Compression

DEFAULT_BLOCK_SIZE = 256 * 1024
_HEADER_BYTES = 3


def decompress(data: bytes, *, codec: Compression, block_size: int) -> bytes:
    """Return the plain bytes of a framed section of the file.

    Raises ValueError, zlib.error or an Arrow error when the frames are damaged or the codec is LZO.
    """
    if codec is Compression.NONE:
        return data
    parts, position = [], 0
    while position < len(data):
        header = int.from_bytes(data[position : position + _HEADER_BYTES], "little")
        start, end = position + _HEADER_BYTES, position + _HEADER_BYTES + (header >> 1)
        if end > len(data):
            raise ValueError("a compression frame ends behind its section")
        frame = data[start:end]
        parts.append(frame if header & 1 else _decompress_frame(frame, codec, block_size))
        position = end
    return b"".join(parts)


def frame_plain(data: bytes, *, codec: Compression, block_size: int) -> bytes:
    """Return `data` as a section of a file of that codec, its frames marked as not compressed.

    Every reader must take such frames, so that writing a tail needs no codec.
    """
    if codec is Compression.NONE:
        return data
    frames = (data[start : start + block_size] for start in range(0, len(data), block_size))
    return b"".join((len(frame) << 1 | 1).to_bytes(_HEADER_BYTES, "little") + frame for frame in frames)


def _decompress_frame(frame: bytes, codec: Compression, block_size: int) -> bytes:
    match codec:
        case Compression.ZLIB:
            return zlib.decompress(frame, -zlib.MAX_WBITS)
        case Compression.SNAPPY:
            return bytes(pa.decompress(frame, _snappy_length(frame), "snappy", asbytes=True))
        case Compression.LZ4:
            return bytes(pa.decompress(frame, _lz4_length(frame, block_size), "lz4_raw", asbytes=True))
        case Compression.ZSTD:
            with pa.CompressedInputStream(pa.BufferReader(frame), "zstd") as stream:
                return bytes(stream.read())
    raise ValueError(f"{codec.name} compression is not supported")


def _snappy_length(frame: bytes) -> int:
    """The plain length, which a snappy block begins with as a base-128 number."""
    length = 0
    for shift, byte in enumerate(frame[:5]):
        length |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return length
    raise ValueError("a snappy frame without its length")


def _lz4_length(frame: bytes, block_size: int) -> int:
    """The plain length, which an LZ4 block does not say: the smallest buffer that the block fits into."""

    def fits(length: int) -> bool:
        try:
            pa.decompress(frame, length, "lz4_raw")
        except OSError:
            return False
        return True

    return bisect.bisect_left(range(block_size + 1), True, key=fits)
