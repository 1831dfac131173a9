"""Checksums of stripes, by which what is in a file is compared with what was written or read."""

from collections.abc import Iterable
from typing import BinaryIO

from isal import isal_zlib

from compaction_operator.orc.file.tail import MAGIC, Tail
from compaction_operator.orc.spec import OrcError
from compaction_operator.storage import read_pieces


def checksum_of(pieces: Iterable[bytes | memoryview]) -> int:
    """Return the CRC-32 of pieces of bytes that follow each other."""
    checksum = 0
    for piece in pieces:
        checksum = isal_zlib.crc32(piece, checksum)
    return checksum


def tail_checksum(tail: Tail) -> int:
    """Return the CRC-32 of what follows a file's stripes. Raises OSError if it cannot be read."""
    start = sum(tail.extent(len(tail.stripe_rows) - 1)) if tail.stripe_rows else len(MAGIC)
    with tail.file.open() as file:
        return checksum_of(read_pieces(file, offset=start, length=tail.size - start))


def stripe_checksum(file: BinaryIO, tail: Tail, index: int, *, copy_to: BinaryIO | None = None) -> int:
    """Read a stripe, append its bytes to another file if there is one, and return their CRC-32.

    Raises OrcError with the path if the file ends before, OSError if one of the files cannot be read or written.
    """
    offset, length = tail.extent(index)
    checksum = done = 0
    for piece in read_pieces(file, offset=offset, length=length):
        checksum = isal_zlib.crc32(piece, checksum)
        done += len(piece)
        if copy_to:
            copy_to.write(piece)
    if done < length:
        raise OrcError(tail.path, "it ends within a stripe")
    return checksum
