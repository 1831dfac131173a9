"""Delete events, read in ranges of keys of which each fits into memory."""

import itertools
from collections.abc import Iterator, Sequence

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc.merge.events import KeyRange, RowId
from compaction_operator.orc.merge.keys import Keys, in_range, valid_write_ids
from compaction_operator.orc.merge.source import DELETE, Source, Stripe

_MEMORY_PER_EVENT = 200
"""What an event takes, with the copies of its key that sorting makes."""

_SAMPLES = 4
"""Ranges are cut by samples of the keys; with so many to a stripe they are a quarter too large at most."""


def delete_windows(
    sources: Sequence[Source], keys: KeyRange, write_ids: ValidWriteIdList, *, memory: int
) -> Iterator[tuple[KeyRange, Keys]]:
    """Yield ranges that together are `keys`, in their order, each with its valid delete events, once each and sorted.

    The events of a range take about `memory` bytes at most: their number on disk says nothing, as regular keys take
    next to no room there. Raises OrcError for a file that cannot be read or holds other events.
    """
    stripes = [stripe for source in sources for stripe in source.stripes() if stripe.rows and stripe.touches(keys)]
    for range_ in _ranges(stripes, keys, limit=max(1, memory // _MEMORY_PER_EVENT)):
        parts = (_events(stripe, range_) for stripe in stripes if stripe.touches(range_))
        found = Keys.concatenate([part[valid_write_ids(part.current, write_ids)] for part in parts])
        yield range_, found.distinct()


def _ranges(stripes: Sequence[Stripe], keys: KeyRange, *, limit: int) -> list[KeyRange]:
    """Cut a range into such of about `limit` events at most."""
    if sum(stripe.rows for stripe in stripes) <= limit:
        return [keys]
    step = max(1, limit // (_SAMPLES * len(stripes)))
    samples = Keys.concatenate([_events(stripe, keys)[::step] for stripe in stripes])
    every = max(1, limit // step - len(stripes))
    cuts = _ascending(samples[samples.order()][every::every])
    bounds = [keys.after, *cuts, keys.to]
    return [KeyRange(after, to) for after, to in itertools.pairwise(bounds)]


def _ascending(cuts: Keys) -> list[RowId]:
    """Each ROW__ID once: more than one event may be of a row."""
    return list(dict.fromkeys(cuts.row(index) for index in range(len(cuts))))


def _events(stripe: Stripe, range_: KeyRange) -> Keys:
    with stripe.open() as opened:
        keys = opened.keys(operation=DELETE)
    return keys[in_range(keys, range_)]
