"""Reads and checks the tail of an ORC file."""

import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO

import pyarrow as pa
from google.protobuf.message import DecodeError

from compaction_operator.acid.names import INT64_MAX
from compaction_operator.orc.encoding import DEFAULT_BLOCK_SIZE, decompress
from compaction_operator.orc.spec import Compression, OrcError, schema
from compaction_operator.orc.spec.messages import Footer, Metadata, PostScript
from compaction_operator.storage import StoredFile, look_up

MAGIC = b"ORC"
"""The first bytes of a file, repeated in its postscript."""

_VERSIONS = frozenset({(), (0, 11), (0, 12)})
"""The supported format versions; old Hive wrote none. UNSTABLE-PRE-2.0 encodes decimals differently."""


@dataclass(frozen=True)
class Tail:
    """The parsed tail of one file.

    `postscript` and `footer` are messages of the ORC specification. `metadata` holds the stripes' statistics as
    stored. `file` is the one that was looked up: on S3 all its ranges are of the version with this tail.
    """

    path: str
    file: StoredFile
    size: int
    postscript: Any
    footer: Any
    metadata: bytes

    @property
    def compression(self) -> Compression:
        """The codec of the file."""
        return Compression(self.postscript.compression)

    @property
    def block_size(self) -> int:
        """The largest plain size of one compression frame."""
        return int(self.postscript.compression_block_size) or DEFAULT_BLOCK_SIZE

    @cached_property
    def tree(self) -> schema.TypeTree:
        """The type tree, which files with equal ones share."""
        return schema.type_tree(self.footer.types)

    @property
    def types(self) -> Sequence[Any]:
        """The types of the tree, in the order of column ids."""
        return self.tree.types

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.footer.number_of_rows)

    @cached_property
    def stripe_statistics(self) -> Sequence[Any]:
        """The StripeStatistics messages of the file's metadata. Raises ValueError, zlib.error or DecodeError."""
        plain = decompress(self.metadata, codec=self.compression, block_size=self.block_size)
        return list(Metadata.FromString(plain).stripe_stats)

    @cached_property
    def stripe_rows(self) -> list[int]:
        """The number of rows of each stripe."""
        return [int(stripe.number_of_rows) for stripe in self.footer.stripes]

    def footer_extent(self, index: int) -> tuple[int, int]:
        """Return the offset and the length of a stripe's footer in bytes."""
        stripe = self.footer.stripes[index]
        return int(stripe.offset + stripe.index_length + stripe.data_length), int(stripe.footer_length)

    def extent(self, index: int) -> tuple[int, int]:
        """Return the offset and the length of a stripe in bytes."""
        stripe = self.footer.stripes[index]
        return int(stripe.offset), int(stripe.index_length + stripe.data_length + stripe.footer_length)

    @property
    def user_metadata(self) -> dict[str, bytes]:
        """The file's user metadata by name."""
        return {item.name: item.value for item in self.footer.metadata}


def read_tail(path: str) -> Tail:
    """Return the tail of the file at a path.

    Raises OrcError, naming the file, if it is missing, not ORC, damaged, truncated, encrypted, compressed with LZO, or
    of an unsupported version.
    """
    try:
        stored = look_up(path)
        with stored.open() as file:
            return _parse(path, stored, file)
    except (OSError, ValueError, zlib.error, DecodeError, pa.ArrowException) as error:
        raise OrcError(path, f"not a readable ORC file: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Return the first line of an error's text without the path, which OrcError already contains."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).partition("\n")[0] or type(error).__name__


def _parse(path: str, stored: StoredFile, file: BinaryIO) -> Tail:
    size = file.seek(0, io.SEEK_END)
    postscript, length = _read_postscript(size, file)
    compression = Compression(postscript.compression)
    if compression is Compression.LZO:
        raise ValueError("LZO compression is not supported")
    block_size = int(postscript.compression_block_size) or DEFAULT_BLOCK_SIZE
    footer_start = size - 1 - length - postscript.footer_length
    metadata_start = footer_start - postscript.metadata_length
    if metadata_start < len(MAGIC):
        raise ValueError("its tail is longer than the file")
    file.seek(metadata_start)
    metadata = file.read(postscript.metadata_length)
    section = file.read(postscript.footer_length)
    footer = Footer.FromString(decompress(section, codec=compression, block_size=block_size))
    _check_footer(footer, metadata_start)
    return Tail(path, stored, size, postscript, footer, metadata)


def _read_postscript(size: int, file: BinaryIO) -> tuple[Any, int]:
    """Return the postscript and its length, which the file's last byte holds."""
    if size <= len(MAGIC):
        raise ValueError(f"it has {size} bytes")
    file.seek(max(0, size - 256))
    end = file.read()
    length = end[-1]
    postscript = PostScript.FromString(end[-1 - length : -1])
    if length >= len(end) or postscript.magic != MAGIC.decode():
        raise ValueError("it does not end with an ORC postscript")
    if tuple(postscript.version) not in _VERSIONS:
        raise ValueError(f"it has version {'.'.join(map(str, postscript.version))} of ORC, not 0.11 or 0.12")
    return postscript, length


def _check_footer(footer: Any, metadata_start: int) -> None:
    """Raise ValueError for a footer that is unsupported or contradicts itself or the file's size."""
    if footer.HasField("encryption"):
        raise ValueError("it is encrypted")
    if not footer.types:
        raise ValueError("it has no types")
    ends = (one.offset + one.index_length + one.data_length + one.footer_length for one in footer.stripes)
    if max(ends, default=0) > metadata_start:
        raise ValueError("a stripe ends after the file's content")
    if sum(stripe.number_of_rows for stripe in footer.stripes) != footer.number_of_rows:
        raise ValueError("the row counts of its stripes do not add up to that of the file")
    if footer.number_of_rows > INT64_MAX:
        raise ValueError("it has more rows than Java can count")
