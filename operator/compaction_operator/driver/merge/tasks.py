"""What is handed to executors: tasks with the bytes each has to read, and how small ones share a Spark task."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from compaction_operator.orc import MergeResult, MergeTask


@dataclass(frozen=True, slots=True)
class StitchTask:
    """Puts the parts of a bucket that was cut, in the order of their keys, together into one file.

    `whole` is the task that would have written it without a cut; it says where the file goes.
    """

    whole: MergeTask
    parts: tuple[MergeResult, ...]


@dataclass(frozen=True, slots=True)
class SizedTask:
    """A task and how many bytes of input it is about to read, as far as that is known beforehand."""

    task: MergeTask | StitchTask
    bytes: int


@dataclass(frozen=True, slots=True)
class BucketWork:
    """One bucket file of an output directory.

    `parts` are the tasks that write it: `whole` itself or, where the bucket was cut, one for each of several
    consecutive ranges of keys without a gap, whose files are then put together.
    """

    whole: MergeTask
    parts: tuple[SizedTask, ...]

    def stitching(self, results: Sequence[MergeResult]) -> SizedTask:
        """Return the work that is left when the parts are written."""
        return SizedTask(StitchTask(self.whole, tuple(results)), sum(result.bytes_out for result in results))


def task_bytes(memory: int) -> int:
    """Return how many bytes of input make a task that may hold `memory` bytes: what is decoded is larger."""
    return memory // 2


def grouped(work: Sequence[SizedTask], *, slots: int, limit: int) -> Iterator[tuple[SizedTask, ...]]:
    """Yield the work in groups, each of which one Spark task does one after another; the order is kept.

    A group has at most `limit` bytes, or a single piece of work; and no more than a slot's share of all, so that no
    slot idles while others have several left.
    """
    limit = min(limit, -(-sum(piece.bytes for piece in work) // max(1, slots)))
    group: list[SizedTask] = []
    size = 0
    for piece in work:
        if group and size + piece.bytes > limit:
            yield tuple(group)
            group, size = [], 0
        group.append(piece)
        size += piece.bytes
    if group:
        yield tuple(group)


def combined(parts: Sequence[MergeResult], *, output: str) -> MergeResult:
    """Return what the parts of a bucket come to: their ranges of keys do not overlap, so everything adds up."""
    return MergeResult(
        output=output,
        rows_in=sum(part.rows_in for part in parts),
        rows_out=sum(part.rows_out for part in parts),
        delete_events_in=sum(part.delete_events_in for part in parts),
        delete_events_out=sum(part.delete_events_out for part in parts),
        rows_deleted=sum(part.rows_deleted for part in parts),
        bytes_in=sum(part.bytes_in for part in parts),
        bytes_out=sum(part.bytes_out for part in parts),
        bytes_copied=sum(part.bytes_copied for part in parts),
        rows_in_by_write_id=_added(part.rows_in_by_write_id for part in parts),
        rows_out_by_write_id=_added(part.rows_out_by_write_id for part in parts),
        rows_hidden=_added(part.rows_hidden for part in parts),
    )


def _added(counts: Iterable[dict[int, int]]) -> dict[int, int]:
    total: Counter[int] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
