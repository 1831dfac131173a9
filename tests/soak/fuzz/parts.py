"""An ORC file taken apart into its messages and plain streams, and put together again, true or not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.harness.orctail import frame_plain

from compaction_operator.orc.encoding import codec
from compaction_operator.orc.file.decode import open_stripe
from compaction_operator.orc.file.tail import read_tail
from compaction_operator.orc.spec.messages import Compression, Metadata

MAGIC = b"ORC"


@dataclass
class Part:
    """One stripe: its footer, and its streams as they are in the file."""

    footer: Any
    streams: list[bytes]
    rows: int


@dataclass
class Parts:
    """A whole file. The messages are its own copies."""

    postscript: Any
    footer: Any
    metadata: Any
    stripes: list[Part]

    @property
    def compression(self) -> Compression:
        """The codec of the file."""
        return Compression(self.postscript.compression)

    @property
    def block_size(self) -> int:
        """The largest plain size of a frame."""
        return self.postscript.compression_block_size or codec.DEFAULT_BLOCK_SIZE

    def framed(self, plain: bytes) -> bytes:
        """A section of the file with these plain bytes."""
        return frame_plain(plain, codec=self.compression, block_size=self.block_size)

    def plain(self, section: bytes) -> bytes:
        """The plain bytes of a section of the file."""
        return codec.decompress(section, codec=self.compression, block_size=self.block_size)


def take_apart(path: Path) -> Parts:
    """Return the parts of a sound file."""
    tail = read_tail(str(path))
    metadata = codec.decompress(tail.metadata, codec=tail.compression, block_size=tail.block_size)
    stripes = []
    with path.open("rb") as file:
        for index, information in enumerate(tail.footer.stripes):
            reader = open_stripe(file, tail, index)
            file.seek(information.offset)
            streams = [file.read(stream.length) for stream in reader.footer.streams]
            stripes.append(Part(reader.footer, streams, reader.rows))
    return Parts(tail.postscript, tail.footer, Metadata.FromString(metadata), stripes)


def stripe_section(parts: Parts) -> bytes:
    """Return the file up to its last stripe, and tell the footer where the stripes are."""
    content = bytearray(MAGIC)
    del parts.footer.stripes[:]
    for part in parts.stripes:
        data, footer = b"".join(part.streams), parts.framed(part.footer.SerializeToString())
        parts.footer.stripes.add(
            offset=len(content),
            index_length=0,
            data_length=len(data),
            footer_length=len(footer),
            number_of_rows=part.rows,
        )
        content += data + footer
    parts.footer.number_of_rows = sum(part.rows for part in parts.stripes) % (1 << 64)
    return bytes(content)


def close(parts: Parts, content: bytes, metadata: bytes) -> bytes:
    """Put the tail behind the stripes, and tell the postscript how long it is."""
    footer = parts.framed(parts.footer.SerializeToString())
    parts.postscript.metadata_length, parts.postscript.footer_length = len(metadata), len(footer)
    return content + metadata + footer


def ended(content: bytes, postscript: Any) -> bytes:
    """Put the postscript behind the rest of the file."""
    written = postscript.SerializeToString()
    return bytes(content + written + bytes([len(written) & 0xFF]))
