"""Frames: what is compressed is read back, from any position, and never grows by more than its headers."""

import random

import pytest

from compaction_operator.orc.encoding import compress, decompress
from compaction_operator.orc.spec import Compression

CODECS = [Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
TEXT = b"".join(b"line %d\n" % number for number in range(500))
NOISE = random.Random(1).randbytes(4000)
BLOCK = 1 << 16
NEARLY_NOISE = bytes(random.Random(1).choices(range(205), k=4 * BLOCK))
"""What a perfect code makes 4 % smaller."""


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, NOISE, TEXT + NOISE], ids=["none", "one", "text", "noise", "both"])
def test_compressed_is_read_back_from_any_position(codec: Compression, data: bytes):
    stream = compress(data, codec=codec, block_size=1000)
    for offset in (0, 1, 999, 1000, 1001, len(data)):
        if offset <= len(data):
            start, skip = stream.position(offset)
            plain = decompress(stream.data[start:], codec=codec, block_size=1000)
            assert plain[skip:] == data[offset:]


@pytest.mark.parametrize("codec", CODECS)
def test_a_frame_that_would_not_shrink_is_kept(codec: Compression):
    stream = compress(NOISE, codec=codec, block_size=1000)
    assert len(stream.data) == len(NOISE) + 4 * 3
    assert stream.data[:3] == (1000 << 1 | 1).to_bytes(3, "little")
    assert len(compress(TEXT, codec=codec, block_size=1000).data) < len(TEXT) / 2


@pytest.mark.parametrize("codec", [Compression.ZLIB, Compression.ZSTD])
def test_frames_that_would_hardly_shrink_are_kept_and_those_after_them_are_compressed(codec: Compression):
    """A reader would pay for a few bytes; one such frame says nothing of what follows."""
    assert len(compress(NEARLY_NOISE, codec=codec, block_size=BLOCK).data) == len(NEARLY_NOISE) + 4 * 3
    text = bytes(1000).join([TEXT] * 12)[:BLOCK]
    alone = compress(text, codec=codec, block_size=BLOCK).data
    assert len(alone) < BLOCK / 2
    assert compress(NEARLY_NOISE + text, codec=codec, block_size=BLOCK).data.endswith(alone)


def test_without_codec_the_bytes_are_the_stream():
    stream = compress(TEXT, codec=Compression.NONE, block_size=1000)
    assert stream.data == TEXT
    assert stream.position(1234) == (1234,)


def test_no_frame_is_longer_than_its_header_can_say():
    data = bytes((1 << 23) + 10)
    stream = compress(data, codec=Compression.SNAPPY, block_size=1 << 24)
    assert decompress(stream.data, codec=Compression.SNAPPY, block_size=1 << 23) == data
    assert stream.position(len(data))[1] == 11


def test_lzo_is_refused():
    with pytest.raises(ValueError, match="LZO compression is not supported"):
        compress(b"", codec=Compression.LZO, block_size=1000)
