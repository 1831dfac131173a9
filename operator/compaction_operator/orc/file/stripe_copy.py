"""Decides which stripes may be copied byte for byte into another file, and reads their statistics."""

import zlib
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from compaction_operator.orc.encoding import decompress
from compaction_operator.orc.file.statistics import were_collected
from compaction_operator.orc.file.stripe_builder import StripeLayout
from compaction_operator.orc.file.tail import Tail
from compaction_operator.orc.spec import OrcError, StreamKind, schema
from compaction_operator.orc.spec.messages import StripeFooter

JAVA = 0
"""The writer code of ORC's Java writer. Other writers number their versions differently; the output claims Java's."""

_OLDEST_WRITER = 6
"""In files of older writers, statistics and Bloom filters of timestamps have another meaning (ORC_135)."""


def can_copy(tail: Tail, index: int, layout: StripeLayout) -> bool:
    """Return whether a stripe may be copied unchanged into a file of this layout.

    Readers must interpret the stripe as before. It must have the statistics, row index and Bloom filters that readers
    of the new file expect. Raises OrcError for a damaged file.
    """
    footer = tail.footer
    same = (
        tail.compression == layout.compression
        and tail.block_size <= layout.block_size
        and footer.calendar == layout.calendar
        and footer.row_index_stride == layout.row_index_stride
        and footer.writer == JAVA
        and tail.postscript.writer_version >= _OLDEST_WRITER
        and schema.same(tail.types, 0, layout.types, 0)
    )
    return same and _has_statistics(tail, index) and _has_indexes(tail, index, layout.bloom_filters)


def stripe_statistics(tail: Tail, index: int) -> Any:
    """Return the StripeStatistics message of a stripe; raise OrcError if the file has no readable one."""
    try:
        return tail.stripe_statistics[index]
    except (ValueError, IndexError, zlib.error, DecodeError) as error:
        raise OrcError(tail.path, f"the statistics of stripe {index} cannot be read: {error}") from error


def _has_statistics(tail: Tail, index: int) -> bool:
    """Return whether the statistics cover this stripe's rows and every column."""
    if not tail.metadata:
        return False
    statistics = stripe_statistics(tail, index)
    rows = tail.footer.stripes[index].number_of_rows
    return len(statistics.column_stats) == len(tail.types) and were_collected(statistics, rows)


def _has_indexes(tail: Tail, index: int, bloom_filters: Mapping[int, float]) -> bool:
    """Return whether every column has a row index, and every column of `bloom_filters` a Bloom filter."""
    streams = stripe_footer(tail, index).streams
    indexed = {stream.column for stream in streams if stream.kind == StreamKind.ROW_INDEX}
    filtered = {stream.column for stream in streams if stream.kind == StreamKind.BLOOM_FILTER_UTF8}
    return len(indexed) == len(tail.types) and filtered >= set(bloom_filters)


def stripe_footer(tail: Tail, index: int) -> Any:
    """Return the StripeFooter message of a stripe; raise OrcError if it cannot be read."""
    start, length = tail.footer_extent(index)
    try:
        with tail.file.open(read_ahead=False) as file:
            file.seek(start)
            section = file.read(length)
        return StripeFooter.FromString(decompress(section, codec=tail.compression, block_size=tail.block_size))
    except (OSError, ValueError, zlib.error, DecodeError) as error:
        raise OrcError(tail.path, f"the footer of stripe {index} cannot be read: {error}") from error
