"""Forecasts for policies: the child process and its memory, and what the controller does with the answers."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType, Forecast, TableRef
from compaction_operator.api.forecasting import ForecastAnswer, ForecastQuestion
from compaction_operator.controller import forecasting
from compaction_operator.controller.forecasting import NEEDED, Forecaster, NoForecasts, forecasts_of, spare_memory
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.controller.policies.why import Question
from compaction_operator.policy.text import lines_of
from tests.unit.controller.sandbox import CONFIG, Sandbox, runs
from tests.unit.controller.test_policies import DELTAS, change, created, jump, memory, policy_raw, state, status

ASKED = tuple(
    ForecastQuestion(table=TableRef(database="a", name=name), type=CompactionType.MINOR, partition="")
    for name in ("b", "c", "d")
)
HEAD = """
import json, os, sys, time
asked = json.load(sys.stdin)
def say(number):
    print(json.dumps({"problem": asked["questions"][number]["table"]["name"]}), flush=True)
print(flush=True)
"""


def v2(folder: Path, *, limit: str, used: int, active: int = 0, inactive: int = 0) -> Path:
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\nactive_file {active}\ninactive_file {inactive}\n")
    return folder


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A forecaster whose child runs some lines of Python, with the request as `asked`, and `say` to answer."""

    def made(*lines: str, spare: int = NEEDED, **times: float) -> Forecaster:
        monkeypatch.setattr(forecasting, "CHILD", (sys.executable, "-c", "\n".join((HEAD, *lines))))
        cgroup = v2(tmp_path, limit=str(NEEDED), used=NEEDED - spare)
        return Forecaster(CONFIG, cgroup=cgroup, **times)

    return made


@pytest.fixture
def ask(child: Any) -> Any:
    """Ask such a child; returns what it says of each question."""

    def answers(*lines: str, **more: Any) -> list[str | None]:
        found = asyncio.run(child(*lines, **more).ask("lake", ASKED))
        return [one.problem for one in found]

    return answers


class Pipe:
    """A named pipe that a child opens, signals by, and closes when it ends."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def signal(self, *, indent: int = 0) -> list[str]:
        """Return the lines by which a child does so."""
        return [
            f"{' ' * indent}{line}"
            for line in (f"out = open({str(self.path)!r}, 'w')", "print('!', file=out, flush=True)")
        ]

    async def signalled(self) -> None:
        """Wait for a child's signal."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.reader, ready.set)
        await ready.wait()
        loop.remove_reader(self.reader)

    @property
    def is_closed(self) -> bool:
        """Whether no child has it open any more."""
        os.read(self.reader, 9)
        return os.read(self.reader, 9) == b""  # else it would block, which is an error


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    """Such a pipe."""
    found = Pipe(tmp_path / "pipe")
    yield found
    os.close(found.reader)


HANGS = "time.sleep(600)"
TOO_LONG = "the forecast failed: it takes longer than 1 seconds"


