"""Reads delete events in key ranges that each fit into memory."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc.merge.events import Check, KeyRange, checked, unchecked
from compaction_operator.orc.merge.keys import Keys, SortedKeys, in_range, valid_write_ids
from compaction_operator.orc.merge.source import DELETE, Source, Stripe

_MEMORY_PER_EVENT = 200
"""Bytes of memory per event, including the copies of its key that sorting makes."""

_BLOCK = 1 << 18
"""Most events of a stripe that are decoded at once: a stripe may hold more than fit into memory."""

_SAMPLES = 4
"""Samples per stripe and range, which determine the cuts; a range exceeds the limit by at most a quarter."""


def delete_windows(
    sources: Sequence[Source],
    keys: KeyRange,
    write_ids: ValidWriteIdList,
    *,
    memory: int,
    check: Check = unchecked,
) -> Iterator[tuple[KeyRange, SortedKeys]]:
    """Yield ranges that cover `keys`, in order, each with its valid delete events, sorted and without duplicates.

    The events of a range take at most about `memory` bytes. Their size on disk is no estimate, as regular keys take
    almost no space there. Raises OrcError for a file that cannot be read or holds other events, and what `check`
    raises.
    """
    stripes = [stripe for source in sources for stripe in source.stripes() if stripe.rows and stripe.touches(keys)]
    limit = max(1, memory // _MEMORY_PER_EVENT)
    for range_ in _ranges(stripes, keys, limit=limit, check=check):
        blocks = (
            block.where(valid_write_ids(block.current, write_ids))
            for stripe in stripes
            if stripe.touches(range_)
            for block in _events(stripe, range_, size=min(_BLOCK, limit), check=check)
        )
        yield range_, SortedKeys.of(blocks)


def _ranges(stripes: Sequence[Stripe], keys: KeyRange, *, limit: int, check: Check) -> list[KeyRange]:
    """Cut a range into ranges of at most about `limit` events."""
    if sum(stripe.rows for stripe in stripes) <= limit:
        return [keys]
    step = max(1, limit // (_SAMPLES * len(stripes)))
    size = step * max(1, min(_BLOCK, limit) // step)
    samples = Keys.concatenate(
        [
            block[np.arange(0, len(block), step)]
            for stripe in stripes
            for block in _events(stripe, keys, size=size, check=check)
        ]
    )
    every = max(1, limit // step - len(stripes))
    cuts = samples[samples.order()][every::every]
    # one row may have several events, so several cuts may have its ROW__ID
    bounds = [keys.after, *dict.fromkeys(cuts.row(index) for index in range(len(cuts))), keys.to]
    return [KeyRange(after, to) for after, to in itertools.pairwise(bounds)]


def _events(stripe: Stripe, range_: KeyRange, *, size: int, check: Check) -> Iterator[Keys]:
    """Yield a stripe's events in a range, at most `size` at a time."""
    check()
    with stripe.open() as opened:
        for keys in checked(opened.key_blocks(operation=DELETE, size=size), check):
            yield keys.where(in_range(keys, range_))
