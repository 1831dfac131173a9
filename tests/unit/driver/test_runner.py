"""Where tasks run: the same outcomes in this process and in Spark, which starts only when there is work."""

import itertools
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compaction_operator import orc, storage
from compaction_operator.api.compaction import ExecutorResources
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError, Unstopped
from compaction_operator.driver.merge import load, runner, tails
from compaction_operator.driver.merge.load import REWRITTEN_PER_SECOND, Load
from compaction_operator.driver.merge.placement import LOCAL_SECONDS, Limits
from compaction_operator.driver.merge.runner import LocalRunner, Outcome, PlacedRunner, SparkRunner
from compaction_operator.driver.merge.tasks import SizedTask, StitchTask
from compaction_operator.orc import (
    Check,
    EventKind,
    InputFile,
    MergeResult,
    MergeTask,
    OrcError,
    count_rows,
    merge_bucket,
)
from compaction_operator.orc.file import tail
from compaction_operator.storage import StorageError, StoredFile

DELTA = Path(__file__).parents[2] / "fixtures/hive-3.1.3/table_txn_001/before/delta_0000001_0000001_0000/bucket_00000"


def work(directory: Path) -> list[SizedTask]:
    """One task that works and one whose input is not there, of 100 bytes each."""
    tasks = [
        MergeTask(
            kind=EventKind.INSERT,
            bucket=0,
            inputs=(InputFile(path=str(path)),),
            write_ids="d.t:1:9223372036854775807::",
            output=str(directory / f"{number}"),
        )
        for number, path in enumerate([DELTA, directory / "missing"])
    ]
    return [SizedTask(task, 100) for task in tasks]


@pytest.fixture(scope="module")
def spark() -> Any:
    """A SparkContext in this process."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # what the image sets for its own Python
    context = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate().sparkContext
    yield context
    context.stop()


def check(outcomes: list[Outcome]) -> None:
    worked, failed = outcomes
    assert worked.result is not None
    assert worked.result.rows_out == 1
    assert Path(worked.result.output).exists()
    assert failed.result is None
    assert "missing" in (failed.error or "")


def test_in_this_process(tmp_path: Path) -> None:
    """After each task, the callback gets how much is done."""
    done: list[int] = []
    check(LocalRunner().run(work(tmp_path), done.append))
    assert sorted(set(done) - {0}) == [100, 200]


def told_to_end(_: int) -> None:
    raise JobError(Reason.INTERRUPTED, "told to end")


class Endless:
    """A task that comes to a check again and again or, if it `hangs`, never."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, hangs: bool) -> None:
        self.answer = threading.Event()
        self.ended = threading.Event()
        self._hangs = hangs
        monkeypatch.setattr(runner, "POLL_SECONDS", 0.001)
        monkeypatch.setattr(runner, "_merge", self._merge)

    def _merge(self, _task: MergeTask, _attempt: str, check: Check) -> MergeResult:
        try:
            while not self.answer.wait(30 if self._hangs else 0.001):
                check()
            check()
        finally:
            self.ended.set()
        raise AssertionError("it was not ended")


