"""A partition whose files differ in row type is merged in runs of files with one row type."""

from collections import defaultdict
from dataclasses import replace

from compaction_operator import orc
from compaction_operator.acid.plan import CompactionPlan
from compaction_operator.acid.runs import OF_TABLE, RowTypes
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.model import counted
from compaction_operator.driver.errors import PARTITION_ERRORS, RowTypesDiffer, at_location
from compaction_operator.driver.merge.partition import Merged, Prepared, cut, empty_staging
from compaction_operator.driver.merge.tails import by_path
from compaction_operator.orc import EventKind

NOT_ACID = "not an ACID file"
"""What rows of LOAD DATA have beside another row type than the table's: such a file is merged with no other."""

_WHAT_TO_DO = (
    "Minor merges the deltas in runs of files with one row type; for Major, rewrite the partition with INSERT OVERWRITE"
)


def in_runs(merged: Merged) -> Prepared | Merged:
    """Plan and cut a partition again, in runs, where a task found that its files differ in row type.

    Such a partition is rare, so only then the driver reads the tails of all its files. Returns a major compaction, or
    a partition that cannot be planned in runs, as failed. Raises JobError (Interrupted) on SIGTERM.
    """
    prepared = merged.prepared
    try:
        again = cut_in_runs(prepared, str(merged.error))
        empty_staging(prepared.target)
    except RowTypesDiffer as error:
        return replace(merged, error=error)
    except PARTITION_ERRORS as error:
        return replace(merged, error=at_location(error, prepared.target.location))
    return again


def cut_in_runs(prepared: Prepared, difference: str) -> Prepared:
    """Plan and cut a partition again, in runs; writes nothing. `difference` says how its files differ in row type.

    Raises RowTypesDiffer for a major compaction, and what `prepare` raises.
    """
    if prepared.basis.request.type is CompactionType.MAJOR:
        raise RowTypesDiffer(f"{difference}; {_WHAT_TO_DO}")
    plan = prepared.basis.plan(_row_types(prepared))
    return replace(cut(prepared.target, plan, prepared.basis), apart=_apart(prepared, plan, difference))


def _row_types(prepared: Prepared) -> RowTypes:
    """Read the tail of each file with rows; raises OrcError, and JobError (Interrupted) on SIGTERM."""
    tasks = [bucket.whole for bucket in prepared.buckets if bucket.whole.kind is EventKind.INSERT]
    files = {file.path: file for task in tasks for file in task.inputs}
    table = prepared.basis.request.row_type
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path, type_ in by_path(files, lambda path: orc.row_type(files[path], table)).items():
        raw = files[path].original is not None and type_ != OF_TABLE
        found[path.split("/")[-2]] |= {type_, NOT_ACID} if raw else {type_}
    return {directory: frozenset(types) for directory, types in found.items()}


def _apart(prepared: Prepared, plan: CompactionPlan, difference: str) -> str:
    later = f", {counted(plan.postponed, 'run')} of them by the next compaction" if plan.postponed else ""
    why = "deltas are merged in runs of files with one row type"
    return f"{prepared.target.location}: {why}{later}: {difference}"
