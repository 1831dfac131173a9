"""Task runners: in this process, or as Spark tasks. A failed task returns its error instead of raising it."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from compaction_operator import orc
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError, Unstopped
from compaction_operator.driver.merge.load import NOTHING, Load
from compaction_operator.driver.merge.placement import NO_PAST, Limits, Past, Placement, place, place_rest
from compaction_operator.driver.merge.tails import by_path
from compaction_operator.driver.merge.tasks import SizedTask, StitchTask, combined, grouped
from compaction_operator.errors import OperatorError
from compaction_operator.orc import (
    Check,
    EventKind,
    MergeResult,
    MergeTask,
    OrcError,
    RepeatedRowError,
    RowTypeError,
    checked,
    unchecked,
)
from compaction_operator.storage import is_passing

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""The interval at which the driver looks whether work has ended, or it has to end itself."""

STOP_SECONDS = 15.0
"""How long a task in this process may take to its next check. A call to a store may take longer, and a pod has 60."""

Done = Callable[[int], None]
"""Progress callback; it receives the number of finished bytes of the work from time to time."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of the task with that output: a result, or an error message.

    `repeated` marks a RepeatedRowError, `mistyped` a RowTypeError, `unavailable` a store that did not answer.
    """

    output: str
    result: MergeResult | None = None
    error: str | None = None
    repeated: bool = False
    mistyped: bool = False
    unavailable: bool = False