def test_a_driver_that_has_to_end_stops_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task may take longer than Kubernetes waits. Once the runner returns, it writes nothing more."""
    task = Endless(monkeypatch, hangs=False)
    with pytest.raises(JobError, match="told to end") as caught:
        LocalRunner().run(work(tmp_path), told_to_end)
    assert not isinstance(caught.value, Unstopped)
    assert task.ended.is_set()


def test_a_task_that_waits_for_its_store_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STOP_SECONDS", 0.01)
    task = Endless(monkeypatch, hangs=True)
    with pytest.raises(Unstopped, match=r"told to end; .*/0 is still being written") as caught:
        LocalRunner().run(work(tmp_path), told_to_end)
    assert caught.value.reason is Reason.INTERRUPTED
    assert not task.ended.is_set()
    task.answer.set()
    assert task.ended.wait(30)


def test_a_task_that_ends_while_the_driver_has_to_end_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Endless(monkeypatch, hangs=True)

    def told_as_it_ends(size: int) -> None:
        task.answer.set()
        told_to_end(size)

    with pytest.raises(JobError, match="told to end"):
        LocalRunner().run(work(tmp_path), told_as_it_ends)


def test_a_store_that_does_not_answer_is_told_from_a_bad_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unanswered(*_: object) -> MergeResult:
        raise OrcError("f", "no answer") from StorageError("no answer", passing=True)

    monkeypatch.setattr(runner, "_merge", unanswered)
    assert {outcome.unavailable for outcome in LocalRunner().run(work(tmp_path), lambda _: None)} == {True}


def test_a_second_attempt_of_a_task_never_meets_the_file_of_the_first(tmp_path: Path) -> None:
    """Spark tries again what an executor was lost with, and may try twice at once: the first may still write."""
    task = work(tmp_path)[0].task
    assert isinstance(task, MergeTask)
    first, second = _attempt(task, "5"), _attempt(task, "6")
    assert first.output != second.output
    parts = StitchTask(task, (first,))
    assert _attempt(parts, "7").output != _attempt(parts, "8").output


def _attempt(task: MergeTask | StitchTask, number: str) -> MergeResult:
    result = runner._run(task, number).result
    assert result is not None
    assert Path(result.output).exists()
    return result


@pytest.mark.parametrize("together", [1, 1000])
def test_in_spark(together: int, tmp_path: Path, spark: Any) -> None:
    """Whether each is a Spark task of its own or both are one."""
    check(SparkRunner(lambda: spark, slots=1, task_bytes=together).run(work(tmp_path), lambda _: None))


def test_spark_tells_how_much_is_done_while_it_works(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes of the Spark tasks that are over; never more than there are."""
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.001)
    done: list[int] = []
    SparkRunner(lambda: spark, slots=1, task_bytes=1).run(work(tmp_path), done.append)
    assert done == sorted(done)
    assert set(done) <= {0, 100, 200}
    assert {100, 200} & set(done[:-1])


def test_all_is_done_when_spark_has_ended_between_two_polls(tmp_path: Path) -> None:
    """Otherwise the progress of a whole batch would stay where it last was, until the next one begins."""
    done: list[int] = []
    SparkRunner(InProcess, slots=1, task_bytes=1).run(work(tmp_path), done.append)
    assert done[-1] == 200


def test_spark_is_not_started_for_nothing() -> None:
    def start() -> Any:
        raise AssertionError("nothing is to be done")

    idle = SparkRunner(start, slots=1, task_bytes=1)
    assert idle.run([], lambda _: None) == []
    idle.close()


SMALL, LARGE = Load(), Load(rewritten=10**9)


def loaded(directory: Path, load: Load) -> list[SizedTask]:
    directory.mkdir()
    return [replace(piece, load=load) for piece in work(directory)]


class Starts:
    """The Sparks that a placed runner started, by their executors, and what it said of each batch.

    An error among the contexts is what the start of that Spark raises.
    """

    def __init__(self, *contexts: Any, patience: float | None = None) -> None:
        self.contexts = 0
        self.executors: list[int] = []
        self.said: list[str] = []
        self._contexts = contexts
        self._patience = patience

    def runner(self, *, instances: object) -> PlacedRunner:
        limits = Limits(ExecutorResources.model_validate({"instances": instances}), most=4)
        self._replaceable = not limits.executors.asked
        return PlacedRunner(limits, spark=self._spark, tell=self.said.append)

    def _spark(self, executors: int) -> SparkRunner:
        self.executors.append(executors)
        patience = self._patience if executors else None
        return SparkRunner(self._begin, slots=1, task_bytes=1, patience=patience, replaceable=self._replaceable)

    def _begin(self) -> Any:
        self.contexts += 1
        found = self._contexts[self.contexts - 1]
        if isinstance(found, Exception):
            raise found
        return found


