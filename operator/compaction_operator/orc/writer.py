"""A new ACID bucket file: written by Arrow, then given the type tree and user metadata that Hive wants."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po

from compaction_operator.orc import schema
from compaction_operator.orc.errors import OrcError
from compaction_operator.orc.events import EventKind
from compaction_operator.orc.keys import Keys
from compaction_operator.orc.messages import PROLEPTIC_GREGORIAN, Compression
from compaction_operator.orc.source import Source
from compaction_operator.orc.tail import read_tail, rewrite_tail

STRIPE_BYTES = 64 * 1024 * 1024
_BUFFER_BYTES = 64 * 1024
ROW_INDEX_STRIDE = 10_000
DICTIONARY_THRESHOLD = 0.8
_ARROW_CODECS = {Compression.NONE: "uncompressed"} | {
    codec: codec.name.lower() for codec in (Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
}


@dataclass(frozen=True, slots=True)
class Layout:
    """What an output takes over from its inputs."""

    types: Sequence[Any]
    arrow_schema: pa.Schema
    compression: Compression
    block_size: int
    calendar: int


def common_layout(sources: Sequence[Source], *, output: str, same_rows: bool = True) -> Layout:
    """Return the layout that all inputs share; OrcError names the first file and column that differ.

    With `same_rows` off (delete events, whose row is null) the type tree is that of the last file.
    The codec is that of the largest compressed input: Hive's minor compaction writes plain files.
    """
    if not sources:
        raise OrcError(output, "there is no file to take the columns from")
    first, last = sources[0], sources[-1]
    if same_rows:
        _check_same(sources)
    by_size = sorted(sources, key=lambda source: (source.tail.compression != Compression.NONE, source.tail.size))
    return Layout(
        types=last.types,
        arrow_schema=last.arrow_schema,
        compression=by_size[-1].tail.compression,
        block_size=_rounded(max(source.tail.block_size for source in sources)),
        calendar=first.tail.footer.calendar,
    )


def _rounded(block_size: int) -> int:
    """The block size as the writer takes it: a multiple of its buffers'."""
    return -(-block_size // _BUFFER_BYTES) * _BUFFER_BYTES


def _check_same(sources: Sequence[Source]) -> None:
    first = sources[0]
    for other in sources[1:]:
        column = schema.difference(first.types, other.types)
        if column:
            raise OrcError(other.path, f"column {column} is not as in {Path(first.path).parent.name}")
        if schema.has_dates(first.types) and _is_proleptic(other) != _is_proleptic(first):
            raise OrcError(other.path, f"its dates are of another calendar than those of {first.path}")


def _is_proleptic(source: Source) -> bool:
    """Whether dates count in the proleptic Gregorian calendar; a file that does not say is of the hybrid one."""
    return bool(source.tail.footer.calendar == PROLEPTIC_GREGORIAN)


@contextmanager
def output_file(path: str, layout: Layout) -> Iterator["OutputFile"]:
    """Create a file that must not exist yet; any error removes it again, and one of Arrow becomes an OrcError."""
    try:
        Path(path).open("xb").close()
    except OSError as error:
        raise OrcError(path, f"cannot be created: {error.strerror}") from error
    try:
        yield OutputFile(path, layout)
    except BaseException as error:
        Path(path).unlink(missing_ok=True)
        if isinstance(error, OSError | ValueError | pa.ArrowException):
            raise OrcError(path, f"cannot be written: {str(error).partition(chr(10))[0]}") from error
        raise


class OutputFile:
    """An ACID bucket file being written: some calls of `write`, then `finish`."""

    def __init__(self, path: str, layout: Layout) -> None:
        self._path = path
        self._layout = layout
        self._writer = po.ORCWriter(
            path,
            stripe_size=STRIPE_BYTES,
            compression=_ARROW_CODECS[layout.compression],
            compression_block_size=layout.block_size,
            row_index_stride=ROW_INDEX_STRIDE,
            dictionary_key_size_threshold=DICTIONARY_THRESHOLD,
        )

    def write(self, events: pa.Table) -> None:
        """Append events; they come in the order of their keys."""
        self._writer.write(events)

    def finish(self, keys: Keys, kind: EventKind) -> int:
        """Close the file, whose events have these keys, and give it its tail; return its size.

        Raises OrcError when Arrow wrote another type tree than the inputs have.
        """
        # NB: without any table Arrow's writer would not know the columns of a file of no rows
        self._writer.write(self._layout.arrow_schema.empty_table())
        self._writer.close()
        written = read_tail(self._path)
        column = schema.difference(self._layout.types, written.types, same_encoding=True)
        if column:
            raise OrcError(self._path, f"column {column} was not written with the type that it has in the inputs")
        metadata = acid_metadata(keys, written.stripe_rows, kind)
        rewrite_tail(self._path, types=self._layout.types, user_metadata=metadata, calendar=self._layout.calendar)
        return Path(self._path).stat().st_size


def acid_metadata(keys: Keys, stripe_rows: Iterable[int], kind: EventKind) -> dict[str, bytes]:
    """The user metadata of a file with these keys (Hive's OrcRecordUpdater.KeyIndexBuilder and AcidStats)."""
    ends = np.cumsum(np.fromiter(stripe_rows, np.int64)).tolist()
    index = "".join("{},{},{};".format(*keys.row(end - 1)) for end in ends)
    inserts, deletes = (len(keys), 0) if kind is EventKind.INSERT else (0, len(keys))
    return {
        "hive.acid.key.index": index.encode(),
        "hive.acid.stats": f"{inserts},0,{deletes}".encode(),
        "hive.acid.version": b"2",
    }
