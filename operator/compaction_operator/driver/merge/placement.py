"""Where a batch is merged: in the driver's process, or on Spark with so many executors. Pure."""

from dataclasses import dataclass

from compaction_operator.api.compaction import AUTO, ExecutorResources
from compaction_operator.api.model import counted
from compaction_operator.driver.merge.load import Load

LOCAL_SECONDS = 10.0
"""What one core may take for work in the driver's process. Spark's start alone takes as long: a JVM and its context."""

PATIENCE_SECONDS = 3 * LOCAL_SECONDS
"""How long the driver's process merges, against the estimate, until it places what is left again."""

EXECUTOR_SECONDS = 60.0
"""The least work for each core of an executor with Auto. A pod takes about 10 seconds until it has its first task."""

EXECUTOR_WAIT_SECONDS = 300.0
"""How long Auto waits for the first executor, before the driver's pod does the work: as a cluster needs for a new node.

NB: a compaction that asks for a number waits for the profile's start_timeout.
"""


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


@dataclass(frozen=True, slots=True)
class Past:
    """What the driver's process has merged so far: the seconds that it took, and what its load was estimated at."""

    seconds: float = 0.0
    estimated: float = 0.0

    @property
    def is_long(self) -> bool:
        """Whether it took so long that the rest should be placed again, by the pace so far."""
        return self.seconds > PATIENCE_SECONDS

    @property
    def pace(self) -> float:
        """How many times its estimate it took; never less than 1."""
        return max(1.0, self.seconds / self.estimated) if self.estimated else 1.0

    def and_then(self, load: Load, seconds: float) -> "Past":
        """Return the past after that load was merged in so many seconds."""
        return Past(self.seconds + seconds, self.estimated + load.seconds)


NO_PAST = Past()
"""Nothing was merged yet."""


def place(load: Load, limits: Limits, *, tasks: int, past: Past, doubt: str = "") -> Placement:
    """Return where to merge a batch of `tasks` tasks, until Spark runs.

    The driver's earlier batches count, too. `doubt` says why the load is not fully known: then it is taken for large. A
    number of executors in the compaction is what it gets, whatever the load.
    """
    cost = f"{load}: about {_seconds(load.seconds)} on one core"
    if past.seconds:
        cost += f", after {_seconds(past.seconds)} for earlier batches"
    if doubt:
        cost += f", but {doubt}"
    asked = limits.executors.asked
    if not (asked or doubt) and load.seconds + past.seconds <= LOCAL_SECONDS:
        return Placement(None, f"{cost}; done in the driver")
    return _on_spark(cost, load.seconds, limits, tasks=tasks)


def place_rest(estimated: float, limits: Limits, *, tasks: int, past: Past) -> Placement:
    """Return where to merge the `tasks` tasks that are left of a batch, after others took the driver unexpectedly long.

    Their seconds were estimated as those of the others were, and may be as much too low: stripes that cannot be copied,
    rows that take few bytes, a slow store.
    """
    seconds = estimated * past.pace
    cost = f"{_seconds(past.seconds)} went by in the driver; the {counted(tasks, 'task')} left would take about"
    cost += f" {_seconds(seconds)} more"
    if seconds <= LOCAL_SECONDS:
        return Placement(None, f"{cost}; done in the driver")
    return _on_spark(cost, seconds, limits, tasks=tasks)


def _on_spark(cost: str, seconds: float, limits: Limits, *, tasks: int) -> Placement:
    asked = limits.executors.asked
    executors = _executors(seconds, limits, tasks=tasks) if limits.executors.instances == AUTO else asked
    where = f"on {counted(executors, 'executor')}" if executors else "in the driver's pod"
    return Placement(executors, f"{cost}; done by Spark {where}{', as asked' if asked else ''}")


def _executors(seconds: float, limits: Limits, *, tasks: int) -> int:
    """Return how many executors the attempt is worth if its other batches are like this one; a task fills a core."""
    cores = min(tasks, max(1, round(seconds * limits.batches / EXECUTOR_SECONDS)))
    return min(limits.most, -(-cores // limits.executors.cores))


def _seconds(number: float) -> str:
    return f"{number:.1f} s" if number < 10 else f"{number:.0f} s"
