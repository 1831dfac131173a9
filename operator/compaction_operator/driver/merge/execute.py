"""Execution of the tasks of many partitions at once, and the stitching of cut buckets' parts."""

from collections.abc import Iterator, Sequence
from itertools import islice

from compaction_operator.api.request import Reason
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError, RepeatedRow
from compaction_operator.driver.merge.partition import Prepared
from compaction_operator.driver.merge.runner import Done, Outcome, TaskRunner
from compaction_operator.driver.merge.tasks import BucketWork, SizedTask
from compaction_operator.orc import MergeResult

Merged = list[MergeResult] | JobError
"""The outcome of one partition: the results of its tasks, or the error that prevented them."""


def merge(prepared: Sequence[Prepared], runner: TaskRunner, *, done: Done = lambda _: None) -> list[Merged]:
    """Write the files of all partitions and return, for each, the results of its buckets in the order of `buckets()`.

    One partition's failure does not affect the others. `done` receives the number of finished bytes of all `work()`.
    Raises JobError (Interrupted) on SIGTERM while parts are stitched.
    """
    merged = _run(runner, [list(item.work()) for item in prepared], done)
    stitching = [_stitching(item, results) for item, results in zip(prepared, merged, strict=True)]
    stitched = _run(runner, stitching, lambda _: interruption.check())
    return [_whole(*each) for each in zip(prepared, merged, stitched, strict=True)]


def _run(runner: TaskRunner, work: Sequence[Sequence[SizedTask]], done: Done) -> list[Merged]:
    outcomes = iter(runner.run([piece for pieces in work for piece in pieces], done))
    return [_results(list(islice(outcomes, len(pieces))), expected=len(pieces)) for pieces in work]


def _results(outcomes: Sequence[Outcome], *, expected: int) -> Merged:
    """Return the results of a partition's tasks, or the first failure, whose message names the file."""
    for outcome in outcomes:
        if outcome.error is not None:
            return (RepeatedRow if outcome.repeated else JobError)(Reason.UNREADABLE_FILE, outcome.error)
    results = [outcome.result for outcome in outcomes if outcome.result is not None]
    if len(results) != expected:
        return JobError(Reason.VERIFICATION_FAILED, f"{expected} tasks gave {len(results)} results")
    return results


def _stitching(item: Prepared, merged: Merged) -> list[SizedTask]:
    if isinstance(merged, JobError):
        return []
    return [bucket.stitching(parts) for bucket, parts in _by_bucket(item, merged) if len(parts) > 1]


def _whole(item: Prepared, merged: Merged, stitched: Merged) -> Merged:
    """Replace the parts of each cut bucket by their stitched result."""
    if isinstance(merged, JobError):
        return merged
    if isinstance(stitched, JobError):
        return stitched
    files = iter(stitched)
    return [next(files) if len(parts) > 1 else parts[0] for _, parts in _by_bucket(item, merged)]


def _by_bucket(item: Prepared, results: Sequence[MergeResult]) -> Iterator[tuple[BucketWork, list[MergeResult]]]:
    remaining = iter(results)
    for _, bucket in item.buckets():
        yield bucket, list(islice(remaining, len(bucket.parts)))
