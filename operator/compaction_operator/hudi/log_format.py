"""The headers of a log file's blocks, read without a JVM: Hudi's log format of version 1 (HoodieLogFormatWriter).

A block is `#HUDI#`, its size, the format's version, its kind, its header (a map), its content with a size of its own, a
footer, and its size once more. Numbers are big-endian. Contents are skipped except for deleted keys.
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from compaction_operator.errors import OperatorError
from compaction_operator.hudi.deletes import DeletesError, read_deletes
from compaction_operator.hudi.log_blocks import UNKNOWN

MAGIC = b"#HUDI#"
VERSION = 1

COMMAND, DELETE, AVRO = 0, 1, 3
KINDS = frozenset({COMMAND, DELETE, 3, 4, 5, 6})
"""The kinds of blocks by their numbers in HoodieLogBlockType; the rest holds data or changes. 2 is a corrupt block:
Hudi's reader makes it of what it cannot read, and no writer writes it."""

INSTANT_TIME, TARGET_INSTANT_TIME, SCHEMA, COMPACTED_BLOCK_TIMES, IS_PARTIAL = 0, 1, 2, 4, 7
"""The keys of a header by their numbers in HeaderMetadataType."""

LARGEST_DELETES = 8 << 20
"""Bytes of the largest content that is read for its header: some 200,000 keys, which take less than a second."""

_START = struct.Struct(">6sqiii")
_ENTRY = struct.Struct(">ii")
_SIZE = struct.Struct(">q")

_BEFORE_SIZE = len(MAGIC) + _SIZE.size
_LARGEST_HEADER = 64 << 20
"""Bytes of one value of a header. NB: the schema is one."""


class LogFormatError(OperatorError):
    """A log file is not as HoodieLogFormatWriter writes it, such as one that was cut off. Ask Hudi's own reader."""


@dataclass(frozen=True)
class Header:
    """The relevant fields of a block's header. `target` is the instant that it rolls back, empty if there is none.

    `deletes` are the types of the ordering values of its deleted keys, as places among the types of HoodieDeleteRecord:
    int for deletes by operation. It holds UNKNOWN alone where the keys are too many or cannot be read.
    """

    is_command: bool
    deletes: frozenset[int]
    instant: str
    replaces: frozenset[str]
    partial: bool
    target: str


@dataclass(frozen=True)
class RawBlock:
    """A block as it lies in its file: its kind, the Avro schema of its records, and where its content lies."""

    header: Header
    kind: int
    schema: str
    position: int
    length: int


def read_headers(file: BinaryIO) -> tuple[tuple[Header, ...], int]:
    """Return the headers of an open log file's blocks, in their order, and the file's size in bytes.

    Raises LogFormatError unless the file is whole, and OSError.
    """
    return tuple(block.header for block in read_blocks(file)), file.seek(0, io.SEEK_END)


def read_blocks(file: BinaryIO) -> Iterator[RawBlock]:
    """Yield the blocks of an open log file in their order. The position in the file does not matter between them.

    Raises LogFormatError where the file is not whole, and OSError.
    """
    size = file.seek(0, io.SEEK_END)
    position = 0
    while position < size:
        file.seek(position)
        magic, length, version, kind, count = _START.unpack(_read(file, _START.size))
        if magic != MAGIC or version != VERSION or kind not in KINDS or count < 0:
            raise LogFormatError(f"no block of a known kind at {position}")
        end = position + _BEFORE_SIZE + length
        if end > size:
            raise LogFormatError(f"the file ends within the block at {position}")
        entries = dict(_entry(file) for _ in range(count))
        if file.tell() > end - 2 * _SIZE.size:
            raise LogFormatError(f"the header of the block at {position} is longer than the block")
        (content,) = _SIZE.unpack(_read(file, _SIZE.size))
        start = file.tell()
        if not 0 <= content <= end - start - _SIZE.size:
            raise LogFormatError(f"the content of the block at {position} is longer than the block")
        types = _ordering_types(file, content) if kind == DELETE else frozenset[int]()
        file.seek(end - _SIZE.size)
        if _SIZE.unpack(_read(file, _SIZE.size)) != (length + len(MAGIC),):
            raise LogFormatError(f"the block at {position} has two sizes")
        yield RawBlock(_header(kind, entries, types), kind, entries.get(SCHEMA, ""), start, content)
        position = end


def _entry(file: BinaryIO) -> tuple[int, str]:
    key, length = _ENTRY.unpack(_read(file, _ENTRY.size))
    if not 0 <= length <= _LARGEST_HEADER:
        raise LogFormatError(f"a value of {length} bytes in a header")
    return key, _read(file, length).decode("utf-8", "replace")


def _header(kind: int, entries: dict[int, str], deletes: frozenset[int]) -> Header:
    return Header(
        is_command=kind == COMMAND,
        deletes=deletes,
        instant=entries.get(INSTANT_TIME, ""),
        replaces=frozenset(filter(None, entries.get(COMPACTED_BLOCK_TIMES, "").split(","))),
        partial=entries.get(IS_PARTIAL, "").lower() == "true",
        target=entries.get(TARGET_INSTANT_TIME, "") if kind == COMMAND else "",
    )


def _ordering_types(file: BinaryIO, length: int) -> frozenset[int]:
    """Return the types of the ordering values of all deleted keys in a content, which begins where `file` is.

    NB: one block may hold deletes of two types, such as those by operation and by flag of one commit.
    """
    try:
        return frozenset(delete.type for delete in read_deletes(file, length, largest=LARGEST_DELETES))
    except DeletesError:
        return frozenset({UNKNOWN})


def _read(file: BinaryIO, length: int) -> bytes:
    found = file.read(length)
    if len(found) != length:
        raise LogFormatError("the file ends within a block")
    return found
