"""Thresholds: whether a partition is due, as Hive's Initiator decides it (Initiator.determineCompactionType).

A Hudi table is due as Hudi's scheduler decides it (ScheduleCompactionActionExecutor with the trigger NUM_COMMITS).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.model import counted, format_duration
from compaction_operator.api.policy import Thresholds
from compaction_operator.errors import OperatorError
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.timeline import TimelineMeasure

PREFIX = "compactorthreshold."
"""Prefix of Hive's own table properties that override its thresholds."""
DELTAS = "hive.compactor.delta.num.threshold"
DELTA_RATIO = "hive.compactor.delta.pct.threshold"
ABORTED_WRITES = "hive.compactor.abortedtxn.threshold"
SMALL_FILES = "compaction.dev/policy.smallFiles"
DELETE_PERCENT = "compaction.dev/policy.deletePercent"
DELTA_COMMITS = "hoodie.compact.inline.max.delta.commits"
LOG_BLOCKS = "hoodie.log.compaction.blocks.threshold"
"""Hudi's own names, as they may be in a table's properties."""


class ThresholdError(OperatorError, ValueError):
    """A table property that overrides a threshold is not a number."""


@dataclass(frozen=True, slots=True)
class Due:
    """The type of compaction that a partition needs, and why."""

    type: CompactionType
    reason: str


def overridden(thresholds: Thresholds, parameters: Mapping[str, str]) -> Thresholds:
    """Return a policy's thresholds with those that a table's properties override. Raises ThresholdError."""
    given = {
        "deltas": _number(parameters, PREFIX + DELTAS),
        "delta_percent": _number(parameters, PREFIX + DELTA_RATIO, factor=100),
        "aborted_writes": _number(parameters, PREFIX + ABORTED_WRITES),
        "small_files": _number(parameters, SMALL_FILES),
        "delete_percent": _number(parameters, DELETE_PERCENT),
        "delta_commits": _number(parameters, DELTA_COMMITS, least=1),
        "log_blocks": _number(parameters, LOG_BLOCKS, least=2),
    }
    return thresholds.model_copy(update={name: value for name, value in given.items() if value is not None})


def due(found: Measure | TimelineMeasure, thresholds: Thresholds, *, aborted_for: timedelta) -> Due | None:
    """Return what a partition needs, None if nothing; `aborted_for` is how long its aborted writes are known.

    The order is Hive's: aborted writes, then the ratio of deltas to base, then the number of deltas, which asks for a
    major compaction where there is no base. NB: a single delta without a base is nothing to merge. The thresholds that
    Hive does not have come last.
    """
    if isinstance(found, TimelineMeasure):
        return _due_by_commits(found, thresholds)
    if found.aborted > thresholds.aborted_writes:
        return Due(CompactionType.MAJOR, f"{counted(found.aborted, 'aborted write')} > {thresholds.aborted_writes}")
    if found.aborted and aborted_for.total_seconds() > thresholds.aborted_age:
        return Due(CompactionType.MAJOR, f"aborted writes older than {format_duration(thresholds.aborted_age)}")
    if found.base_bytes and found.delta_bytes * 100 > found.base_bytes * thresholds.delta_percent:
        percent = found.delta_bytes * 100 // found.base_bytes
        return Due(CompactionType.MAJOR, f"deltas are {percent}% of the base > {thresholds.delta_percent}%")
    if found.deltas > max(1, thresholds.deltas):
        type_ = CompactionType.MINOR if found.base_bytes else CompactionType.MAJOR
        return Due(type_, f"{counted(found.deltas, 'delta')} > {thresholds.deltas}")
    return _due_beside_hive(found, thresholds)


