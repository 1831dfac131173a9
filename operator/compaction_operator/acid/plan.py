"""Compaction plan: what a compaction reads, writes and makes obsolete, and whether it may still be published.

The decisions follow Hive's CompactorMR (3.1) and QueryCompactor (4.0), based on AcidUtils' snapshot.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

from compaction_operator.acid.contents import contents
from compaction_operator.acid.listing import Directory, File, Listing
from compaction_operator.acid.names import (
    GUARD_BASE,
    INT64_MIN,
    METADATA_ACID,
    METADATA_ACID_CONTENT,
    ORC_ACID_VERSION,
    AcidDirectory,
    DirectoryKind,
    is_hidden,
    is_union_directory,
    looks_like_directory,
    parse_directory,
    parse_original_path,
)
from compaction_operator.acid.runs import OF_TABLE, RowTypes, Run, runs
from compaction_operator.acid.snapshot import (
    NotEnoughHistory,
    Obsolete,
    OpenWriteBelow,
    Snapshot,
    UnsupportedLayout,
    Visibility,
    acid_directories,
    compacted_bases,
    original_files,
    resolve,
    visibility,
    written_in_vain,
)
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.cleanup import MAX_OUTPUTS
from compaction_operator.api.compaction import CompactionType

MAX_RUNS = MAX_OUTPUTS // 2
"""Runs that one compaction merges: each has a delta and perhaps a delete delta."""

_NAMED = 5
"""Maximum number of open write ids in a message."""


class Layout(StrEnum):
    """Naming of published directories: bare (Hive 3), or with the compaction's transaction as `_v` (Hive 4)."""

    HIVE3 = "hive3"
    HIVE4 = "hive4"


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The plan for one compaction of one directory.

    - `base`, `originals` and `deltas` are the inputs. A minor compaction reads deltas only.
    - `outputs` is empty if there is nothing to compact.
    - `obsolete` is what becomes obsolete when the outputs are published, plus what was obsolete before.
    - `highest_write_id` is the watermark, as in Hive's queue entry. Directories above it are neither examined nor in
      `obsolete`.
    - `best_base` is the base that readers start from, whether it is an input or not.
    - `seen` are the names of all directories in the listing.
    - `guard` is the empty base to publish before the outputs, if any. See `with_guard`.
    - `own_row_type` are the outputs whose rows keep their files' row type, because it cannot become the table's.
    - `postponed` is the number of runs of one row type that are left to the next compaction.
    """

    type: CompactionType
    layout: Layout
    base: AcidDirectory | None
    originals: tuple[File, ...]
    deltas: tuple[AcidDirectory, ...]
    outputs: tuple[AcidDirectory, ...]
    obsolete: tuple[Obsolete, ...]
    highest_write_id: int
    best_base: AcidDirectory | None
    seen: frozenset[str]
    guard: AcidDirectory | None = None
    own_row_type: frozenset[AcidDirectory] = frozenset()
    postponed: int = 0

    @property
    def directories(self) -> tuple[AcidDirectory, ...]:
        """The directories among the inputs: the base, then the deltas."""
        return (self.base, *self.deltas) if self.base else self.deltas

    @property
    def breaks_older_snapshots(self) -> bool:
        """Whether readers that list again with an older snapshot fail after the outputs are published (hazard H24).

        Hive 3.1 fails with "Not enough history available" if there are bases but none is usable. A table's first base,
        without a transaction in its name, is too new for every snapshot taken before the last write. A base compacted
        from originals alone is below every write id, so it breaks no snapshot.
        """
        first = self.type is CompactionType.MAJOR and self.best_base is None and self.layout is Layout.HIVE3
        return first and any(output.max_write_id > INT64_MIN for output in self.outputs)

    @property
    def has_originals(self) -> bool:
        """Whether the inputs include files from before the table became ACID. Any base, even the guard, hides them."""
        return bool(self.originals)


def with_guard(plan: CompactionPlan) -> CompactionPlan:
    """Return the plan with the guard base: published first, and obsolete with the inputs.

    The guard is empty and below every write id, so older snapshots continue with the guard and the deltas. Raises
    ValueError if no guard is needed, or if it would hide originals.
    """
    if not plan.breaks_older_snapshots or plan.has_originals:
        raise ValueError("a guard base is for a first major compaction of a table without original files")
    covered = Obsolete(GUARD_BASE.name, f"covered by {plan.outputs[0]}")
    return replace(plan, guard=GUARD_BASE, obsolete=(*plan.obsolete, covered))


def plan_compaction(
    listing: Listing,
    write_ids: ValidWriteIdList,
    *,
    type: CompactionType,
    layout: Layout,
    visibility_txn: int | None = None,
    valid_txns: ValidTxnList | None = None,
    row_types: RowTypes | None = None,
) -> CompactionPlan:
    """Return the plan for a listed directory. No input lies above the watermark.

    With `row_types`, a minor compaction merges each run of one row type by itself, the oldest MAX_RUNS of them.
    Raises UnsupportedLayout for a relevant directory or file that is not understood, OpenWriteBelow if a write must end
    first, NotEnoughHistory if no base is usable for another reason, and ValueError if `visibility_txn` does not match
    the layout.
    """
    if (visibility_txn is None) != (layout is Layout.HIVE3):
        raise ValueError(f"layout {layout} {'needs a' if layout is Layout.HIVE4 else 'has no'} visibility transaction")
    _require_known_names(listing)
    visible = visibility(valid_txns)
    settled, below = write_ids.capped(write_ids.watermark), _at_or_below_watermark(listing, write_ids)
    before = _settled_snapshot(below, write_ids, visible)
    parts = [Run(before, OF_TABLE)] if row_types is None else runs(before, row_types)
    needed = [run for run in parts if _is_needed(run.part, type, layout)]
    written = [(run, _outputs(run.part, type, layout, visibility_txn)) for run in needed[:MAX_RUNS]]
    outputs = tuple(output for _, names in written for output in names)
    if outputs:
        _require_understood(listing, before, type)
        _require_separate(listing, outputs, visible)
    major = type is CompactionType.MAJOR
    return CompactionPlan(
        type=type,
        layout=layout,
        base=before.base if major else None,
        originals=before.originals if major else (),
        deltas=before.deltas if row_types is None else tuple(delta for run, _ in written for delta in run.part.deltas),
        outputs=outputs,
        obsolete=(*_obsolete_after(below, settled, outputs, visible), *written_in_vain(below, settled, valid_txns)),
        highest_write_id=write_ids.watermark,
        best_base=before.base,
        seen=frozenset(directory.name for directory in listing.directories),
        own_row_type=frozenset(names[0] for run, names in written if run.row_type not in (OF_TABLE, None)),
        postponed=len(needed) - len(written),
    )


def why_nothing(plan: CompactionPlan) -> str:
    """Return why a plan for whole directories has no outputs: what was found, and what its type merges."""
    deltas = " and ".join(delta.name for delta in plan.deltas)
    if deltas:
        why = f"a Minor merges two or more deltas of a kind, and there is only {deltas}"
    else:
        why = f"there is no delta above {plan.best_base.name}" if plan.best_base else "there is no delta"
    mark, found = plan.highest_write_id, map(parse_directory, plan.seen)
    waits = any(one is not None and one.max_write_id > mark for one in found)
    return f"{why}; what lies above write id {mark} waits for an open write" if waits else why


def _at_or_below_watermark(listing: Listing, write_ids: ValidWriteIdList) -> Listing:
    def stays(name: str) -> bool:
        found = parse_directory(name)
        if found is None or found.max_write_id <= write_ids.watermark:
            return True
        # A higher base stays as a sign that history may be missing, unless no reader can have used it.
        return found.is_base and found.max_write_id not in write_ids.open | write_ids.aborted

    return Listing(tuple(directory for directory in listing.directories if stays(directory.name)), listing.files)


def _settled_snapshot(below: Listing, write_ids: ValidWriteIdList, visible: Visibility) -> Snapshot:
    """Return a reader's snapshot up to the watermark. Raises OpenWriteBelow if open writes hide all bases."""
    try:
        return resolve(below, write_ids.capped(write_ids.watermark), visible=visible)
    except NotEnoughHistory as error:
        compacted = compacted_bases(below, highest=write_ids.high_watermark)
        for base in acid_directories(below):
            above = base.is_base and base.max_write_id > write_ids.watermark
            if above and visible(base) and base.name not in compacted:
                raise OpenWriteBelow(_why_to_wait(base, write_ids)) from error
        raise


