"""Whole ORC files: tails and stripes to read, copy and write, with their statistics and indexes."""

from compaction_operator.orc.file.checksum import stripe_checksum, tail_checksum
from compaction_operator.orc.file.decode import StripeReader, joined_column
from compaction_operator.orc.file.file_writer import OrcDraft, OrcWriter
from compaction_operator.orc.file.stripe_builder import StoredColumn, StripeBuilder, StripeLayout
from compaction_operator.orc.file.stripe_copy import can_copy, stripe_footer, stripe_statistics
from compaction_operator.orc.file.tail import Tail, read_tail

__all__ = [
    "OrcDraft",
    "OrcWriter",
    "StoredColumn",
    "StripeBuilder",
    "StripeLayout",
    "StripeReader",
    "Tail",
    "can_copy",
    "joined_column",
    "read_tail",
    "stripe_checksum",
    "stripe_footer",
    "stripe_statistics",
    "tail_checksum",
]