def test_small_batches_need_no_spark(tmp_path: Path) -> None:
    starts = Starts()
    runner = starts.runner(instances=0)
    for name in ("first", "second"):
        check(runner.run(loaded(tmp_path / name, SMALL), lambda _: None))
    assert runner.run([], lambda _: None) == []
    runner.close()
    assert (starts.contexts, starts.executors, len(starts.said)) == (0, [], 2)
    assert starts.said[0].endswith("done in the driver")


def test_one_spark_serves_all_batches_from_the_first_that_needs_it(tmp_path: Path, spark: Any) -> None:
    starts = Starts(spark)
    runner = starts.runner(instances=0)
    for number, size in enumerate([SMALL, LARGE, SMALL, LARGE]):
        check(runner.run(loaded(tmp_path / str(number), size), lambda _: None))
    assert (starts.contexts, starts.executors) == (1, [0])
    assert [said.rpartition("; ")[2] for said in starts.said] == [
        "done in the driver",
        "done by Spark in the driver's pod",
        "done by Spark, which runs already",
        "done by Spark, which runs already",
    ]


def test_executors_that_are_asked_for_do_small_work_too(tmp_path: Path, spark: Any) -> None:
    starts = Starts(spark)
    check(starts.runner(instances=2).run(loaded(tmp_path / "one", SMALL), lambda _: None))
    assert (starts.contexts, starts.executors) == (1, [2])


def test_what_the_driver_has_done_itself_counts_as_measured(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An estimate may be far too low: the next batch then goes to Spark."""
    tasks_take(monkeypatch, LOCAL_SECONDS)
    starts = Starts(spark)
    placed = starts.runner(instances=0)
    for name in ("first", "second"):
        check(placed.run(loaded(tmp_path / name, SMALL), lambda _: None))
    assert starts.contexts == 1


def tasks_take(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Have each task in this process take so long, by its clock."""
    ticks = itertools.count(0.0, seconds)
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: next(ticks), thread_time=lambda: 0.0))


class InProcess:
    """A SparkContext without a JVM: its one executor is this process."""

    applicationId = "in-process"  # noqa: N815 - Spark's name

    def __init__(self) -> None:
        self._groups: Sequence[Any] = ()
        self._function: Callable[[Any], list[Outcome]] = lambda _: []

    def accumulator(self, value: int) -> Any:
        return SimpleNamespace(value=value, add=lambda _: None)

    def parallelize(self, groups: Sequence[Any], _slices: int) -> "InProcess":
        self._groups = groups
        return self

    def flatMap(self, function: Callable[[Any], list[Outcome]]) -> "InProcess":  # noqa: N802 - Spark's name
        self._function = function
        return self

    def collect(self) -> list[Outcome]:
        return [outcome for group in self._groups for outcome in self._function(group)]

    def stop(self) -> None:
        pass


def test_what_takes_the_driver_too_long_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate cannot know all: the first of two tasks took a minute instead of a second."""
    tasks_take(monkeypatch, 60.0)
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.001)
    starts, done = Starts(InProcess()), list[int]()
    check(starts.runner(instances=0).run(loaded(tmp_path / "one", Load(rewritten=REWRITTEN_PER_SECOND)), done.append))
    assert starts.executors == [0]
    assert starts.said[1:] == [
        "60 s went by in the driver; the 1 task left would take about 60 s more; done by Spark in the driver's pod"
    ]
    assert set(done) - {0} == {100, 200}


def test_little_that_is_left_stays_in_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks_take(monkeypatch, 60.0)
    starts = Starts(InProcess())
    check(starts.runner(instances=0).run(loaded(tmp_path / "one", SMALL), lambda _: None))
    assert (starts.executors, len(starts.said)) == ([], 1)


def test_what_joins_parts_stays_in_the_driver_and_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line on the merge of these parts stays in the status."""
    tasks_take(monkeypatch, LOCAL_SECONDS / 2 + 1)
    starts = Starts()
    placed = starts.runner(instances=0)
    (merged, _) = placed.run(loaded(tmp_path / "one", SMALL), lambda _: None)
    task = work(tmp_path)[0].task
    assert merged.result is not None
    assert isinstance(task, MergeTask)
    joining = SizedTask(StitchTask(task, (merged.result,)), 1, Load(rewritten=REWRITTEN_PER_SECOND))
    (joined,) = placed.run([joining], lambda _: None)
    assert joined.result is not None
    assert len(starts.said) == 1