def _why_to_wait(base: AcidDirectory, write_ids: ValidWriteIdList) -> str:
    if base.max_write_id > write_ids.high_watermark:
        return f"{base.name} has a write id above {write_ids.high_watermark}, the highest when the write ids were read"
    numbers = sorted({write_ids.watermark + 1} | {number for number in write_ids.open if number < base.max_write_id})
    named = ", ".join(map(str, numbers[:_NAMED])) + (f" and {len(numbers) - _NAMED} more" if numbers[_NAMED:] else "")
    which = f"write ids {named}, which are" if numbers[1:] else f"write id {named}, which is"
    return f"{base.name} was committed above {which} still open: what it replaced can be decided only after that ends"


def _is_needed(before: Snapshot, type: CompactionType, layout: Layout) -> bool:
    if type is CompactionType.MAJOR:
        return bool(before.deltas or before.originals)
    deletes = sum(delta.kind is DirectoryKind.DELETE_DELTA for delta in before.deltas)
    if layout is Layout.HIVE4:
        return deletes >= 2 or len(before.deltas) - deletes >= 2
    # Hive 3.1 merges any two directories. But a delta and delete delta of one range, from a compaction, are merged.
    ranges = {delta.range for delta in before.deltas}
    return len(before.deltas) >= 2 and not (len(ranges) == 1 and all(statement is None for _, _, statement in ranges))


