"""Log blocks of a file group, and the runs of small, consecutive blocks that are worth merging (RFC-48).

The unit of a plan is the log file. The rules come from RFC-48 ("Disadvantages") and from the position that Hudi's two
scanners of log blocks give a merged block (HoodieLogFile's comparator, BaseHoodieLogRecordReader).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

UNKNOWN = -1
"""The type of a delete's ordering value where it cannot be read. NB: two unknown types may differ."""

WITHOUT_ORDERING = frozenset({0, 2})
"""The types of deletes by operation: null, or int with Hudi's default of 0."""

BY_FLAG_AS_INT = -2
"""Stands for the type of deletes by flag whose ordering field is an int, which has another value than the default."""


@dataclass(frozen=True)
class LogFile:
    """A log file of a file slice: the instants of its blocks, its size in bytes, and the instants it replaces.

    `partial`: some of its records contain changed columns only, as Spark's MERGE INTO writes them. `deletes` are the
    types of ordering values in its blocks of deleted keys (`log_format.Header`). `rolls_back` are the instants whose
    blocks a reader skips because of this file (before table version 8).
    """

    name: str
    instants: tuple[str, ...]
    size: int
    replaces: frozenset[str] = frozenset()
    partial: bool = False
    deletes: frozenset[int] = frozenset()
    rolls_back: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Block:
    """A block as readers see it: the files of one instant, after the files of the blocks that they replace.

    Without the replaced files a reader would skip the merged block. `size` is the size in bytes of the instant's own
    files. `first` and `last` are the oldest and newest instants of the original blocks. NB: a merged block takes the
    position of its newest original, not of its own instant.
    """

    first: str
    last: str
    size: int
    files: tuple[LogFile, ...]

    @property
    def partial(self) -> bool:
        """Whether any record is partial. NB: a log compaction loses partial records in Hudi 1.0, and fails in 1.2."""
        return any(file.partial for file in self.files)

    @property
    def deletes(self) -> frozenset[int]:
        """The types of ordering values of its deletes. NB: Hudi 1.0's log compaction loses one that wins by event time.

        Hudi merges deletes of all types into one block, which readers without a JVM refuse.
        """
        return frozenset().union(*(file.deletes for file in self.files))


def blocks_of(files: Iterable[LogFile]) -> tuple[Block, ...]:
    """Return the blocks that a reader of the slice opens, oldest first.

    NB: rolled-back files and their rollback belong to the oldest block, so that a merge takes both or neither. Their
    deletes are not read, and do not count.
    """
    found = list(files)
    gone = frozenset().union(*(file.rolls_back for file in found))
    is_empty = [not frozenset(file.instants) - gone for file in found]
    empty = tuple(replace(file, deletes=frozenset()) for file, skipped in zip(found, is_empty, strict=True) if skipped)
    blocks = _live_blocks(file for file, skipped in zip(found, is_empty, strict=True) if not skipped)
    return tuple(replace(block, files=(*empty, *block.files)) if block is blocks[0] else block for block in blocks)


def _live_blocks(files: Iterable[LogFile]) -> tuple[Block, ...]:
    groups = _by_instant(files)
    # A merged block is newer than all that it replaces. From newest to oldest, each group follows its replacement.
    replaced_by: dict[str, str] = {}
    for group in reversed(groups):
        name = _last(group)
        for instant in (instant for file in group for instant in file.replaces):
            replaced_by.setdefault(instant, replaced_by.get(name, name))
    members: dict[str, list[list[LogFile]]] = {}
    for group in groups:
        members.setdefault(replaced_by.get(_last(group), _last(group)), []).append(group)
    return tuple(sorted((_block(parts) for parts in members.values()), key=lambda block: block.last))


def best_run(
    files: Iterable[LogFile],
    *,
    threshold: int,
    limit: int | None,
    pending: Collection[str],
    newest_only: bool,
    keeps_deletes: bool,
    by_event_time: bool,
    mixes_types: bool = False,
) -> tuple[Block, ...]:
    """Return the longest run of at least `threshold` consecutive blocks of at most `limit` bytes each.

    Of several longest runs the newest is returned; without any run, an empty tuple. No instant of `pending` (delta
    commits of any writer) may fall within the run. `newest_only` is for tables that are read with Hudi's first
    scanner, which replays a merged block after everything older. The run must then end with the slice's newest block,
    and all pending instants must be older than the run. Unless the compactor `keeps_deletes`, no block of the run may
    have any. The deletes of a run have ordering values of one known type, unless it `mixes_types`. In a table
    `by_event_time` nothing follows a delete by operation in a run, unless nothing is below the run (`_at_deletes`), and
    no block above one is merged if it has deletes by flag (`_flags_count`).
    """
    blocks = blocks_of(files)
    fits = [
        _fits(block, limit, keeps_deletes=keeps_deletes) and (mixes_types or UNKNOWN not in block.deletes)
        for block in blocks
    ]
    if by_event_time:
        fits = [fit and counts for fit, counts in zip(fits, _flags_count(blocks, pending), strict=True)]
    found = _runs(blocks, fits, pending)
    parts = found if mixes_types else [part for run in found for part in _of_one_type(run)]
    if by_event_time:
        oldest = min((blocks[0].first, *pending)) if blocks else ""
        parts = [part for run in parts for part in ((run,) if run[0].first == oldest else _at_deletes(run))]
    runs = [run for run in parts if len(run) >= threshold]
    if newest_only:
        runs = [run for run in runs if run[-1] is blocks[-1] and all(instant < run[0].first for instant in pending)]
    return max(reversed(runs), key=len, default=())


