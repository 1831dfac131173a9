"""Where merge tasks run: in this process, or as Spark tasks. A task that fails gives its error, not an exception."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from compaction_operator.orc import ArrowEngine, MergeResult, MergeTask, OrcError, verify_output


@dataclass(frozen=True)
class Outcome:
    """What came of one task: a result, or the error's text."""

    result: MergeResult | None = None
    error: str | None = None


class TaskRunner(Protocol):
    """Runs merge tasks and returns their outcomes in the order of the tasks."""

    def run(self, tasks: Sequence[MergeTask]) -> list[Outcome]:
        """Return the outcome of each task, in order."""
        ...


class LocalRunner:
    """Runs the tasks one after another in this process."""

    def run(self, tasks: Sequence[MergeTask]) -> list[Outcome]:
        """Return the outcome of each task, in order."""
        return [_merge(task, 0) for task in tasks]


class SparkRunner:
    """Runs each task as a Spark task of its own; row data never crosses into the JVM.

    Spark is started with the first task: where there is nothing to compact, it never is.
    """

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self._context: Any = None

    def run(self, tasks: Sequence[MergeTask]) -> list[Outcome]:
        """Return the outcome of each task, in order."""
        if not tasks:
            return []
        if self._context is None:
            self._context = self._start()
        outcomes: list[Outcome] = self._context.parallelize(tasks, len(tasks)).map(_merge_in_spark).collect()
        return outcomes

    def stop(self) -> None:
        """Stop Spark, with its executors, if it was started."""
        if self._context is not None:
            self._context.stop()


def _merge_in_spark(task: MergeTask) -> Outcome:
    from pyspark import TaskContext  # noqa: PLC0415 - only where Spark runs it

    context = TaskContext.get()
    return _merge(task, context.taskAttemptId() if context else 0)


def _merge(task: MergeTask, attempt: int) -> Outcome:
    """Merge into a file of this task attempt's own, so that a second attempt never meets the first one's; check it."""
    try:
        result = ArrowEngine().merge(replace(task, output=f"{task.output}.{attempt}"))
        verify_output(result.output, result)
        return Outcome(result=result)
    except OrcError as error:
        return Outcome(error=str(error))