def _outputs(
    before: Snapshot, type: CompactionType, layout: Layout, visibility_txn: int | None
) -> tuple[AcidDirectory, ...]:
    named = [*before.deltas]
    if layout is Layout.HIVE3:  # 3.1 includes wholly aborted deltas in the name, 4.0 drops them first
        floor = before.base.max_write_id if before.base else INT64_MIN
        named += [delta for delta in before.aborted if not delta.is_base and delta.max_write_id > floor]
    high = max((delta.max_write_id for delta in named), default=INT64_MIN)
    if type is CompactionType.MAJOR:
        return (AcidDirectory.base(high, visibility_txn=visibility_txn),)
    low = min(delta.min_write_id for delta in named)
    delta = AcidDirectory.delta(low, high, visibility_txn=visibility_txn)
    if not any(one.kind is DirectoryKind.DELETE_DELTA for one in before.deltas):
        return (delta,)
    return delta, AcidDirectory.delete_delta(low, high, visibility_txn=visibility_txn)


def _obsolete_after(
    below: Listing, settled: ValidWriteIdList, outputs: tuple[AcidDirectory, ...], visible: Visibility
) -> tuple[Obsolete, ...]:
    files = (File(ORC_ACID_VERSION, 1),)
    mark = File(METADATA_ACID, len(METADATA_ACID_CONTENT), METADATA_ACID_CONTENT)
    written = tuple(Directory(output.name, (*files, mark) if output.is_base else files) for output in outputs)
    after = Listing((*below.directories, *written), below.files)
    return resolve(after, settled, visible=lambda directory: directory in outputs or visible(directory)).obsolete


def _require_known_names(listing: Listing) -> None:
    for directory in listing.directories:
        if looks_like_directory(directory.name) and parse_directory(directory.name) is None:
            raise UnsupportedLayout(f"{directory.name} is not a name that Hive's readers understand")


def _require_understood(listing: Listing, before: Snapshot, type: CompactionType) -> None:
    """Refuse inputs that are not understood, and directories that are not ACID."""
    _require_one_of_each(before.deltas)
    major = type is CompactionType.MAJOR
    for directory in (*before.deltas, *((before.base,) if before.base and major else ())):
        if found := listing.directory(directory.name):
            contents(found, directory)
    if major and before.base is None:
        _require_known_originals(listing, before.originals)


def _require_known_originals(listing: Listing, originals: Iterable[File]) -> None:
    for directory in listing.directories:
        if parse_directory(directory.name) is None and not is_union_directory(directory.name):
            for file in _visible_files(directory):
                raise UnsupportedLayout(f"{directory.name}/{file.name} is in a directory that is not an ACID directory")
    for file in originals:
        if parse_original_path(file.name) is None:
            raise UnsupportedLayout(f"{file.name} is not the name of a bucket's original file")


