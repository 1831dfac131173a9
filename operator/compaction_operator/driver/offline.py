"""Planning and compaction of one directory without metastore or Kubernetes: the `plan` and `compact` commands."""

import os
from dataclasses import dataclass

from compaction_operator.acid.names import may_become_obsolete
from compaction_operator.acid.plan import CompactionPlan
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import Forecast, Totals
from compaction_operator.cleanup.fence import fence
from compaction_operator.cleanup.staging import staging_name
from compaction_operator.driver.errors import RowTypesDiffer
from compaction_operator.driver.hive.publish import leave, publish
from compaction_operator.driver.merge.calibration import measured_factor
from compaction_operator.driver.merge.execute import merge
from compaction_operator.driver.merge.forecast import Run, cpu_of, forecast, run_of
from compaction_operator.driver.merge.partition import (
    Basis,
    Merged,
    OpenTarget,
    Prepared,
    Request,
    assemble,
    cut,
    make_staging,
    prepare,
    totals_of,
)
from compaction_operator.driver.merge.row_counts import verify
from compaction_operator.driver.merge.runner import TaskRunner
from compaction_operator.driver.merge.runs import cut_in_runs
from compaction_operator.orc import OrcError, RowTypeError
from compaction_operator.storage import EntryKind, StorageError


@dataclass(frozen=True)
class Planned:
    """The result of `plan`: the plan, and what it will do and occupy.

    There is no forecast if there is nothing to do, or if `problem` says which file cannot be read or merged. `apart`
    says why deltas will be merged in runs of one row type, if they will.
    """

    plan: CompactionPlan
    forecast: Forecast | None = None
    run: Run | None = None
    problem: str | None = None
    apart: str | None = None


@dataclass(frozen=True)
class Compacted:
    """The result of `compact`. A plan without output directories means that there was nothing to do.

    `apart` says why deltas were merged in runs of one row type, if they were.
    """

    plan: CompactionPlan
    totals: Totals
    cpu_milliseconds: int
    apart: str | None = None


def plan_directory(location: str, *, write_ids: ValidWriteIdList, request: Request) -> Planned:
    """Return what a compaction of the directory would do, without writing anything.

    Raises StorageError when the location is not a table or partition directory, and UnsupportedLayout or
    NotEnoughHistory when it cannot be compacted.
    """
    return plan_target(_target(location), write_ids=write_ids, request=request)


def plan_target(target: OpenTarget, *, write_ids: ValidWriteIdList, request: Request) -> Planned:
    """Return what a compaction of one table's or partition's directory would do. Raises as `plan_directory` does."""
    basis = Basis(target.storage.list_partition(target.location), write_ids, request)
    plan = basis.plan()
    try:
        return _forecast(cut(target, plan, basis))
    except (OrcError, RowTypesDiffer) as error:
        return Planned(plan, problem=str(error))


def _forecast(prepared: Prepared) -> Planned:
    """Forecast what `merge` will do: where files differ in row type, in runs. Raises OrcError, and RowTypesDiffer."""
    if not prepared.plan.outputs:
        return Planned(prepared.plan, apart=prepared.apart)
    try:
        expected = forecast(prepared, factor=measured_factor())
    except RowTypeError as error:
        if prepared.apart:
            raise
        return _forecast(cut_in_runs(prepared, str(error)))
    return Planned(prepared.plan, expected, run_of(prepared, expected.cpu_milliseconds), apart=prepared.apart)


def compact_directory(location: str, *, write_ids: ValidWriteIdList, request: Request, runner: TaskRunner) -> Compacted:
    """Compact the directory in place and keep the obsolete directories. No reader may run meanwhile.

    Raises the errors of `plan_directory`, JobError for an unreadable file or row counts that do not add up, and
    StorageError where directories cannot be renamed. After an error the directory is unchanged.
    """
    target = _target(location)
    _require_renames(target)
    fence(target.storage, location, keep=None)
    prepared = prepare(target, target.storage.list_partition(location), write_ids=write_ids, request=request)
    if not prepared.plan.outputs:
        return Compacted(prepared.plan, Totals(), 0)
    try:
        make_staging(target)
        (merged,) = merge([prepared], runner)
        return _published(merged)
    except BaseException:
        fence(target.storage, location, keep=None)
        raise


def _published(merged: Merged) -> Compacted:
    verify(merged)
    done = merged.prepared
    if not done.plan.outputs:
        leave(done)
        return Compacted(done.plan, Totals(), 0, done.apart)
    assemble(merged)
    publish(done, guard=lambda: None)
    return Compacted(done.plan, totals_of(merged), cpu_of(merged), done.apart)


def _require_renames(target: OpenTarget) -> None:
    """Refuse a store where an output would appear file by file.

    NB: readers take a part of a base for the whole, and here no transaction hides it until it is complete.
    """
    if not target.storage.abilities.atomic_directory_rename:
        why = "this store cannot rename a complete directory into place"
        raise StorageError(f"{target.location} can be planned, but not compacted offline: {why}")


def _target(location: str) -> OpenTarget:
    """Return the directory as a target. The metastore's part of it is unknown and never used.

    Raises StorageError for a location without ACID directories or original files.
    """
    target = OpenTarget("", location, 0, staging_name(uid="offline", attempt=1, pod_uid=f"{os.getpid():08d}"))
    entries = target.storage.list(location)
    if any(entry.kind is EntryKind.DIRECTORY and "=" in entry.name for entry in entries):
        raise StorageError(f"{location} holds partitions: name one partition's directory (as in prt=p1)")
    if not any(may_become_obsolete(entry.name) for entry in entries):
        raise StorageError(f"{location} is not a table directory: it holds no base, delta or original files")
    return target
