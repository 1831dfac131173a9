"""Execution of the tasks of many partitions at once, and the stitching of cut buckets' parts."""

from collections.abc import Collection, Mapping, Sequence

from compaction_operator.api.request import Reason
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError, RepeatedRow, RowTypesDiffer
from compaction_operator.driver.merge.partition import Merged, MergedBucket, Prepared
from compaction_operator.driver.merge.runner import Done, Outcome, TaskRunner
from compaction_operator.driver.merge.runs import in_runs
from compaction_operator.driver.merge.tasks import SizedTask
from compaction_operator.orc import MergeResult


def merge(prepared: Sequence[Prepared], runner: TaskRunner, *, done: Done = lambda _: None) -> list[Merged]:
    """Write the files of all partitions and return each partition with its buckets' results, or with its error.

    One partition's failure does not affect the others. `done` receives the number of finished bytes of all `work()`.
    A partition whose files differ in row type is planned again in runs of one row type, and returned with that plan.
    Raises JobError (Interrupted) on SIGTERM while parts are stitched or runs are merged.
    """
    merged = _merge(prepared, runner, done)
    found = [in_runs(one) if isinstance(one.error, RowTypesDiffer) else one for one in merged]
    again = [one for one in found if isinstance(one, Prepared)]
    later = iter(_merge(again, runner, lambda _: interruption.check()) if again else ())
    return [next(later) if isinstance(one, Prepared) else one for one in found]


def _merge(prepared: Sequence[Prepared], runner: TaskRunner, done: Done) -> list[Merged]:
    outcomes = _run(runner, [piece for item in prepared for piece in item.work()], done)
    stitching = [piece for item in prepared for piece in _stitching(item, outcomes)]
    outcomes |= _run(runner, stitching, lambda _: interruption.check())
    return [_merged(item, outcomes) for item in prepared]


def _run(runner: TaskRunner, work: Sequence[SizedTask], done: Done) -> dict[str, Outcome]:
    return {outcome.output: outcome for outcome in runner.run(work, done)}


def _stitching(item: Prepared, outcomes: Mapping[str, Outcome]) -> list[SizedTask]:
    """Return the work that joins the parts of a partition's cut buckets; none if one of its tasks failed."""
    try:
        results = _results([piece.task.output for piece in item.work()], outcomes)
    except JobError:
        return []
    cut = [bucket for bucket in item.buckets if len(bucket.parts) > 1]
    return [bucket.stitching(results[part.task.output] for part in bucket.parts) for bucket in cut]


def _merged(item: Prepared, outcomes: Mapping[str, Outcome]) -> Merged:
    try:
        _results([piece.task.output for piece in item.work()], outcomes)
        results = _results([bucket.whole.output for bucket in item.buckets], outcomes)
    except JobError as error:
        return Merged(item, error=error)
    return Merged(item, tuple(MergedBucket(bucket, results[bucket.whole.output]) for bucket in item.buckets))


def _results(outputs: Collection[str], outcomes: Mapping[str, Outcome]) -> dict[str, MergeResult]:
    """Return the results by output; raises JobError for the first failure, whose message names the file."""
    found = [outcomes[output] for output in outputs if output in outcomes]
    for outcome in found:
        if outcome.error is not None:
            raise _failure(outcome, outcome.error)
    results = {outcome.output: outcome.result for outcome in found if outcome.result is not None}
    if len(results) != len(outputs):
        raise JobError(Reason.VERIFICATION_FAILED, f"{len(outputs)} tasks gave {len(results)} results")
    return results


def _failure(outcome: Outcome, message: str) -> JobError:
    if outcome.mistyped:
        return RowTypesDiffer(message)
    reason = Reason.STORAGE_UNAVAILABLE if outcome.unavailable else Reason.UNREADABLE_FILE
    return (RepeatedRow if outcome.repeated else JobError)(reason, message)
