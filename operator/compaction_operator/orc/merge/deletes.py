"""Reads delete events in key ranges that each fit into memory."""

import itertools
from collections.abc import Iterator, Sequence

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc.merge.events import KeyRange
from compaction_operator.orc.merge.keys import Keys, in_range, valid_write_ids
from compaction_operator.orc.merge.source import DELETE, Source, Stripe

_MEMORY_PER_EVENT = 200
"""Bytes of memory per event, including the copies of its key that sorting makes."""

_SAMPLES = 4
"""Samples per stripe and range, which determine the cuts; a range exceeds the limit by at most a quarter."""


def delete_windows(
    sources: Sequence[Source], keys: KeyRange, write_ids: ValidWriteIdList, *, memory: int
) -> Iterator[tuple[KeyRange, Keys]]:
    """Yield ranges that cover `keys`, in order, each with its valid delete events, sorted and without duplicates.

    The events of a range take at most about `memory` bytes. Their size on disk is no estimate, as regular keys take
    almost no space there. Raises OrcError for a file that cannot be read or holds other events.
    """
    stripes = [stripe for source in sources for stripe in source.stripes() if stripe.rows and stripe.touches(keys)]
    for range_ in _ranges(stripes, keys, limit=max(1, memory // _MEMORY_PER_EVENT)):
        parts = (_events(stripe, range_) for stripe in stripes if stripe.touches(range_))
        found = Keys.concatenate([part.where(valid_write_ids(part.current, write_ids)) for part in parts])
        yield range_, found.distinct()


def _ranges(stripes: Sequence[Stripe], keys: KeyRange, *, limit: int) -> list[KeyRange]:
    """Cut a range into ranges of at most about `limit` events."""
    if sum(stripe.rows for stripe in stripes) <= limit:
        return [keys]
    step = max(1, limit // (_SAMPLES * len(stripes)))
    samples = Keys.concatenate([_events(stripe, keys)[::step] for stripe in stripes])
    every = max(1, limit // step - len(stripes))
    cuts = samples[samples.order()][every::every]
    # one row may have several events, so several cuts may have its ROW__ID
    bounds = [keys.after, *dict.fromkeys(cuts.row(index) for index in range(len(cuts))), keys.to]
    return [KeyRange(after, to) for after, to in itertools.pairwise(bounds)]


def _events(stripe: Stripe, range_: KeyRange) -> Keys:
    with stripe.open() as opened:
        keys = opened.keys(operation=DELETE)
    return keys.where(in_range(keys, range_))