DELETES = DELTA.parents[3] / "aborted/before"
"""A table of one bucket with delete events."""


def with_deletes(directory: Path, *, missing: str = "") -> list[SizedTask]:
    """A merge of the table's rows, to which its delete events apply; one of those files may be missing."""
    found = sorted(DELETES.glob("delete_delta_*/bucket_00000"))
    deletes = (*(InputFile(str(path)) for path in found), *([InputFile(missing)] if missing else []))
    inputs = tuple(InputFile(str(path)) for path in sorted(DELETES.glob("delta_*/bucket_00000")))
    output = str(directory / "merged")
    task = MergeTask(
        kind=EventKind.INSERT, bucket=0, inputs=inputs, deletes=deletes, write_ids=ALL_VALID, output=output
    )
    return [SizedTask(task, 1)]


def test_delete_events_count_by_their_files_footers(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their bytes say little: a million of consecutive rows' takes a few hundred."""
    starts = Starts(spark)
    (done,) = starts.runner(instances=0).run(with_deletes(tmp_path), lambda _: None)
    assert done.result is not None
    assert f", {done.result.delete_events_in} delete events" in starts.said[0]
    monkeypatch.setattr(load, "EVENTS_PER_SECOND", 0.1)
    (tmp_path / "large").mkdir()
    starts.runner(instances=0).run(with_deletes(tmp_path / "large"), lambda _: None)
    assert starts.contexts == 1


def test_events_that_a_store_does_not_tell_of_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not answer for a moment. That says nothing of the millions of events that its file may hold."""
    error = OrcError("f", "503 Slow Down")
    error.__cause__ = StorageError("503 Slow Down", passing=True)
    monkeypatch.setattr(tails, "OPEN_FILES", 1)
    monkeypatch.setattr(orc, "count_rows", failing_once(error))
    starts = Starts(InProcess())
    (done,) = starts.runner(instances=0).run(with_deletes(tmp_path), lambda _: None)
    assert done.error is None
    assert starts.executors == [0]
    assert "its events are unknown: f: 503 Slow Down; done by Spark" in starts.said[0]


def failing_once(error: OrcError) -> Callable[[str], int]:
    errors = iter([error])

    def count(path: str) -> int:
        if found := next(errors, None):
            raise found
        return count_rows(path)

    return count


def test_a_file_of_deletes_that_cannot_be_read_is_the_tasks_failure(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    (done,) = Starts().runner(instances=0).run(with_deletes(tmp_path, missing=missing), lambda _: None)
    assert missing in (done.error or "")


def test_spark_is_stopped_if_it_was_started(tmp_path: Path) -> None:
    spark = Submitting()
    spark.ended.set()
    placed = Starts(spark).runner(instances=1)
    with pytest.raises(RuntimeError, match="job cancelled"):
        placed.run(loaded(tmp_path / "one", LARGE), lambda _: None)
    placed.close()
    assert spark.stopped


ALL_VALID = f"d.t:9:{2**63 - 1}::"
SOME_INVALID = [ALL_VALID, f"d.t:9:{2**63 - 1}::7", "d.t:9:8:8:7"]
"""The inputs below have rows of write ids 1 and 2: what became of others is no excuse."""


def _two_files(tmp_path: Path, *, write_ids: str) -> Outcome:
    """Merge two files with one row each."""
    second = DELTA.parents[1] / "delta_0000002_0000002_0000/bucket_00000"
    (task, _) = (piece.task for piece in work(tmp_path))
    assert isinstance(task, MergeTask)
    both = replace(task, inputs=(*task.inputs, InputFile(path=str(second))), write_ids=write_ids)
    (outcome,) = LocalRunner().run([SizedTask(both, 1)], lambda _: None)
    return outcome


@pytest.mark.parametrize("write_ids", SOME_INVALID)
def test_rows_that_an_engine_passes_over_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_ids: str
) -> None:
    """H18: what it says adds up, and the file is as it says; but the input's footer tells of one row more."""

    def negligent(task: MergeTask, **_: Any) -> MergeResult:
        return merge_bucket(replace(task, inputs=task.inputs[:1]))

    monkeypatch.setattr(orc, "merge_bucket", negligent)
    outcome = _two_files(tmp_path, write_ids=write_ids)
    assert "inputs hold 2 rows, but 1 were read" in (outcome.error or "")


def test_a_task_looks_each_input_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is asked for a file when it is looked up, and its tail is read."""
    looked_up: Counter[str] = Counter()

    def look_up(path: str) -> StoredFile:
        looked_up[path] += 1
        return storage.look_up(path)

    monkeypatch.setattr(tail, "look_up", look_up)
    result = _two_files(tmp_path, write_ids=ALL_VALID).result
    assert result is not None
    assert [*looked_up.values()] == [1, 1, 1]
    assert result.output in looked_up


@pytest.mark.parametrize("write_ids", SOME_INVALID)
def test_rows_that_an_engine_leaves_out_must_be_of_invalid_write_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_ids: str
) -> None:
    def mistaken(task: MergeTask, **_: Any) -> MergeResult:
        return merge_bucket(replace(task, write_ids=f"d.t:9:{2**63 - 1}::2"))

    monkeypatch.setattr(orc, "merge_bucket", mistaken)
    outcome = _two_files(tmp_path, write_ids=write_ids)
    assert "rows of write id 2 were left out, but it is valid" in (outcome.error or "")


@pytest.mark.parametrize("write_ids", [f"d.t:9:{2**63 - 1}::2", "d.t:9:2:2:", f"d.t:1:{2**63 - 1}::"])
def test_rows_of_invalid_write_ids_are_left_out_and_counted(tmp_path: Path, write_ids: str) -> None:
    result = _two_files(tmp_path, write_ids=write_ids).result
    assert result is not None
    assert (result.rows_in, result.rows_out, result.rows_hidden) == (1, 1, {2: 1})


def test_spark_drops_its_work_when_the_driver_has_to_end(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be waited for, for as long as it takes."""
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.001)
    cancel, cancelled = spark.cancelAllJobs, list[bool]()

    def noted() -> None:
        cancelled.append(True)
        cancel()

    monkeypatch.setattr(spark, "cancelAllJobs", noted)

    with pytest.raises(JobError, match="told to end"):
        SparkRunner(lambda: spark, slots=1, task_bytes=1).run(work(tmp_path), told_to_end)
    assert cancelled


