"""Tasks for the executors, with their input sizes, and the grouping of small tasks into one Spark task."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from compaction_operator.acid.names import AcidDirectory, bucket_file_name
from compaction_operator.driver.merge.load import NOTHING, Load
from compaction_operator.orc import MergeForecast, MergeResult, MergeTask


@dataclass(frozen=True, slots=True)
class StitchTask:
    """A task that joins the parts of a cut bucket into one file, in the order of their keys.

    `whole` is the task that would have written the file without a cut.
    """

    whole: MergeTask
    parts: tuple[MergeResult, ...]

    @property
    def output(self) -> str:
        """The path of the file."""
        return self.whole.output


@dataclass(frozen=True, slots=True)
class SizedTask:
    """A task, and the bytes of input that it will read and its load, as far as known in advance.

    No two tasks have one output.
    """

    task: MergeTask | StitchTask
    bytes: int
    load: Load = NOTHING


@dataclass(frozen=True, slots=True)
class BucketWork:
    """One bucket file of an output directory.

    `parts` are the tasks that write it: `whole` itself or, if the bucket was cut, one task for each of several
    consecutive key ranges without a gap. A StitchTask then joins their files.
    """

    directory: AcidDirectory
    whole: MergeTask
    parts: tuple[SizedTask, ...]

    @property
    def name(self) -> str:
        """The name of the published file."""
        return bucket_file_name(self.whole.bucket)

    def stitching(self, results: Iterable[MergeResult]) -> SizedTask:
        """Return the work that joins the written parts."""
        parts = tuple(results)
        size = sum(part.bytes_out for part in parts)
        return SizedTask(StitchTask(self.whole, parts), size, Load(files=len(parts), copied=size))


def task_bytes(memory: int) -> int:
    """Return the input bytes for a task that may hold `memory` bytes: decoded data is larger than the file."""
    return memory // 2


def grouped(work: Sequence[SizedTask], *, slots: int, limit: int) -> Iterator[tuple[SizedTask, ...]]:
    """Yield the work in groups, in order; one Spark task executes the pieces of a group one after another.

    A group has at most `limit` bytes and at most one slot's share of the total, so that no slot idles while others
    have several groups left. A larger piece of work forms a group by itself.
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
    """Return the sum of a bucket's parts. Their key ranges do not overlap, so all counts add up."""
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
        forecast=sum((part.forecast for part in parts), MergeForecast()),
        cpu_seconds=sum(part.cpu_seconds for part in parts),
    )


def _added(counts: Iterable[dict[int, int]]) -> dict[int, int]:
    total: Counter[int] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
