"""When a draft of a log compaction is saved: only while the timeline is what it was, and under the lock."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from compaction_operator.hudi import Action, Block, Operation, Plan
from compaction_operator.hudi.jvm.planner import DRAFTS, Planner
from compaction_operator.hudi.jvm.timeline import operations_of


class Drafts(Planner):
    """A planner whose timeline changes during the first `changes` drafts; `events` is what it did."""

    def __init__(self, changes: int, *, empty_after: int = 99) -> None:
        self._changes = changes
        self._empty_after = empty_after
        self._timeline = 0
        self._is_locked = False
        self.events: list[str] = []

    @contextmanager
    def locked(self) -> Iterator[None]:
        self._is_locked = True
        yield
        self._is_locked = False

    def _table(self) -> Any:
        return self._timeline

    def _draft(self, table: Any, choose: Any, *, beside: bool) -> tuple[Plan, Any] | None:
        self.events.append("drafted under the lock" if self._is_locked else "drafted")
        drafts = sum(event.startswith("drafted") for event in self.events)
        if drafts <= self._changes and not self._is_locked:
            self._timeline += 1
        return None if drafts > self._empty_after else (Plan("0", Action.LOG_COMPACTION, ()), f"draft of {table}")

    def _is_current(self, table: Any) -> bool:
        assert self._is_locked
        return bool(table == self._timeline)

    def _save(self, table: Any, draft: Plan, java_plan: Any, *, owner: str) -> Plan:
        assert self._is_locked
        assert java_plan == f"draft of {self._timeline}"
        self.events.append("saved")
        return draft


class Nothing:
    """Chooses nothing. Before each draft it hears that what it saw before does not count."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    def forget(self) -> None:
        self._events.append("forgot")

    def __call__(self, operation: Operation, pending: Collection[str]) -> tuple[Block, ...]:
        return ()


def run(planner: Drafts) -> Plan | None:
    return planner.plan_log_compaction(owner="me", choose=Nothing(planner.events), beside=False)


@pytest.mark.parametrize("changes", range(DRAFTS))
def test_a_draft_is_saved_if_the_timeline_is_the_same_under_the_lock(changes: int) -> None:
    planner = Drafts(changes)
    assert run(planner)
    assert planner.events == ["forgot", "drafted"] * (changes + 1) + ["saved"]


def test_beside_writers_that_never_rest_the_last_draft_is_made_under_the_lock() -> None:
    planner = Drafts(DRAFTS)
    assert run(planner)
    assert planner.events == ["forgot", "drafted"] * DRAFTS + ["forgot", "drafted under the lock", "saved"]


@pytest.mark.parametrize("drafts", range(DRAFTS + 1))
def test_nothing_is_saved_where_a_later_draft_finds_nothing_to_do(drafts: int) -> None:
    planner = Drafts(DRAFTS, empty_after=drafts)
    assert run(planner) is None
    assert "saved" not in planner.events


def test_the_operations_of_a_plan_are_read_from_its_text() -> None:
    log = {"partitionPath": "a", "fileId": "f1", "dataFilePath": None, "deltaFilePaths": [".f1.log.1", ".f1.log.2"]}
    full = {"partitionPath": None, "fileId": "f2", "dataFilePath": "f2.parquet", "deltaFilePaths": [".f2.log.1"]}
    text = json.dumps({"operations": [log, full], "version": 2})
    found = operations_of(SimpleNamespace(toString=lambda: text))
    assert [one.file_id for one in found] == ["f1", "f2"]
    assert found[0].files == (("a", ".f1.log.1"), ("a", ".f1.log.2"))
    assert (found[1].log_files, found[1].base_files) == ((("", ".f2.log.1"),), (("", "f2.parquet"),))


def test_a_plan_without_operations_has_none() -> None:
    assert operations_of(SimpleNamespace(toString=lambda: '{"operations": null}')) == ()


class Saving(Planner):
    """A planner with a Java client that counts the instants it makes."""

    def __init__(self, *, replays_last: bool) -> None:
        self.made = 0
        self._replays_last = replays_last
        self._jvm = SimpleNamespace(java=SimpleNamespace(util=SimpleNamespace(HashMap=JavaMap)))
        self._client = SimpleNamespace(createNewInstantTime=self._make)

    def _make(self, _: bool) -> str:
        self.made += 1
        return "20"


class JavaMap(dict[str, str]):
    """A java.util.HashMap."""

    def put(self, key: str, value: str) -> None:
        self[key] = value


@pytest.mark.parametrize(("replays_last", "instant", "made"), [(True, "11", 0), (False, "20", 1)])
def test_no_instant_is_made_under_the_lock_that_the_plan_does_not_get(
    replays_last: bool, instant: str, made: int
) -> None:
    """Hudi sleeps for 200 ms for each."""
    saved: list[Any] = []
    generator = SimpleNamespace(getLogCompactionRequestedInstant=lambda time: time)
    table = SimpleNamespace(
        getMetaClient=lambda: SimpleNamespace(getInstantGenerator=lambda: generator),
        getActiveTimeline=lambda: SimpleNamespace(saveToLogCompactionRequested=lambda *what: saved.append(what)),
    )
    planner = Saving(replays_last=replays_last)
    java_plan = SimpleNamespace(setExtraMetadata=lambda extra: None)
    plan = planner._save(table, Plan("11", Action.LOG_COMPACTION, ()), java_plan, owner="me")
    assert (plan.instant, planner.made, saved) == (instant, made, [(instant, java_plan)])
