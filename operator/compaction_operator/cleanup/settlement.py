"""What comes right after an attempt's end: nothing of it can publish any more, and what it did publish is computed."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from compaction_operator.api.cleanup import CompactionCleanupSpec, PartitionEntry, PublishedState, ReaderBaseline
from compaction_operator.cleanup.attempt import Attempt, AttemptSource, end_attempt
from compaction_operator.cleanup.deletion import (
    Metastore,
    Now,
    empty_trash,
    hide,
    list_directory,
    names_in,
    needed_of,
    resolve_now,
    volume_of,
)
from compaction_operator.cleanup.fence import fence
from compaction_operator.cleanup.gate import take_baseline
from compaction_operator.cleanup.holding import POLITE, Holding, HoldOff, LockSource, Manners, ReadersBusyError
from compaction_operator.cleanup.identity import Change, TableGoneError, what_changed
from compaction_operator.cleanup.publication import Fate, UndecidedError, bears_transaction, fate, published_state
from compaction_operator.cleanup.readers import ReadersSource, look
from compaction_operator.storage import NotFoundError, Storage

log = logging.getLogger(__name__)

_COUNTING = (PublishedState.PUBLISHED, PublishedState.NOTHING_TO_PUBLISH)


class SettlementSource(AttemptSource, ReadersSource, Metastore, LockSource, Protocol):
    """What is needed of the metastore's client."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What is published of each partition, who read then, and what became of the partitions that are gone.

    `needed` are the recorded names of each partition that were not obsolete then.
    """

    states: Mapping[str, PublishedState]
    baseline: ReaderBaseline
    gone: Mapping[str, Change]
    needed: Mapping[str, tuple[str, ...]]


def settle(
    open_storage: Callable[[str], Storage],
    metastore: SettlementSource,
    spec: CompactionCleanupSpec,
    *,
    manners: Manners = POLITE,
    clock: Callable[[], datetime],
) -> Settlement:
    """End a journal's attempt, compute what it published, and take the reader baseline: in this order.

    Only the fence and the end of its transactions make the answers after them final; and the baseline comes last, so
    that it has everybody who may have seen the directories from before. Can be repeated until its result is stored.
    Raises StorageError, MetastoreError and UndecidedError: then nothing is settled.
    """
    gone = what_changed(metastore, spec)
    here = [entry for entry in spec.partitions if entry.partition not in gone]
    for entry in here:
        fence(open_storage(entry.location), entry.location, keep=None)
    attempt, table = Attempt(spec.compaction.uid, spec.compaction.attempt), spec.table.ref()
    ended = end_attempt(metastore, attempt, table)
    fates = {entry.partition: fate(entry, ended.txns, ended.queue) for entry in here if entry.outputs}
    states = dict.fromkeys((entry.partition for entry in spec.partitions), PublishedState.NOT_PUBLISHED)
    holding = Holding(metastore, spec, manners)
    holding.give_back_left()
    for entry in here:
        storage = open_storage(entry.location)
        names = _names(storage, spec, entry)
        fated = fates.get(entry.partition, Fate.NONE_NEEDED)
        states[entry.partition] = _state(storage, holding.hold_off, entry, fated, names)
    needed = _needed(open_storage, metastore, spec, [entry for entry in here if states[entry.partition] in _COUNTING])
    world = look(metastore, table)
    baseline = take_baseline(world, partitions=set(states), own_locks=ended.locks, now=clock())
    return Settlement(states, baseline, gone, needed)


def _needed(
    open_storage: Callable[[str], Storage],
    metastore: SettlementSource,
    spec: CompactionCleanupSpec,
    entries: Iterable[PartitionEntry],
) -> dict[str, tuple[str, ...]]:
    """Return the recorded names that are not obsolete now: the baseline lacks those who will read them until they are.

    Where that cannot be told, it is all of them.
    """
    counting = list(entries)
    if not counting:
        return {}
    try:
        now = resolve_now(metastore, spec)
    except TableGoneError as gone:
        raise UndecidedError(str(gone)) from gone
    return {entry.partition: _needed_of(open_storage(entry.location), now, entry) for entry in counting}


def _needed_of(storage: Storage, now: Now, entry: PartitionEntry) -> tuple[str, ...]:
    listing = list_directory(storage, entry.location)
    try:
        obsolete = now.obsolete(entry, listing)
    except ValueError as unclear:
        log.warning("%s: nothing is deleted: %s", entry.location, unclear)
        return tuple(one.name for one in entry.obsolete)
    return needed_of(entry, there=names_in(listing), obsolete=obsolete)


def _state(
    storage: Storage, hold_off: HoldOff, entry: PartitionEntry, fate: Fate, names: Collection[str]
) -> PublishedState:
    if fate is Fate.ABORTED:
        _remove_outputs(storage, hold_off, entry, names)
    if fate in (Fate.ABORTED, Fate.DOUBTFUL):
        return PublishedState.NOT_PUBLISHED
    return published_state(entry, names)


def _remove_outputs(storage: Storage, hold_off: HoldOff, entry: PartitionEntry, names: Collection[str]) -> None:
    """Remove what an aborted transaction wrote: no snapshot ever sees it, and its number is not given out again.

    Where readers are always at work it stays: it is obsolete for the next compaction.
    """
    own = [output for output in entry.outputs if bears_transaction(output, entry)]
    empty_trash(storage, entry.location, own)
    there = [output for output in own if output in names]
    if not there:
        return
    try:
        with hold_off(entry.partition):
            for output in there:
                hide(storage, entry.location, output)
    except ReadersBusyError as busy:
        log.info("%s: %s of an aborted transaction stays for now: %s", entry.location, ", ".join(there), busy)
    empty_trash(storage, entry.location, own)


def _names(storage: Storage, spec: CompactionCleanupSpec, entry: PartitionEntry) -> Sequence[str]:
    """Return the names in a partition's directory; none where only that directory is missing.

    Raises StorageError when the table's own directory is missing, too, or that of a partition elsewhere: its volume may
    not be there, and then nobody knows what is published.
    """
    try:
        return [child.name for child in storage.list(entry.location)]
    except NotFoundError:
        if storage.exists(volume_of(entry, spec.table.location)):
            return []
        raise