def test_auto_does_the_work_itself_if_no_executor_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespace may have no room for any. Before there was Auto, the driver did all work itself."""
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.01)
    waiting = Submitting()
    starts = Starts(waiting, InProcess(), patience=0.0)
    placed = starts.runner(instances="Auto")
    check(placed.run(loaded(tmp_path / "one", LARGE), lambda _: None))
    assert (starts.executors, waiting.stopped) == ([1, 0], True)
    assert starts.said[-1] == "no executor has come in 0 s; done by Spark in the driver's pod"
    (tmp_path / "two").mkdir()
    starts.said.clear()
    check(placed.run(work(tmp_path / "two"), lambda _: None))
    assert starts.said[0].endswith("done by Spark, which runs already")


REFUSED = RuntimeError("calling collect.\n: SparkException: stopped\n\tat org.apache.spark.X\n\tat java.Y")
"""What py4j raises where Spark cannot have executors."""


class Refused(InProcess):
    """A Spark that notices it after it has started."""

    def collect(self) -> list[Outcome]:
        raise REFUSED


@pytest.mark.parametrize("first", [REFUSED, Refused()], ids=["while Spark starts", "later"])
def test_auto_does_the_work_itself_if_spark_fails_without_an_executor(first: object, tmp_path: Path) -> None:
    """As where the driver may not make pods: otherwise all attempts would fail."""
    starts = Starts(first, InProcess(), patience=1000.0)
    check(starts.runner(instances="Auto").run(loaded(tmp_path / "one", LARGE), lambda _: None))
    assert starts.executors == [1, 0]
    why = "Spark has failed without an executor: calling collect. : SparkException: stopped"
    assert starts.said[-1] == f"{why}; done by Spark in the driver's pod"


def test_executors_that_were_asked_for_and_do_not_come_end_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives its locks back. The work is not done without them: its pod may have no room for it."""
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.01)
    waiting = Submitting()
    starts = Starts(waiting, patience=0.0)
    placed = starts.runner(instances=2)
    with pytest.raises(JobError, match="no executor has come in 0 s; a quota") as caught:
        placed.run(loaded(tmp_path / "one", LARGE), lambda _: None)
    placed.close()
    assert caught.value.reason is Reason.EXECUTORS_NOT_STARTED
    assert (starts.executors, waiting.stopped) == ([2], True)