def _require_one_of_each(deltas: Iterable[AcidDirectory]) -> None:
    """Refuse two deltas, or two delete deltas, of one range: two compactions seem to have published the same rows.

    Up to 4.1 Hive reads both deltas, and rows count twice. 4.2 reads the one of the later transaction, unless a delete
    delta is sorted between them (HIVE-29210).
    """
    seen: dict[object, str] = {}
    for delta in deltas:
        if (first := seen.setdefault((delta.kind, delta.range), delta.name)) != delta.name:
            raise UnsupportedLayout(
                f"{first} and {delta.name} hold the same write ids: Hive 4.2 may read one, older ones both"
            )


def _visible_files(directory: Directory) -> Iterable[File]:
    return (file for file in directory.files if not is_hidden(file.name))


def _require_separate(listing: Listing, outputs: tuple[AcidDirectory, ...], visible: Visibility) -> None:
    """Refuse a delta that partly overlaps an output. NB: Hive keeps any delta with max > current: rows count twice."""
    for directory in acid_directories(listing):
        if visible(directory) and not directory.is_base:
            for output in outputs:
                if _intersects(directory, output) and not _holds(output, directory):
                    raise UnsupportedLayout(f"{directory.name} partly overlaps the output {output.name}")


def check_still_publishable(plan: CompactionPlan, listing: Listing) -> str | None:
    """Return why a plan may no longer be published, or None if it may.

    `listing` must be taken right before publishing. Two correct compactions that overlap double rows. Therefore every
    input must still exist, the base that readers start from must be the same, and no new directory may intersect an
    output's range, except the plan's own empty guard. A base's range reaches down to the first write id.
    """
    names = {directory.name for directory in listing.directories}
    if taken := [output.name for output in plan.outputs if output.name in names]:
        return f"the output {taken[0]} exists already"
    if gone := [one.name for one in (plan.best_base, *plan.deltas) if one and one.name not in names]:
        return f"{gone[0]}, which the plan depends on, no longer exists"
    if plan.type is CompactionType.MAJOR and plan.base is None and set(plan.originals) != set(original_files(listing)):
        return "the original files have changed since the plan was made"
    for directory in acid_directories(listing):
        new = directory.name not in plan.seen and not _is_guard(directory, plan, listing)
        if new and any(_intersects(directory, output) for output in plan.outputs):
            return f"{directory.name} appeared after the plan was made"
    return None


def require_alone(outputs: Iterable[str], listing: Listing, *, visible: Visibility = lambda _: True) -> None:
    """Raise UnsupportedLayout if a directory shares write ids with a published one and neither contains the other.

    Readers use both, so they see the shared rows twice. No such directory existed when the output was published.
    """
    published = [found for name in outputs if (found := parse_directory(name)) and listing.directory(name)]
    for other in acid_directories(listing):
        for output in published:
            if _share_some(output, other) and visible(other):
                raise UnsupportedLayout(f"{output.name} and {other.name} overlap, rows count twice")


def overlapping_inputs(plan: CompactionPlan) -> tuple[str, str] | None:
    """Return two inputs of the plan that share write ids while neither contains the other, or None.

    NB: this need not double any row. A streaming client's delta of many write ids may begin below a base that was
    written before the delta was complete.
    """
    read = sorted(plan.directories, key=lambda directory: directory.name)
    return next(((one.name, other.name) for one, other in combinations(read, 2) if _share_some(one, other)), None)


def inputs_of(output: AcidDirectory, plan: CompactionPlan) -> tuple[AcidDirectory, ...]:
    """Return the inputs that are merged into one of the plan's outputs."""
    if output.is_base:
        return plan.directories
    return tuple(delta for delta in plan.deltas if _holds(output, delta))


def _share_some(one: AcidDirectory, other: AcidDirectory) -> bool:
    return _intersects(one, other) and not (_holds(one, other) or _holds(other, one))


def _holds(one: AcidDirectory, other: AcidDirectory) -> bool:
    return _low(one) <= _low(other) and other.max_write_id <= one.max_write_id


def _is_guard(directory: AcidDirectory, plan: CompactionPlan, listing: Listing) -> bool:
    found = listing.directory(directory.name)
    return directory == plan.guard and found is not None and not any(_visible_files(found))


def _intersects(one: AcidDirectory, other: AcidDirectory) -> bool:
    return _low(one) <= other.max_write_id and _low(other) <= one.max_write_id


def _low(directory: AcidDirectory) -> int:
    return INT64_MIN if directory.is_base else directory.min_write_id