class TaskRunner(Protocol):
    """A runner of tasks."""

    def run(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
        """Return the outcome of each task."""
        ...


class LocalRunner:
    """A runner that executes the tasks one after another in this process."""

    def run(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
        """Return the outcome of each task. Raises what `done` raises, or Unstopped, as `_run_beside` does."""
        outcomes = []
        size = 0
        for piece in work:
            outcomes.append(_run_beside(piece.task, partial(done, size)))
            size += piece.bytes
            done(size)
        return outcomes


class _Stopped(Exception):  # noqa: N818 - no failure
    """What a task raises at its next check once it has to end."""


def _run_beside(task: MergeTask | StitchTask, poll: Callable[[], object]) -> Outcome:
    """Run a task in a thread of its own, and poll meanwhile: the driver may get SIGTERM.

    Raises what `poll` raises, once the task has ended: it writes nothing more then. Raises Unstopped instead of a
    JobError if it does not end in time. NB: a daemon, because Python would wait for the end of any other thread.
    """
    stop = threading.Event()
    ended: Future[Outcome] = Future()

    def check() -> None:
        if stop.is_set():
            raise _Stopped

    def work() -> None:
        try:
            ended.set_result(_run(task, "0", check=check))
        except BaseException as error:
            ended.set_exception(error)

    threading.Thread(target=work, name="task", daemon=True).start()
    try:
        while wait([ended], timeout=POLL_SECONDS).not_done:
            poll()
    except BaseException as error:
        stop.set()
        if wait([ended], timeout=STOP_SECONDS).not_done and isinstance(error, JobError):
            raise Unstopped(error.reason, f"{error}; {task.output} is still being written") from error
        raise
    return ended.result()


class NoExecutorError(OperatorError):
    """Spark has not begun any task: no executor has come, or Spark cannot have any."""


class SparkRunner:
    """A runner that executes groups of tasks as Spark tasks; row data never crosses into the JVM.

    `slots` is the number of Spark tasks that run concurrently. `task_bytes` limits the input of small tasks that share
    one Spark task. The first task starts Spark, so it never starts when there is nothing to compact. `patience` is how
    many seconds it waits for the first executor; None is for as long as it takes. A failure of Spark before that is a
    NoExecutorError, too, if the work is `replaceable`: if it can be done without executors.
    """

    def __init__(
        self,
        start: Callable[[], Any],
        *,
        slots: int,
        task_bytes: int,
        patience: float | None = None,
        replaceable: bool = True,
    ) -> None:
        self._start = start
        self._slots = slots
        self._task_bytes = task_bytes
        self._patience = patience
        self._replaceable = replaceable
        self._context: Any = None

    def run(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
        """Return the outcome of each task. Raises NoExecutorError, and has written nothing that counts."""
        if not work:
            return []
        try:
            outcomes = self._collected(work, done)
        except OperatorError:
            raise
        except Exception as error:
            if self._patience is None or not self._replaceable:
                raise
            # As where the driver may not make pods, or see its own.
            log.warning("Spark has failed without an executor", exc_info=error)
            raise NoExecutorError(f"Spark has failed without an executor: {_first_words(error)}") from error
        self._patience = None
        done(sum(piece.bytes for piece in work))
        return outcomes

    def _collected(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
        """Run the tasks as one job of Spark, which starts now if it has not yet, and return their outcomes."""
        if self._context is None:
            self._context = self._start()
        groups = list(grouped(work, slots=self._slots, limit=self._task_bytes))
        finished, application = self._context.accumulator(0), self._context.applicationId
        job = self._context.parallelize(groups, len(groups)).flatMap(
            lambda group: _run_in_spark(group, finished, application)
        )
        begun = time.monotonic()
        with ThreadPoolExecutor(max_workers=1) as pool:
            collected = pool.submit(job.collect)
            try:
                while wait([collected], timeout=POLL_SECONDS).not_done:
                    done(finished.value)
                    self._require_executor(waited=time.monotonic() - begun)
            except BaseException:
                # Otherwise the pool would wait for all work to finish. NB: Spark may not have begun the job yet.
                while not collected.done():
                    self._context.cancelAllJobs()
                    wait([collected], timeout=POLL_SECONDS)
                raise
            outcomes: list[Outcome] = collected.result()
        return outcomes

    def _require_executor(self, *, waited: float) -> None:
        """Raise NoExecutorError if the first executor takes too long. NB: one that was there may be replaced later."""
        if self._patience is None:
            return
        if _has_begun(self._context):
            self._patience = None
        elif waited > self._patience:
            raise NoExecutorError(f"no executor has come in {self._patience:.0f} s")

    def close(self) -> None:
        """Stop Spark, with its executors, if it was started."""
        if self._context is not None:
            self._context.stop()


def _first_words(error: Exception) -> str:
    """Return what an error says before its stack of Java's calls, in one line."""
    return " ".join(str(error).partition("\n\tat ")[0].split())


def _has_begun(context: Any) -> bool:
    """Return whether a task of Spark's current job runs or has ended."""
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    return any(stage and (stage.numActiveTasks or stage.numCompletedTasks or stage.numFailedTasks) for stage in stages)


_HINT = "a quota or a full cluster may keep Spark from starting any, and its log says what"


class PlacedRunner:
    """A runner that places each batch by its load: in this process or, from the first batch that needs it, on Spark.

    `spark` returns the runner for a number of executors. It serves all further batches, small ones too: it runs, and
    costs them nothing more. `tell` receives a line on each batch: where it is merged, and why.
    """

    def __init__(self, limits: Limits, *, spark: Callable[[int], SparkRunner], tell: Callable[[str], None]) -> None:
        self._limits = limits
        self._start = spark
        self._tell = tell
        self._local = LocalRunner()
        self._spark: SparkRunner | None = None
        self._past = NO_PAST

    def run(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
        """Return the outcome of each task."""
        if not work:
            return []
        if self._spark is not None:
            self._say(f"{_load(work)}; done by Spark, which runs already", work)
            return self._spark.run(work, done)
        placement = self._placed(work)
        self._say(placement.why, work)
        return self._run_at(placement, work, done)

    def _placed(self, work: Sequence[SizedTask]) -> Placement:
        """Place a batch. What joins the parts of cut buckets is its rest: Spark would start for less."""
        if _merges(work):
            return placed(work, self._limits, past=self._past)
        return place_rest(_load(work).seconds, self._limits, tasks=len(work), past=self._past)

    def _run_at(self, placement: Placement, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
        if placement.executors is None:
            return self._run_here(work, done)
        self._spark = self._start(placement.executors)
        try:
            return self._spark.run(work, done)
        except NoExecutorError as error:
            if self._limits.executors.asked:
                raise JobError(Reason.EXECUTORS_NOT_STARTED, f"{error}; {_HINT}") from error
            # NB: where the driver chose the number itself, its pod has the memory for the tasks as well.
            self._say(f"{error}; done by Spark in the driver's pod", work)
            self._spark.close()
            self._spark = self._start(0)
            return self._spark.run(work, done)

    def _run_here(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
        """Run the tasks in this process, and hand what is left to Spark if they take far longer than estimated."""
        outcomes: list[Outcome] = []
        size, estimated = 0, sum(piece.load.seconds for piece in work)
        for number, piece in enumerate(work):
            if self._past.is_long:
                left = work[number:]
                placement = place_rest(estimated, self._limits, tasks=len(left), past=self._past)
                if placement.executors is not None:
                    self._say(placement.why, left)
                    return outcomes + self._run_at(placement, left, _added(size, done))
            outcomes += self._run_one(piece, _added(size, done))
            size += piece.bytes
            estimated -= piece.load.seconds
        return outcomes

    def _run_one(self, piece: SizedTask, done: Done) -> list[Outcome]:
        begun = time.monotonic()
        outcomes = self._local.run([piece], done)
        self._past = self._past.and_then(piece.load, time.monotonic() - begun)
        return outcomes

    def _say(self, why: str, work: Sequence[SizedTask]) -> None:
        """Log the line, and tell it of merges. NB: the parts that are joined after them say nothing of the batch."""
        log.info("%s", why)
        if _merges(work):
            self._tell(why)

    def close(self) -> None:
        """Stop Spark, with its executors, if it was started."""
        if self._spark is not None:
            self._spark.close()


def placed(work: Sequence[SizedTask], limits: Limits, *, past: Past = NO_PAST) -> Placement:
    """Place merges; ones that are small by their files only if their delete events, which footers count, are few."""
    load, tasks = _load(work), len(work)
    placement = place(load, limits, tasks=tasks, past=past)
    if placement.executors is not None:
        return placement
    try:
        load += Load(events=_events(work))
    except OrcError as error:
        return place(load, limits, tasks=tasks, past=past, doubt=f"its events are unknown: {error}")
    return place(load, limits, tasks=tasks, past=past)


def _load(work: Sequence[SizedTask]) -> Load:
    return sum((piece.load for piece in work), NOTHING)


def _merges(work: Sequence[SizedTask]) -> bool:
    """Return whether any of the work merges, rather than joins what is merged."""
    return any(isinstance(piece.task, MergeTask) for piece in work)


def _added(size: int, done: Done) -> Done:
    """Return a callback for further work after `size` finished bytes."""
    return lambda more: done(size + more)


def _events(work: Sequence[SizedTask]) -> int:
    """Return the number of delete events that the tasks read, each as often as it is read, by the files' footers.

    Raises an OrcError that is passing: it says nothing of how many there are.
    """
    tasks = [piece.task for piece in work if isinstance(piece.task, MergeTask)]
    read = [file for task in tasks for file in (task.inputs if task.kind is EventKind.DELETE else task.deletes)]
    rows = by_path((file.path for file in read), _rows_if_readable)
    return sum(rows[file.path] for file in read)


def _rows_if_readable(path: str) -> int:
    """Return a file's rows, 0 for a bad file: the task that reads it fails, and names it. Raises a passing OrcError."""
    try:
        return orc.count_rows(path)
    except OrcError as error:
        if is_passing(error):
            raise
        return 0


def _run_in_spark(group: Sequence[SizedTask], finished: Any, application: str) -> list[Outcome]:
    from pyspark import TaskContext  # noqa: PLC0415 - only needed inside a Spark task

    context = TaskContext.get()
    # NB: the numbers begin again in the next application of this driver.
    attempt = f"{application}-{context.taskAttemptId() if context else 0}"
    outcomes = [_run(piece.task, attempt) for piece in group]
    # NB: the driver receives it once, when the Spark task ends. A failed try that Spark repeats does not count.
    finished.add(sum(piece.bytes for piece in group))
    return outcomes


def _run(task: MergeTask | StitchTask, attempt: str, *, check: Check = unchecked) -> Outcome:
    """Run a task. A file that cannot be read or does not add up gives an outcome whose error names the file.

    Raises what `check` raises, which runs before each step.
    """
    begun = time.thread_time()
    try:
        result = _merge(task, attempt, check) if isinstance(task, MergeTask) else _stitch(task, attempt, check)
        taken = time.thread_time() - begun
        return Outcome(task.output, replace(result, cpu_seconds=result.cpu_seconds + taken))
    except OrcError as error:
        return Outcome(
            task.output,
            error=str(error),
            repeated=isinstance(error, RepeatedRowError),
            mistyped=isinstance(error, RowTypeError),
            unavailable=is_passing(error),
        )


def _merge(task: MergeTask, attempt: str, check: Check) -> MergeResult:
    own = replace(task, output=_attempt_output(task, attempt))
    tails = orc.read_tails(own.inputs, check=check)
    result = orc.merge_bucket(own, tails=tails, check=check)
    orc.verify_output(own, result, check=check)
    if not own.is_part:
        _require_all_read(own, result, [tails[file.path].rows for file in own.inputs])
    return result


def _stitch(task: StitchTask, attempt: str, check: Check) -> MergeResult:
    output = _attempt_output(task, attempt)
    size = orc.stitch_parts(task.parts, output, check=check)
    orc.verify_stitched(output, task.parts, check=check)
    result = replace(combined(task.parts, output=output), bytes_out=size)
    held = [orc.count_rows(file.path) for file in checked(task.whole.inputs, check)]
    _require_all_read(task.whole, result, held)
    return result


def _attempt_output(task: MergeTask | StitchTask, attempt: str) -> str:
    """Return the output path of this task attempt, so that a second attempt never finds the first one's file."""
    return f"{task.output}.{attempt}"


def _require_all_read(task: MergeTask, result: MergeResult, held: Sequence[int]) -> None:
    """Compare the rows that were read with those that the inputs' footers count: `held`, for each file (hazard H18).

    Raises OrcError when rows were skipped or counted twice, or left out although their write id is valid.
    """
    if task.kind is not EventKind.INSERT:
        return
    read = result.rows_in + sum(result.rows_hidden.values())
    if read != sum(held):
        raise OrcError(result.output, f"its inputs hold {sum(held)} rows, but {read} were read")
    write_ids = ValidWriteIdList.parse(task.write_ids)
    if wrong := sorted(write_id for write_id in result.rows_hidden if write_ids.is_valid(write_id)):
        raise OrcError(result.output, f"rows of write id {wrong[0]} were left out, but it is valid")