def _by_instant(files: Iterable[LogFile]) -> list[list[LogFile]]:
    """Group files by instant, oldest first: a reader drops all blocks of a merged instant together."""
    groups: list[list[LogFile]] = []
    for file in sorted(files, key=lambda file: (min(file.instants), max(file.instants), file.name)):
        if groups and any(set(file.instants) & set(other.instants) for other in groups[-1]):
            groups[-1].append(file)
        else:
            groups.append([file])
    return groups


def _last(group: Iterable[LogFile]) -> str:
    return max(instant for file in group for instant in file.instants)


def _block(parts: Sequence[Sequence[LogFile]]) -> Block:
    own = parts[-1]
    originals = [file for part in parts[:-1] for file in part if not file.replaces] or list(own)
    return Block(
        first=min(instant for file in originals for instant in file.instants),
        last=_last(originals),
        size=sum(file.size for file in own),
        files=tuple(file for part in parts for file in part),
    )


def _fits(block: Block, limit: int | None, *, keeps_deletes: bool) -> bool:
    """Whether a block may be merged at all."""
    is_small = limit is None or block.size <= limit
    return is_small and not block.partial and (keeps_deletes or not block.deletes)


def _runs(blocks: Sequence[Block], fits: Sequence[bool], pending: Collection[str]) -> list[tuple[Block, ...]]:
    """Split the blocks at those that do not fit, and wherever a pending instant would fall between two blocks."""
    runs: list[list[Block]] = [[]]
    for block, fit in zip(blocks, fits, strict=True):
        if not fit:
            runs.append([])
            continue
        if runs[-1] and any(runs[-1][-1].last < instant < block.last for instant in pending):
            runs.append([])
        runs[-1].append(block)
    return [tuple(run) for run in runs if run]


def _of_one_type(run: tuple[Block, ...]) -> Iterator[tuple[Block, ...]]:
    """Yield the longest parts of a run whose deletes have ordering values of one type each. The parts may overlap."""
    begin, last_of_type = 0, dict[int, int]()
    for end, block in enumerate(run):
        last_of_type |= dict.fromkeys(block.deletes, end)
        *others, _ = sorted(last_of_type.values()) or [-1]
        # Of all types but the newest one, no block may be in the part.
        if (first := min(max(others, default=-1) + 1, end)) > begin:
            yield run[begin:end]
            begin = first
    yield run[begin:]


def keeps_flags(files: Iterable[LogFile]) -> bool:
    """Whether a merge of all these log files of a table by event time keeps what their deletes by flag do."""
    return all(_flags_count(blocks_of(files), ()))


def _flags_count(blocks: Iterable[Block], pending: Collection[str]) -> Iterator[bool]:
    """Yield for each block, oldest first, whether its deletes by flag count in the same way after a merge.

    Hudi 1.2 drops one that comes right after a delete by operation of its key, but not one with a record in between
    (BufferedRecordMergerFactory.deltaMergeDeleteRecord). So none is merged where a delete by operation is below, or may
    come there by a write that is pending.
    """
    below = False
    for block in blocks:
        unsure = below or any(instant < block.last for instant in pending)
        yield not (unsure and block.deletes - WITHOUT_ORDERING)
        below |= bool(block.deletes & {*WITHOUT_ORDERING, UNKNOWN})


def _at_deletes(run: tuple[Block, ...]) -> Iterator[tuple[Block, ...]]:
    """Yield the parts of a run, each up to a block with deletes by operation.

    Such a delete wins over any older record, and any newer one wins over it. Merged with a newer record of its key it
    is gone, and then an older record of a greater ordering value below the run would win.
    """
    begin = 0
    for end, block in enumerate(run, 1):
        if block.deletes & WITHOUT_ORDERING:
            yield run[begin:end]
            begin = end
    if begin < len(run):
        yield run[begin:]
