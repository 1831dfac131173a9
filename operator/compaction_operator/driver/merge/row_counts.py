"""Verification of row and delete event counts, read against written, before publication (hazard H18). Pure."""

from collections.abc import Sequence

from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.merge.partition import Merged, Prepared
from compaction_operator.orc import EventKind, MergeResult


def verify(merged: Merged) -> None:
    """Check that all buckets have results and that these add up.

    Raises JobError: the one that prevented results, or one that names the file whose counts do not add up.
    """
    if merged.error:
        raise merged.error
    prepared = merged.prepared
    if len(merged.buckets) != len(prepared.buckets):
        raise _mismatch(prepared, f"{len(prepared.buckets)} buckets gave {len(merged.buckets)} results")
    for found in merged.buckets:
        if found.kind is EventKind.INSERT and (problem := _rows_problem(found.result)):
            raise _mismatch(prepared, f"{found.bucket.directory}/{found.bucket.name}: {problem}")
    for output, results in merged.delete_results.items():
        _verify_deletes(prepared, output, results)


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


def _verify_deletes(prepared: Prepared, output: str, results: Sequence[MergeResult]) -> None:
    """Check that each delete event is in exactly one bucket of an output. Every bucket's tasks read all of them."""
    read = {result.delete_events_in for result in results}
    written = sum(result.delete_events_out for result in results)
    if read != {written}:
        raise _mismatch(prepared, f"{output}: {sorted(read)} delete events were read and {written} written")


def _mismatch(prepared: Prepared, message: str) -> JobError:
    return JobError(Reason.VERIFICATION_FAILED, f"{prepared.target.location}: {message}: nothing is published")