@pytest.mark.parametrize("first", [REFUSED, Refused()], ids=["while Spark starts", "later"])
def test_a_spark_that_fails_with_executors_that_were_asked_for_has_failed(first: object, tmp_path: Path) -> None:
    """It counts: a wrong configuration would otherwise be tried for ever."""
    with pytest.raises(RuntimeError) as caught:
        Starts(first, patience=1000.0).runner(instances=2).run(loaded(tmp_path / "one", LARGE), lambda _: None)
    assert caught.value is REFUSED


@pytest.mark.parametrize("patience", [0.0, None])
def test_what_has_begun_or_was_asked_for_is_waited_for(
    patience: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.001)
    spark = Submitting(active=1 if patience is not None else 0)
    polled: list[int] = []

    def poll(size: int) -> None:
        polled.append(size)
        if len(polled) == 5:
            spark.ended.set()

    with pytest.raises(RuntimeError, match="job cancelled"):
        SparkRunner(lambda: spark, slots=1, task_bytes=1, patience=patience).run(work(tmp_path), poll)
    assert len(polled) >= 5


class Submitting:
    """A Spark that begins a job only after it was first told to cancel all there are. `active` tasks run before."""

    applicationId = "submitting"  # noqa: N815 - Spark's name

    def __init__(self, *, active: int = 0) -> None:
        self._active = active
        self.cancels = 0
        self.ended = threading.Event()
        self.ran_to_its_end = False
        self.stopped = False

    def accumulator(self, value: int) -> Any:
        return SimpleNamespace(value=value)

    def parallelize(self, *_: Any) -> "Submitting":
        return self

    flatMap = parallelize  # noqa: N815 - Spark's name

    def collect(self) -> list[Outcome]:
        self.ran_to_its_end = not self.ended.wait(30)
        raise RuntimeError("job cancelled")

    def stop(self) -> None:
        self.stopped = True

    def statusTracker(self) -> Any:  # noqa: N802 - Spark's name
        stage = SimpleNamespace(numActiveTasks=self._active, numCompletedTasks=0, numFailedTasks=0)
        return SimpleNamespace(getActiveStageIds=lambda: [3, 4], getStageInfo={3: None, 4: stage}.get)

    def cancelAllJobs(self) -> None:  # noqa: N802 - Spark's name
        self.cancels += 1
        if self.cancels > 1:
            self.ended.set()


def test_a_job_that_spark_was_just_about_to_begin_is_cancelled_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a driver that gets SIGTERM right then waits for all of the work."""
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.01)
    spark = Submitting()

    with pytest.raises(JobError, match="told to end"):
        SparkRunner(lambda: spark, slots=1, task_bytes=1).run(work(tmp_path), told_to_end)
    assert not spark.ran_to_its_end
