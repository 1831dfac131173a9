"""The headers of a log file's blocks, read without a JVM: Hudi's log format of version 1 (HoodieLogFormatWriter).

A block is `#HUDI#`, its size, the format's version, its kind, its header (a map), its content with a size of its own, a
footer, and its size once more. Numbers are big-endian. Contents are skipped except for the first deleted key.
"""

import io
import struct
from dataclasses import dataclass
from typing import BinaryIO

from compaction_operator.errors import OperatorError
from compaction_operator.hudi.log_blocks import BY_FLAG_AS_INT, UNKNOWN

MAGIC = b"#HUDI#"
VERSION = 1

COMMAND, DELETE = 0, 1
KINDS = frozenset({COMMAND, DELETE, 3, 4, 5, 6})
"""The kinds of blocks by their numbers in HoodieLogBlockType; the rest holds data or changes. 2 is a corrupt block:
Hudi's reader makes it of what it cannot read, and no writer writes it."""

DELETES_VERSION = 3
"""The version of a delete block's content since 0.14."""

INT = 2
"""The place of an int among the types of a deleted key's ordering value."""

INSTANT_TIME, TARGET_INSTANT_TIME, COMPACTED_BLOCK_TIMES, IS_PARTIAL = 0, 1, 4, 7
"""The keys of a header by their numbers in HeaderMetadataType."""

_START = struct.Struct(">6sqiii")
_ENTRY = struct.Struct(">ii")
_SIZE = struct.Struct(">q")
_DELETES = struct.Struct(">qii")

_BEFORE_SIZE = len(MAGIC) + _SIZE.size
_LARGEST_HEADER = 64 << 20
"""Bytes of one value of a header. NB: the schema is one."""


class LogFormatError(OperatorError):
    """A log file is not as HoodieLogFormatWriter writes it, such as one that was cut off. Ask Hudi's own reader."""


@dataclass(frozen=True)
class Header:
    """The relevant fields of a block's header. `target` is the instant that it rolls back, empty if there is none.

    `deletes` is None for a block without deleted keys. Otherwise it is the type of the ordering value of its first one,
    as a place among the types that HoodieDeleteRecord allows: a commit has one type, int for deletes by operation.
    UNKNOWN is the type of what another version than DELETES_VERSION holds.
    """

    is_command: bool
    deletes: int | None
    instant: str
    replaces: frozenset[str]
    partial: bool
    target: str


def read_headers(file: BinaryIO) -> tuple[tuple[Header, ...], int]:
    """Return the headers of an open log file's blocks, in their order, and the file's size in bytes.

    Raises LogFormatError unless the file is whole, and OSError.
    """
    size = file.seek(0, io.SEEK_END)
    found, position = [], 0
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
        found.append(_header(kind, entries, _ordering_type(file, end) if kind == DELETE else None))
        file.seek(end - _SIZE.size)
        if _SIZE.unpack(_read(file, _SIZE.size)) != (length + len(MAGIC),):
            raise LogFormatError(f"the block at {position} has two sizes")
        position = end
    return tuple(found), size


def _entry(file: BinaryIO) -> tuple[int, str]:
    key, length = _ENTRY.unpack(_read(file, _ENTRY.size))
    if not 0 <= length <= _LARGEST_HEADER:
        raise LogFormatError(f"a value of {length} bytes in a header")
    return key, _read(file, length).decode("utf-8", "replace")


def _header(kind: int, entries: dict[int, str], deletes: int | None) -> Header:
    return Header(
        is_command=kind == COMMAND,
        deletes=deletes,
        instant=entries.get(INSTANT_TIME, ""),
        replaces=frozenset(filter(None, entries.get(COMPACTED_BLOCK_TIMES, "").split(","))),
        partial=entries.get(IS_PARTIAL, "").lower() == "true",
        target=entries.get(TARGET_INSTANT_TIME, "") if kind == COMMAND else "",
    )


def _ordering_type(file: BinaryIO, end: int) -> int | None:
    """Return the type of the first deleted key's ordering value, None without a key. `file` is right after a header.

    An int is that of a delete by operation if it is 0, Hudi's default, and of one by flag otherwise (BY_FLAG_AS_INT).

    A content of version 3 is an Avro record (HoodieDeleteRecordList): a list of key, partition and ordering value, each
    of them one of several types.
    """
    _, version, _ = _DELETES.unpack(_read(file, _DELETES.size))
    if version != DELETES_VERSION:
        return UNKNOWN
    if (count := _number(file)) < 0:
        _number(file)
    if not count:
        return None
    for _ in ("recordKey", "partitionPath"):
        if _number(file):
            length = _number(file)
            if not 0 <= length <= end - file.tell():
                raise LogFormatError(f"a deleted key of {length} bytes")
            file.seek(length, io.SEEK_CUR)
    kind = _number(file)
    return BY_FLAG_AS_INT if kind == INT and _number(file) else kind


def _number(file: BinaryIO) -> int:
    """Return a number of Avro's: seven bits in each byte, the sign in the last bit."""
    found = shift = 0
    while True:
        (byte,) = _read(file, 1)
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1)
        if shift > 63:
            raise LogFormatError("a number of more than 64 bits")


def _read(file: BinaryIO, length: int) -> bytes:
    found = file.read(length)
    if len(found) != length:
        raise LogFormatError("the file ends within a block")
    return found