def _due_beside_hive(found: Measure, thresholds: Thresholds) -> Due | None:
    """Return what a partition needs by the thresholds that Hive does not have."""
    data = found.base_bytes + found.delta_bytes - found.delete_bytes
    if thresholds.delete_percent is not None and found.delete_bytes * 100 > data * thresholds.delete_percent:
        share = f"delete events are {found.delete_bytes * 100 // (data or 1)}% of the data"
        return Due(CompactionType.MAJOR, f"{share} > {thresholds.delete_percent}%")
    if thresholds.small_files is not None and _small_files(found) > thresholds.small_files:
        minor = found.base_bytes and found.small_files > thresholds.small_files
        type_ = CompactionType.MINOR if minor else CompactionType.MAJOR
        return Due(type_, f"{counted(_small_files(found), 'small file')} > {thresholds.small_files}")
    return None


def _small_files(found: Measure) -> int:
    return found.small_files + found.small_base_files


def _due_by_commits(found: TimelineMeasure, thresholds: Thresholds) -> Due | None:
    """Return what a Hudi table needs: a compaction does all that a log compaction would."""
    if found.delta_commits >= thresholds.delta_commits:
        commits = f"{counted(found.delta_commits, 'delta commit')} since the last compaction"
        return Due(CompactionType.COMPACTION, f"{commits} >= {thresholds.delta_commits}")
    if found.log_blocks >= thresholds.log_blocks:
        commits = f"{counted(found.log_blocks, 'delta commit')} since the last log compaction"
        return Due(CompactionType.LOG_COMPACTION, f"{commits} >= {thresholds.log_blocks}")
    return None


@dataclass(frozen=True, slots=True)
class Check:
    """One threshold, as `spec.thresholds` names it, and what a partition has of it. A time is in seconds.

    `value` is None where the threshold does not apply: there is no base to compare with.
    """

    threshold: str
    value: float | None
    limit: float
    exceeded: bool


def checks(found: Measure | TimelineMeasure, thresholds: Thresholds, *, aborted_for: timedelta) -> tuple[Check, ...]:
    """Return the numbers behind `due`, for people: the first check that is exceeded is its reason."""
    if isinstance(found, TimelineMeasure):
        commits, blocks = thresholds.delta_commits, thresholds.log_blocks
        return (
            Check("deltaCommits", found.delta_commits, commits, found.delta_commits >= commits),
            Check("logBlocks", found.log_blocks, blocks, found.log_blocks >= blocks),
        )
    age = aborted_for.total_seconds() if found.aborted else 0.0
    share = round(found.delta_bytes * 100 / found.base_bytes, 1) if found.base_bytes else None
    too_many = found.deltas > max(1, thresholds.deltas)
    above = bool(found.base_bytes) and found.delta_bytes * 100 > found.base_bytes * thresholds.delta_percent
    return (
        Check("abortedWrites", found.aborted, thresholds.aborted_writes, found.aborted > thresholds.aborted_writes),
        Check("abortedAge", age, thresholds.aborted_age, age > thresholds.aborted_age),
        Check("deltaPercent", share, thresholds.delta_percent, above),
        Check("deltas", found.deltas, thresholds.deltas, too_many),
        *_checks_beside_hive(found, thresholds),
    )


def _checks_beside_hive(found: Measure, thresholds: Thresholds) -> Iterator[Check]:
    data = found.base_bytes + found.delta_bytes - found.delete_bytes
    if (limit := thresholds.delete_percent) is not None:
        share = round(found.delete_bytes * 100 / data, 1) if data else None
        yield Check("deletePercent", share, limit, found.delete_bytes * 100 > data * limit)
    if (limit := thresholds.small_files) is not None:
        yield Check("smallFiles", _small_files(found), limit, _small_files(found) > limit)


def _number(parameters: Mapping[str, str], name: str, *, factor: int = 1, least: int = 0) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    try:
        value = round(float(text) * factor)
    except (ValueError, OverflowError) as error:
        raise ThresholdError(f"table property {name} is {text!r}; write a number") from error
    if value < least:
        raise ThresholdError(f"table property {name} is {text!r}; write a number of at least {least}")
    return value
