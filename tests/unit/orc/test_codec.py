"""Compression frames: of every codec and size they are read; damaged or overfull ones are refused, not unpacked."""

import random
import tracemalloc
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandbox.harness.orctail import frame_plain

from compaction_operator.orc.encoding import decompress
from compaction_operator.orc.spec import Compression

BLOCK = 4096
NAMES = {Compression.SNAPPY: "snappy", Compression.LZ4: "lz4_raw", Compression.ZSTD: "zstd"}
CODECS = [Compression.ZLIB, *NAMES]


def packed(plain: bytes, codec: Compression) -> bytes:
    """A frame's content as other libraries make it."""
    if codec is Compression.ZLIB:
        deflater = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        return deflater.compress(plain) + deflater.flush()
    return bytes(pa.compress(plain, NAMES[codec], asbytes=True))


def framed(*contents: bytes) -> bytes:
    return b"".join((len(content) << 1).to_bytes(3, "little") + content for content in contents)


def text(size: int) -> bytes:
    return bytes(random.Random(size).choices(b"abcdefgh", k=size))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17])
def test_frames_of_every_codec_and_size_are_read(codec: Compression, size: int):
    plain = text(size)
    frames = [packed(plain[start : start + BLOCK], codec) for start in range(0, size, BLOCK)]
    assert decompress(framed(*frames), codec=codec, block_size=BLOCK) == plain


@pytest.mark.parametrize("codec", list(Compression))
def test_plain_frames_are_read(codec: Compression):
    plain = text(3 * BLOCK + 1)
    assert decompress(frame_plain(plain, codec=codec, block_size=BLOCK), codec=codec, block_size=BLOCK) == plain


@pytest.mark.parametrize("codec", CODECS)
def test_a_frame_larger_than_a_block_is_refused(codec: Compression):
    """However small it is itself: nothing unpacks to more than the file says of its blocks."""
    with pytest.raises(ValueError, match=r"larger than the file's blocks|damaged LZ4"):
        decompress(framed(packed(bytes(100 * BLOCK), codec)), codec=codec, block_size=BLOCK)


def test_blocks_larger_than_a_frame_can_be_are_refused():
    with pytest.raises(ValueError, match="larger than a frame can be"):
        decompress(framed(b""), codec=Compression.ZLIB, block_size=(1 << 23) + 1)


def test_lzo_is_refused():
    with pytest.raises(ValueError, match="LZO compression is not supported"):
        decompress(framed(b"abc"), codec=Compression.LZO, block_size=BLOCK)


@pytest.mark.parametrize("codec", CODECS)
def test_a_section_cut_off_is_refused(codec: Compression):
    whole = framed(packed(text(BLOCK), codec))
    for size in (1, 2, 3, len(whole) // 2, len(whole) - 1):
        with pytest.raises(ValueError, match=r"."):
            decompress(whole[:size], codec=codec, block_size=BLOCK)


@pytest.mark.parametrize("codec", [Compression.ZLIB, Compression.SNAPPY, Compression.ZSTD])
def test_a_frame_whose_content_is_cut_off_is_refused(codec: Compression):
    """LZ4 does not say how long its content is: what is missing there is missed in the stream."""
    content = packed(text(BLOCK), codec)
    for size in (1, len(content) // 2, len(content) - 1):
        with pytest.raises(ValueError, match=codec.name):
            decompress(framed(content[:size]), codec=codec, block_size=BLOCK)


def test_a_small_frame_cannot_fill_the_memory():
    """One that unpacks to 64 MB is given up behind the size of a block."""
    content = packed(bytes(1 << 26), Compression.ZLIB)
    tracemalloc.start()
    with pytest.raises(ValueError, match="larger than the file's blocks"):
        decompress(framed(content), codec=Compression.ZLIB, block_size=BLOCK)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@given(codec=st.sampled_from(CODECS), content=st.binary(max_size=200))
def test_frames_of_anything_are_refused_or_read(codec: Compression, content: bytes):
    try:
        plain = decompress(framed(content), codec=codec, block_size=BLOCK)
    except ValueError:
        return
    assert len(plain) <= BLOCK
