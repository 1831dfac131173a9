"""Concatenates the stripes of several files into one file, byte for byte."""

from collections.abc import Sequence

from compaction_operator.orc.file import OrcWriter, StripeLayout, can_copy, read_tail
from compaction_operator.orc.merge.bucket_metadata import acid_metadata, key_index
from compaction_operator.orc.merge.events import Check, MergeResult, checked, unchecked
from compaction_operator.orc.spec import OrcError


def stitch_parts(parts: Sequence[MergeResult], output: str, *, check: Check = unchecked) -> int:
    """Write the stripes of all parts of one bucket, given in key order, to one ACID file; return its size in bytes.

    All parts have the same layout. Raises OrcError, and leaves no output, for a part with another layout and for a
    part that cannot be read, and if `output` exists. What `check` raises ends it in the same way.
    """
    tails = [read_tail(part.output) for part in parts]
    if not tails:
        raise OrcError(output, "there is no part to take stripes from")
    lasts = [last for tail in tails for last in key_index(tail) or []]
    inserts, deletes = sum(part.rows_out for part in parts), sum(part.delete_events_out for part in parts)
    layout = StripeLayout(
        types=tails[0].types,
        compression=tails[0].compression,
        block_size=max(tail.block_size for tail in tails),
        calendar=tails[0].footer.calendar,
        bloom_filters={},
        row_index_stride=tails[0].footer.row_index_stride,
    )
    with OrcWriter(output, layout) as writer:
        for tail in tails:
            with tail.file.open() as file:
                for index in checked(range(len(tail.footer.stripes)), check):
                    if not can_copy(tail, index, layout):
                        raise OrcError(
                            tail.path, f"the layout of its stripe {index} differs from that of {tails[0].path}"
                        )
                    writer.copy_stripe(file, tail, index)
        return writer.finish(acid_metadata(lasts, inserts=inserts, deletes=deletes))
