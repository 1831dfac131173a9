"""Rewrites the tail of an ORC file: test files need types and user metadata that pyarrow cannot write."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compaction_operator.orc.file import Tail, read_tail
from compaction_operator.orc.spec import Compression

_MAGIC = b"ORC"
_FRAME_HEADER_BYTES = 3


def rewrite_tail(path: str, *, types: Sequence[Any], user_metadata: Mapping[str, bytes], calendar: int) -> None:
    """Replace the type tree, user metadata and calendar of the file at `path`; its stripes stay as they are.

    The new types must have the same encoding as the old ones (string, char and varchar do). A calendar of 0 keeps the
    file's own. Raises OrcError as `read_tail` does.
    """
    tail = read_tail(path)
    del tail.footer.types[:]
    tail.footer.types.extend(types)
    del tail.footer.metadata[:]
    for name, value in sorted(user_metadata.items()):
        tail.footer.metadata.add(name=name, value=value)
    if calendar:
        tail.footer.calendar = calendar
    write_tail(tail)


def write_tail(tail: Tail) -> None:
    """Write the tail, changed or not, into its file."""
    footer = frame_plain(tail.footer.SerializeToString(), codec=tail.compression, block_size=tail.block_size)
    tail.postscript.metadata_length, tail.postscript.footer_length = len(tail.metadata), len(footer)
    postscript = tail.postscript.SerializeToString()
    end = content_end(read_tail(tail.path))
    with Path(tail.path).open("r+b") as file:
        file.seek(end)
        file.write(tail.metadata + footer + postscript + bytes([len(postscript)]))
        file.truncate()


def content_end(tail: Tail) -> int:
    """Return the offset at which the last stripe ends."""
    ends = (
        stripe.offset + stripe.index_length + stripe.data_length + stripe.footer_length
        for stripe in tail.footer.stripes
    )
    return max(ends, default=len(_MAGIC))


def frame_plain(data: bytes, *, codec: Compression, block_size: int) -> bytes:
    """Return `data` as a section of a file with that codec, in frames marked as not compressed.

    Every reader must accept such frames (ORC specification, "Compression"), so no codec is needed.
    """
    if codec is Compression.NONE:
        return data
    frames = (data[start : start + block_size] for start in range(0, len(data), block_size))
    return b"".join((len(frame) << 1 | 1).to_bytes(_FRAME_HEADER_BYTES, "little") + frame for frame in frames)
