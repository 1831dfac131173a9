"""Concatenates the stripes of several files into one file, byte for byte."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from compaction_operator.orc.file.file_writer import OrcWriter
from compaction_operator.orc.file.stripe_builder import StripeLayout
from compaction_operator.orc.file.stripe_copy import can_copy
from compaction_operator.orc.file.tail import read_tail
from compaction_operator.orc.merge.bucket_metadata import acid_metadata
from compaction_operator.orc.merge.events import MergeResult
from compaction_operator.orc.merge.sketch import key_index
from compaction_operator.orc.spec.errors import OrcError


def stitch_parts(parts: Sequence[MergeResult], output: str) -> int:
    """Concatenate the parts of one bucket, given in key order, into one ACID file; return its size in bytes.

    Raises OrcError, and leaves no output, for a part that cannot be read or copied.
    """
    lasts = [last for part in parts for last in key_index(read_tail(part.output)) or []]
    inserts, deletes = sum(part.rows_out for part in parts), sum(part.delete_events_out for part in parts)
    metadata = acid_metadata(lasts, inserts=inserts, deletes=deletes)
    return stitch([part.output for part in parts], output, user_metadata=metadata)


def stitch(parts: Sequence[str], output: str, *, user_metadata: Mapping[str, bytes]) -> int:
    """Write the stripes of all parts, in order, to `output`, which must not exist; return its size in bytes.

    All parts have the same layout, such as the key ranges of one bucket. Raises OrcError, and leaves no output, for a
    part with another layout and for a part that cannot be read.
    """
    tails = [read_tail(path) for path in parts]
    if not tails:
        raise OrcError(output, "there is no part to take stripes from")
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
            with Path(tail.path).open("rb") as file:
                for index in range(len(tail.footer.stripes)):
                    if not can_copy(tail, index, layout):
                        raise OrcError(tail.path, f"the layout of its stripe {index} differs from that of {parts[0]}")
                    writer.copy_stripe(file, tail, index)
        return writer.finish(user_metadata)
