"""Summarises a bucket file from its tail alone: enough to cut its rows into key ranges."""

from collections.abc import Sequence

from compaction_operator.orc.file import read_tail
from compaction_operator.orc.merge.bucket_metadata import key_index
from compaction_operator.orc.merge.events import FileSketch, RowId, StripeSketch


def sketch(path: str) -> FileSketch:
    """Return the sketch of the file at a local path; raise OrcError if its tail cannot be read."""
    tail = read_tail(path)
    lasts: Sequence[RowId | None] = key_index(tail) or [None] * len(tail.footer.stripes)
    stripes = tuple(
        StripeSketch(rows=stripe.number_of_rows, bytes=stripe.index_length + stripe.data_length, last=last)
        for stripe, last in zip(tail.footer.stripes, lasts, strict=True)
    )
    return FileSketch(rows=tail.rows, bytes=tail.size, stripes=stripes)