class TestChild:
    def test_it_answers_question_by_question(self, ask: Any) -> None:
        assert ask("say(0)", "say(1)", "say(2)") == ["b", "c", "d"]

    def test_the_question_that_it_dies_of_has_its_last_words(self, ask: Any) -> None:
        """The others are asked again, that one not for a while."""
        found = ask("say(0)", "print('x' * 9999, file=sys.stderr)", "sys.exit('no such thing')")
        assert found == ["b", "the forecast failed: no such thing; exit code 1"]
        assert ask("os.kill(os.getpid(), 9)") == ["the forecast failed: exit code -9"]

    def test_a_question_that_takes_too_long_is_given_up_and_its_process_killed(self, ask: Any, pipe: Pipe) -> None:
        assert ask(*pipe.signal(), "say(0)", HANGS, seconds=1.0) == ["b", TOO_LONG]
        assert pipe.is_closed

    def test_the_time_of_all_is_no_fault_of_the_one_that_it_ends_at(self, ask: Any) -> None:
        assert ask("say(0)", HANGS, life=3.0) == ["b"]

    def test_if_the_metastore_is_away_no_question_is_to_blame(self, ask: Any) -> None:
        assert ask("say(0)", "sys.exit(os.EX_TEMPFAIL)") == ["b"]

    @pytest.mark.parametrize("line", ["print('hello')", "print('x' * (1 << 17))"])
    def test_what_is_no_answer_is_the_fault_of_the_next_question(self, ask: Any, line: str) -> None:
        (first, second) = ask("say(0)", line)
        assert (first, second.startswith("the forecast failed: its answer cannot be read: ")) == ("b", True)

    def test_it_is_not_started_without_memory_to_spare(self, ask: Any, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO")
        assert ask("say(0)", spare=NEEDED - 1) == []
        assert "resources.limits.memory" in caplog.text

    def test_one_runs_at_a_time_and_its_memory_is_not_counted_against_the_next(
        self, child: Any, pipe: Pipe, tmp_path: Path
    ) -> None:
        """The first one has what there is, until it ends."""
        used, go = tmp_path / "memory.current", tmp_path / "go"
        os.mkfifo(go)
        begun = (f"if os.path.exists({str(go)!r}):", f"    open({str(used)!r}, 'w').write('1')", *pipe.signal(indent=4))
        ended = (
            f"    open({str(go)!r}).read()",
            f"    os.remove({str(go)!r})",
            f"    open({str(used)!r}, 'w').write('0')",
        )
        forecaster = child(*begun, *ended, "say(0)")

        async def both() -> list[int]:
            first = asyncio.ensure_future(forecaster.ask("lake", ASKED))
            await pipe.signalled()
            second = asyncio.ensure_future(forecaster.ask("lake", ASKED))
            await asyncio.sleep(0)
            await asyncio.to_thread(go.write_text, "!")
            return [len(answers) for answers in await asyncio.gather(first, second)]

        assert asyncio.run(both()) == [1, 1]

    def test_it_ends_with_the_controller(self, child: Any, pipe: Pipe) -> None:
        """What waits for it is cancelled then, and kills it."""
        forecaster = child(*pipe.signal(), HANGS)

        async def cancelled() -> None:
            asking = asyncio.ensure_future(forecaster.ask("lake", ASKED))
            await pipe.signalled()
            asking.cancel()
            await asyncio.wait([asking])

        asyncio.run(cancelled())
        assert pipe.is_closed

    def test_no_other_is_started_beside_one_that_does_not_end(self, child: Any) -> None:
        """Its storage hangs: not even SIGKILL ends it."""

        class Stuck:
            returncode = None

        forecaster = child("say(0)")
        forecaster._child = Stuck()
        assert asyncio.run(forecaster.ask("lake", ASKED)) == []

    def test_it_has_the_warehouse_and_its_limits(self, ask: Any) -> None:
        (said,) = ask("asked.pop('questions')", "print(json.dumps(dict(problem=json.dumps(asked))))")
        got = json.loads(said or "")
        assert (got["warehouse"]["name"], got["memory"], got["seconds"]) == ("lake", forecasting.ROOM, 125)

    def test_an_unknown_warehouse_has_no_forecasts(self) -> None:
        assert asyncio.run(Forecaster(CONFIG).ask("other", ASKED)) == []


class TestMemory:
    def test_cached_files_count_as_free(self, tmp_path: Path) -> None:
        assert spare_memory(v2(tmp_path, limit="1000", used=700, active=100, inactive=200)) == 600

    def test_without_a_limit_there_is_no_number(self, tmp_path: Path) -> None:
        assert spare_memory(v2(tmp_path, limit="max", used=7)) is None
        assert spare_memory(tmp_path / "none") is None

    def test_groups_of_version_1_are_read_as_well(self, tmp_path: Path) -> None:
        (tmp_path / "memory").mkdir()
        for name, text in (
            ("limit_in_bytes", "1000"),
            ("usage_in_bytes", "700"),
            ("stat", "cache 7\ntotal_inactive_file 300"),
        ):
            (tmp_path / f"memory/memory.{name}").write_text(text)
        assert spare_memory(tmp_path) == 600

    def test_the_small_image_makes_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert isinstance(forecasts_of(CONFIG), Forecaster)
        monkeypatch.setattr("compaction_operator.image.find_spec", lambda _: None)
        assert isinstance(forecasts_of(CONFIG), NoForecasts)
        assert asyncio.run(forecasts_of(CONFIG).ask("lake", ASKED)) == []


FORECAST = Forecast(files_in=11, bytes_in=90, bytes_copied=1, bytes_rewritten=80, rows_removed=7, cpu_milliseconds=1500)


def answer(question: ForecastQuestion) -> ForecastAnswer:
    return ForecastAnswer(forecast=FORECAST)


def unreadable(question: ForecastQuestion) -> ForecastAnswer:
    return ForecastAnswer(problem="bucket_00000 is no ORC file")


async def dry(box: Sandbox, *names: str, **spec: Any) -> Sandbox:
    box.work.memory = memory(*map(state, names or ("sales.orders",)))
    box.kube.apply(ResourceKind.POLICY, policy_raw(dryRun=True, **spec))
    await box.start()
    return box


@runs
async def test_a_dry_run_says_what_each_compaction_would_do() -> None:
    box = Sandbox()
    box.forecasts.answer = answer
    await dry(box)
    assert "forecast" not in status(box)["next"][0]
    assert [str(one.table) for one in box.forecasts.asked] == ["sales.orders"]
    await box.pass_time(60)
    assert status(box)["next"][0]["forecast"] == FORECAST.to_json()
    (found,) = box.controller.why(Question("sales.orders")) or []
    assert found.due[0].forecast == FORECAST
    said = "forecast: 1 byte copied, about 80 rewritten, 7 rows removed, about 1.50 CPU seconds"
    assert said in [line.strip() for line in lines_of([found])]
    await box.pass_time(600)
    assert len(box.forecasts.asked) == 1


@runs
async def test_what_cannot_be_forecast_says_why() -> None:
    box = Sandbox()
    box.forecasts.answer = unreadable
    await dry(box)
    await box.pass_time(60)
    assert status(box)["next"][0]["forecastProblem"] == "bucket_00000 is no ORC file"
    (found,) = box.controller.why(Question("sales.orders")) or []
    assert "no forecast: bucket_00000 is no ORC file" in [line.strip() for line in lines_of([found])]


@runs
async def test_a_table_that_has_changed_is_forecast_again() -> None:
    box = Sandbox()
    box.forecasts.answer = answer
    await dry(box)
    await box.pass_time(60)
    box.work.memory = memory(state("sales.orders", replace(DELTAS, deltas=12)))
    await box.pass_time(60)
    assert ("forecast" in status(box)["next"][0], len(box.forecasts.asked)) == (False, 2)


@runs
async def test_without_answers_the_policy_works_as_without_forecasts() -> None:
    box = await dry(Sandbox())
    await box.pass_time(60)
    assert len(box.forecasts.asked) == 2
    assert status(box)["next"][0]["table"] == "sales.orders"

    def fails(_: ForecastQuestion) -> ForecastAnswer:
        raise OSError("no more processes")

    box.forecasts.answer = fails
    change(box, dryRun=False)
    await box.run()
    assert len(created(box)) == 1


@runs
async def test_a_changed_policy_asks_for_itself() -> None:
    """What its last look with the old spec lacked concerns it no longer."""
    box = await dry(Sandbox(), "sales.orders", "sales.items")
    box.forecasts.asked.clear()
    change(box, tables={"include": ["sales.items"]})
    box.work.memory = memory(state("sales.items"))
    await jump(box, 60)
    assert {str(one.table) for one in box.forecasts.asked} == {"sales.items"}


@runs
async def test_a_compaction_counts_with_its_forecast_for_the_core_hours() -> None:
    box = Sandbox()
    box.forecasts.answer = answer
    await dry(box, coreHoursPerWindow=1)
    await box.pass_time(60)
    change(box, dryRun=False)
    await box.run()
    assert status(box)["budget"]["cpuSecondsUsed"] == 1
    (made,) = created(box)
    assert made["metadata"]["annotations"]["compaction.dev/policy-cpu-milliseconds"] == "1500"


@runs
async def test_a_look_asks_nothing_while_its_questions_are_being_answered() -> None:
    """They would queue, each look with the same."""
    box, answered = Sandbox(), asyncio.Event()
    box.forecasts.answer, box.forecasts.until = answer, answered
    box.work.memory = memory(state("sales.orders"))
    box.kube.apply(ResourceKind.POLICY, policy_raw(dryRun=True))
    box.create()
    await box.controller.load()
    for looks in (1, 2, 3):
        while box.work.surveys < looks or box.controller._policies.next_due() is None:
            box.controller.step()
            await asyncio.sleep(0)
        box.time.seconds += 60
    assert len(box.forecasts.asked) == 1
    answered.set()
    await box.run()
    assert status(box)["next"][0]["forecast"] == FORECAST.to_json()


@runs
async def test_what_a_policy_lacked_in_another_warehouse_is_not_asked_for() -> None:
    box = Sandbox()
    box.work.memory = memory(state("sales.orders"))
    box.kube.apply(ResourceKind.POLICY, policy_raw(dryRun=True))
    box.create()
    await box.controller.load()
    (upkeep,) = box.controller._policies._upkeeps.values()
    box.controller.step()
    while not upkeep.lacking:
        await asyncio.sleep(0)
    change(box, warehouse="other")
    await box.run()
    assert box.forecasts.asked == []


@runs
async def test_forecasts_of_another_warehouse_are_forgotten() -> None:
    """A clone of a warehouse has the same names and sizes."""
    box = Sandbox()
    box.forecasts.answer = answer
    await dry(box)
    change(box, warehouse="other")
    change(box, warehouse="lake")
    await box.run()
    assert "forecast" not in status(box)["next"][0]
