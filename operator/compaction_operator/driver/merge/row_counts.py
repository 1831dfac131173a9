"""Verification of row and delete event counts, read against written, before publication (hazard H18). Pure."""

from collections.abc import Sequence

from compaction_operator.acid.names import bucket_file_name
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.merge.partition import Prepared
from compaction_operator.orc import EventKind, MergeResult


def verify(prepared: Prepared, results: Sequence[MergeResult]) -> None:
    """Check the results of all buckets, in order; raises JobError naming the file whose counts do not add up."""
    found = list(prepared.buckets())
    if len(results) != len(found):
        raise _mismatch(prepared, f"{len(found)} buckets gave {len(results)} results")
    deletes = []
    for (output, bucket), result in zip(found, results, strict=True):
        if bucket.whole.kind is EventKind.DELETE:
            deletes.append(result)
        elif problem := _rows_problem(result):
            raise _mismatch(prepared, f"{output.name}/{bucket_file_name(bucket.whole.bucket)}: {problem}")
    _verify_deletes(prepared, deletes)


def _rows_problem(result: MergeResult) -> str | None:
    """Describe what is wrong with the rows of one bucket, or return None.

    Without delete events no row of any write id may be missing.
    """
    if result.rows_in - result.rows_deleted != result.rows_out:
        return f"{result.rows_in} rows in, {result.rows_deleted} deleted, {result.rows_out} out"
    if result.rows_deleted > result.delete_events_in:
        return f"{result.rows_deleted} rows are gone, but there are only {result.delete_events_in} delete events"
    if (sum(result.rows_in_by_write_id.values()), sum(result.rows_out_by_write_id.values())) != (
        result.rows_in,
        result.rows_out,
    ):
        return "the rows by write id do not add up to all rows"
    for write_id, rows in result.rows_out_by_write_id.items():
        if rows > result.rows_in_by_write_id.get(write_id, 0):
            return f"more rows of write id {write_id} come out than went in"
    return None


def _verify_deletes(prepared: Prepared, results: Sequence[MergeResult]) -> None:
    """Check that each delete event is in exactly one bucket's output. Every bucket's tasks read all of them."""
    read = {result.delete_events_in for result in results}
    written = sum(result.delete_events_out for result in results)
    if results and read != {written}:
        output = prepared.plan.outputs[-1].name
        raise _mismatch(prepared, f"{output}: {sorted(read)} delete events were read and {written} written")


def _mismatch(prepared: Prepared, message: str) -> JobError:
    return JobError(Reason.VERIFICATION_FAILED, f"{prepared.location}: {message}: nothing is published")
