"""Codecs for the streams of a stripe: run lengths, bit packing, compression, columns and Bloom filters."""

from compaction_operator.orc.encoding.bloom import UTF8_UTC, bloom_columns, bloom_filter, fpp_of
from compaction_operator.orc.encoding.codec import (
    DEFAULT_BLOCK_SIZE,
    LARGEST_FRAME,
    CompressedStream,
    compress,
    decompress,
)
from compaction_operator.orc.encoding.columns import StripeStreams, alike_in, decode_column, present_rows
from compaction_operator.orc.encoding.encode import EncodedColumn, PlainStream, encode_column, encode_node
from compaction_operator.orc.encoding.integer_runs import IntegerRuns, column_blocks, column_runs

__all__ = [
    "DEFAULT_BLOCK_SIZE",
    "LARGEST_FRAME",
    "UTF8_UTC",
    "CompressedStream",
    "EncodedColumn",
    "IntegerRuns",
    "PlainStream",
    "StripeStreams",
    "alike_in",
    "bloom_columns",
    "bloom_filter",
    "column_blocks",
    "column_runs",
    "compress",
    "decode_column",
    "decompress",
    "encode_column",
    "encode_node",
    "fpp_of",
    "present_rows",
]
