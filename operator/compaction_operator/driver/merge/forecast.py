"""The forecast of a partition's compaction: from its plan alone, or beside what was written by that plan."""

from collections.abc import Sequence
from dataclasses import dataclass

from compaction_operator import orc
from compaction_operator.api.compaction import ExecutorResources, Forecast
from compaction_operator.api.config import MAX_AUTO_EXECUTORS
from compaction_operator.driver.merge.cost import cpu_seconds
from compaction_operator.driver.merge.partition import Merged, Prepared, keeps_empty
from compaction_operator.driver.merge.placement import Limits
from compaction_operator.driver.merge.runner import placed
from compaction_operator.driver.merge.tasks import BucketWork
from compaction_operator.orc import MergeForecast, MergeTask

DRIVER_SECONDS = 2.0
"""From the start of a driver's process to its end, without its tasks."""

SPARK_SECONDS = 20.0
"""What Spark adds to this: a JVM and its context, and executors' pods until they have their first task."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a compaction occupies: pods, and seconds from the start of its driver where pods start at once."""

    pods: int
    seconds: int


def forecast(prepared: Prepared, *, factor: float) -> Forecast:
    """Return what the compaction of a planned partition will read, write and cost; writes nothing.

    `factor` is how many times the reference machine's CPU time the tasks will take (`calibration`). It reads the tails
    of all inputs, their delete events, and the keys of stripes that these may touch. Raises OrcError for a file that
    cannot be read or merged.
    """
    return _sum(prepared, [(bucket, _by_plan(bucket)) for bucket in prepared.buckets], factor)


def _by_plan(bucket: BucketWork) -> MergeForecast:
    tasks = [piece.task for piece in bucket.parts if isinstance(piece.task, MergeTask)]
    return sum((orc.forecast_bucket(task) for task in tasks), MergeForecast())


def forecast_of(merged: Merged, *, factor: float) -> Forecast:
    """Return the forecast of a partition that is merged: the same as `forecast`, as each task made it on its way."""
    return _sum(merged.prepared, [(found.bucket, found.result.forecast) for found in merged.buckets], factor)


def cpu_of(merged: Merged) -> int:
    """Return the CPU milliseconds that the tasks of a partition took."""
    return round(1000 * sum(found.result.cpu_seconds for found in merged.buckets))


def run_of(prepared: Prepared, cpu_milliseconds: int) -> Run:
    """Return the pods and the time of a compaction whose tasks take so long, as the driver places it with Auto.

    Raises OrcError as `forecast` does.
    """
    resources, work = ExecutorResources(), list(prepared.work())
    executors = placed(work, Limits(resources, most=MAX_AUTO_EXECUTORS)).executors
    start = DRIVER_SECONDS if executors is None else DRIVER_SECONDS + SPARK_SECONDS
    cores = max(1, min(len(work), (executors or 0) * resources.cores))
    return Run(pods=1 + (executors or 0), seconds=round(start + cpu_milliseconds / 1000 / cores))


def _sum(prepared: Prepared, found: Sequence[tuple[BucketWork, MergeForecast]], factor: float) -> Forecast:
    layout = prepared.plan.layout
    written = [one for bucket, one in found if not one.is_empty or keeps_empty(layout, bucket.whole.kind)]
    return Forecast(
        files_in=len(prepared.inputs),
        bytes_in=prepared.bytes_in,
        bytes_copied=sum(one.bytes_copied for one in written),
        bytes_rewritten=sum(one.bytes_rewritten for one in written),
        rows_removed=sum(one.rows_removed for _, one in found),
        cpu_milliseconds=round(1000 * factor * sum(cpu_seconds(one, tasks=len(cut.parts)) for cut, one in found)),
    )
