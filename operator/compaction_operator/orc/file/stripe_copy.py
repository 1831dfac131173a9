"""Which stripes may be copied as bytes into another file, and their statistics."""

import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from compaction_operator.orc.encoding.codec import decompress
from compaction_operator.orc.file.statistics import were_collected
from compaction_operator.orc.file.stripe_builder import Layout
from compaction_operator.orc.file.tail import Tail
from compaction_operator.orc.spec import schema
from compaction_operator.orc.spec.errors import OrcError
from compaction_operator.orc.spec.messages import Compression, Metadata, StreamKind, StripeFooter

_JAVA = 0
"""Writers other than ORC's own in Java count their versions otherwise; what the output says is Java's."""

_OLDEST_WRITER = 6
"""With older writers the statistics and bloom filters of timestamps mean something else (ORC_135)."""


def can_copy(tail: Tail, index: int, layout: Layout) -> bool:
    """Whether a stripe may go into a file of this layout as it is: nothing in it would be read in another way, and
    it has the statistics, row index and bloom filters that readers of that file count on.

    Raises OrcError for a damaged file.
    """
    footer = tail.footer
    same = (
        tail.compression == layout.compression
        and tail.block_size <= layout.block_size
        and footer.calendar == layout.calendar
        and footer.row_index_stride == layout.row_index_stride
        and footer.writer == _JAVA
        and tail.postscript.writer_version >= _OLDEST_WRITER
        and schema.same(tail.types, 0, layout.types, 0)
    )
    return same and _has_statistics(tail, index) and _has_indexes(tail, index, layout.bloom_filters)


def stripe_statistics(tail: Tail, index: int) -> Any:
    """The statistics of a stripe, a message of the file; OrcError when the file has none that can be read."""
    try:
        return _statistics(tail.metadata, tail.compression, tail.block_size)[index]
    except (ValueError, IndexError, zlib.error, DecodeError) as error:
        raise OrcError(tail.path, f"the statistics of stripe {index} cannot be read: {error}") from error


@lru_cache(maxsize=4)
def _statistics(metadata: bytes, codec: Compression, block_size: int) -> Sequence[Any]:
    """Parsed once a file: a file of many stripes is asked for each."""
    plain = decompress(metadata, codec=codec, block_size=block_size)
    return tuple(Metadata.FromString(plain).stripe_stats)


def _has_statistics(tail: Tail, index: int) -> bool:
    """Whether they are of this stripe's rows, for each column."""
    if not tail.metadata:
        return False
    statistics = stripe_statistics(tail, index)
    rows = tail.footer.stripes[index].number_of_rows
    return len(statistics.column_stats) == len(tail.types) and were_collected(statistics, rows)


def _has_indexes(tail: Tail, index: int, bloom_filters: Mapping[int, float]) -> bool:
    """Whether each column has a row index, and each of `bloom_filters` a bloom filter."""
    streams = _stripe_footer(tail, index).streams
    indexed = {stream.column for stream in streams if stream.kind == StreamKind.ROW_INDEX}
    filtered = {stream.column for stream in streams if stream.kind == StreamKind.BLOOM_FILTER_UTF8}
    return len(indexed) == len(tail.types) and filtered >= set(bloom_filters)


def _stripe_footer(tail: Tail, index: int) -> Any:
    stripe = tail.footer.stripes[index]
    try:
        with Path(tail.path).open("rb") as file:
            file.seek(stripe.offset + stripe.index_length + stripe.data_length)
            section = file.read(stripe.footer_length)
        return StripeFooter.FromString(decompress(section, codec=tail.compression, block_size=tail.block_size))
    except (OSError, ValueError, zlib.error, DecodeError) as error:
        raise OrcError(tail.path, f"the footer of stripe {index} cannot be read: {error}") from error
