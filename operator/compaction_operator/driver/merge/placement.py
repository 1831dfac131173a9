"""Where a batch is merged: in the driver's process, or on Spark with so many executors. Pure."""

from dataclasses import dataclass

from compaction_operator.api.compaction import AUTO, ExecutorResources
from compaction_operator.api.model import counted
from compaction_operator.driver.merge.load import Load

LOCAL_SECONDS = 10.0
"""What one core may take for work in the driver's process. Spark's start alone takes as long: a JVM and its context."""

EXECUTOR_SECONDS = 60.0
"""The least work for each core of an executor with Auto. A pod takes about 10 seconds until it has its first task."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the compaction and its profile allow, and the number of batches that the attempt has at most.

    `most` limits the executors with Auto, where 0 means none.
    """

    executors: ExecutorResources
    most: int
    batches: int = 1


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a batch is merged, and a line that says why.

    `executors` is None for the driver's process. Otherwise Spark merges it, without executors in the driver's pod.
    """

    executors: int | None
    why: str


def place(load: Load, limits: Limits, *, tasks: int, spent: float) -> Placement:
    """Return where to merge a batch of `tasks` tasks, until Spark runs.

    `spent` is the seconds that the driver's process has merged earlier batches: those count, too. A number of executors
    in the compaction is what it gets, whatever the load.
    """
    cost = f"{load}: about {_seconds(load.seconds)} on one core"
    if spent:
        cost += f", after {_seconds(spent)} for earlier batches"
    asked = limits.executors.asked
    if not asked and load.seconds + spent <= LOCAL_SECONDS:
        return Placement(None, f"{cost}; done in the driver")
    executors = _executors(load, limits, tasks=tasks) if limits.executors.instances == AUTO else asked
    where = f"on {counted(executors, 'executor')}" if executors else "in the driver's pod"
    return Placement(executors, f"{cost}; done by Spark {where}{', as asked' if asked else ''}")


def _executors(load: Load, limits: Limits, *, tasks: int) -> int:
    """Return how many executors the attempt is worth if its other batches are like this one; a task fills a core."""
    cores = min(tasks, max(1, round(load.seconds * limits.batches / EXECUTOR_SECONDS)))
    return min(limits.most, -(-cores // limits.executors.cores))


def _seconds(number: float) -> str:
    return f"{number:.1f} s" if number < 10 else f"{number:.0f} s"
