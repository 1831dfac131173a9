"""When nothing is planned or deleted, and which plans of Hudi's delete anything."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.hudi import Action, Instant, State
from compaction_operator.hudi.errors import HudiError, WaitingForInstantError
from compaction_operator.hudi.jvm import cleaning
from compaction_operator.hudi.jvm.cleaning import Cleaning, deletes_anything

CLEAN = Instant("20", Action.CLEAN, State.INFLIGHT, "team/uid/1")


class JavaList(list[Any]):
    """A java.util.List."""

    def size(self) -> int:
        return len(self)

    def get(self, number: int) -> Any:
        return self[number]


class JavaMap(dict[str, Any]):
    """A java.util.HashMap."""

    def put(self, key: str, value: Any) -> None:
        self[key] = value


def instant(action: str, *, done: bool = True, time: str = "30") -> Any:
    """A HoodieInstant."""
    return SimpleNamespace(getAction=lambda: action, isCompleted=lambda: done, requestedTime=lambda: time)


class Turned(Cleaning):
    """A table with one clean, whose timeline also has these instants. Whatever would save, begin or delete fails.

    `empty` are the actions of files without content.
    """

    def __init__(self, *others: Any) -> None:
        self.empty = set[str]()
        self.others = JavaList(others)
        self.saved = {"partitionMetadata": {"day=1": {"savepointDataFile": ["kept.parquet"]}}}
        metadata = SimpleNamespace(toString=lambda: json.dumps(self.saved))
        self.found = SimpleNamespace(
            getInstants=lambda: self.others,
            readSavepointMetadata=lambda _: metadata,
            isEmpty=lambda one: one.getAction() in self.empty,
        )
        requested = instant("clean", done=False)
        generator = SimpleNamespace(getCleanRequestedInstant=lambda _: requested)
        self._found = SimpleNamespace(getActiveTimeline=lambda: self.found, getInstantGenerator=lambda: generator)
        self.actions = SimpleNamespace()
        self._hudi = SimpleNamespace(table=SimpleNamespace(action=self.actions))

    @contextmanager
    def locked(self) -> Iterator[None]:
        yield

    def cleans(self) -> tuple[Instant, ...]:
        return (CLEAN,)

    def _meta(self) -> Any:
        return self._found

    def _table(self) -> Any:
        return SimpleNamespace(getMetaClient=self._meta)

    def _draft_clean(self, table: Any) -> Any:
        return SimpleNamespace(getExtraMetadata=lambda: None, toString=lambda: "{}")


@pytest.mark.parametrize("action", ["restore", "rollback"])
def test_nothing_is_planned_or_deleted_while_a_restore_or_a_rollback_is_in_progress(action: str) -> None:
    """It makes old files the newest ones again."""
    table = Turned(instant(action, done=False))
    with pytest.raises(WaitingForInstantError, match=f"{action} 30 is in progress"):
        table.plan_clean(owner="me", confirm=lambda: None)
    with pytest.raises(WaitingForInstantError, match=f"{action} 30 is in progress"):
        table.run_clean(CLEAN, confirm=lambda: None)


def test_a_restore_that_is_over_does_not_prevent_a_clean() -> None:
    """The next step asks for Hudi's classes, which are not there."""
    with pytest.raises(AttributeError, match="_client"):
        Turned(instant("restore")).plan_clean(owner="me", confirm=lambda: None)


class CleanerPlan:
    """A HoodieCleanerPlan."""

    def __init__(self, *names: str, partitions: tuple[str, ...] = ()) -> None:
        self.files = {"day=1": [{"filePath": f"/table/day=1/{name}"} for name in names]}
        self.partitions = list(partitions)

    def setPartitionsToBeDeleted(self, partitions: list[str]) -> None:  # noqa: N802 - Java's name
        self.partitions = partitions

    def toString(self) -> str:  # noqa: N802 - Java's name
        return json.dumps({"filePathsToBeDeletedPerPartition": self.files, "partitionsToBeDeleted": self.partitions})


class Begun(Turned):
    """A table whose one clean has a plan. Readers open `newest`."""

    def __init__(self, plan: CleanerPlan, *others: Any, newest: str = "") -> None:
        super().__init__(*others)
        self.newest = newest
        utils = SimpleNamespace(getCleanerPlan=lambda _meta, _instant: plan)
        self._hudi.common = SimpleNamespace(util=SimpleNamespace(CleanerUtils=utils))
        self.deleted = set[str]()
        self._logs: Any = SimpleNamespace(exists=lambda part, name: part == "day=1" and name not in self.deleted)
        self._jvm = SimpleNamespace(java=SimpleNamespace(util=SimpleNamespace(ArrayList=JavaList)))

    def _require_state(self, clean: Instant, state: State) -> None:
        """It is the driver's own."""

    def _newest_files(self, partitions: Iterable[str]) -> set[str]:
        assert list(partitions) == ["day=1"]
        return {self.newest}


def test_no_directory_is_deleted() -> None:
    """A writer may have come back to the partition, and a savepoint may need it: Hudi's plan looks for neither."""
    plan = CleanerPlan(partitions=("day=1",))
    with pytest.raises(HudiError, match="deletes whole partitions and no file"):
        Begun(plan).run_clean(CLEAN, confirm=lambda: None)
    assert plan.partitions == []


def refused(table: Cleaning, clean: Instant = CLEAN) -> HudiError:
    with pytest.raises(HudiError) as why:
        table.run_clean(clean, confirm=lambda: None)
    return why.value


def test_a_begun_clean_without_a_plan_cannot_be_finished_and_the_way_out_is_said() -> None:
    """What it deleted is not known; the next plan has what is left."""
    table = Begun(CleanerPlan())
    table.found.isEmpty = lambda _: True
    with pytest.raises(HudiError, match=r"20\.clean\.inflight has no plan any more.*remove 20\.clean\.requested"):
        table._clean(table._meta(), SimpleNamespace(requestedTime=lambda: "20", getState=lambda: "INFLIGHT"))
    new = table._clean(table._meta(), SimpleNamespace(requestedTime=lambda: "20", getState=lambda: "REQUESTED"))
    assert new.owner is None


def test_a_clean_whose_files_a_savepoint_keeps_is_refused_and_both_remedies_are_said() -> None:
    why = str(refused(Begun(CleanerPlan("old.parquet", "kept.parquet"), instant("savepoint"))))
    assert why.startswith("20.clean.inflight deletes kept.parquet, which 30.savepoint keeps: no more is deleted; ")
    assert "CALL delete_savepoint(table => ..., instant_time => '30')" in why
    assert "remove 20.clean.requested and then 20.clean.inflight from the timeline" in why


def test_the_files_are_named_that_a_dead_driver_deleted_before_a_savepoint_came() -> None:
    """The savepoint cannot be restored as it was."""
    table = Begun(CleanerPlan("kept.parquet", "also.parquet", "old.parquet"), instant("savepoint"))
    table.saved["partitionMetadata"]["day=1"]["savepointDataFile"] += ["also.parquet"]
    table.deleted = {"kept.parquet", "also.parquet", "old.parquet"}
    why = str(refused(table))
    assert why.startswith(
        "20.clean.inflight has deleted also.parquet, kept.parquet, which 30.savepoint keeps: no more is deleted; "
    )
    many = [f"{number:03}.parquet" for number in range(30)]
    table = Begun(CleanerPlan(*many), instant("savepoint"))
    table.saved["partitionMetadata"]["day=1"]["savepointDataFile"], table.deleted = many, set(many)
    assert "018.parquet, 019.parquet and 10 more, which 30.savepoint keeps" in str(refused(table))


def test_a_savepoint_without_content_is_named_as_what_it_keeps_is_not_known() -> None:
    table = Begun(CleanerPlan("old.parquet"), instant("savepoint"))
    table.empty = {"savepoint"}
    why = refused(table)
    assert isinstance(why, WaitingForInstantError)
    assert str(why).startswith("30.savepoint has no content, so what it keeps is not known; ")


def lease(confirmations: int) -> Callable[[], None]:
    """A lease that is lost after it was confirmed so often."""
    left = iter(range(confirmations))

    def confirm() -> None:
        if next(left, None) is None:
            raise JobError(Reason.LOCK_LOST, "lost")

    return confirm


def test_nothing_is_deleted_removed_or_reopened_without_the_lease() -> None:
    """The lock may be given back only after a while. The next steps ask for Hudi's classes, which are not there."""
    table = Begun(CleanerPlan("old.parquet"))
    table.actions.clean = SimpleNamespace(CleanActionExecutor=lambda *_: None)
    table._context = table._config = None
    with pytest.raises(JobError):
        table.run_clean(CLEAN, confirm=lease(1))
    with pytest.raises(AttributeError, match="getClass"):
        table.run_clean(CLEAN, confirm=lease(2))
    for change in (table.remove_clean, table.reopen_clean, table.remove, table.reopen):
        with pytest.raises(JobError):
            change(CLEAN, confirm=lease(0))


def test_each_write_is_rolled_back_only_if_it_is_still_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest first, once each: another client may have rolled one back meanwhile, or may be at it."""
    table, calls = Turned(), list[dict[str, str]]()
    found = iter([{"10": "", "20": "", "30": ""}, {"10": "", "30": ""}, {"30": ""}])
    table._client = SimpleNamespace(getTableServiceClient=lambda: None)
    table._jvm = SimpleNamespace(java=SimpleNamespace(util=SimpleNamespace(HashMap=JavaMap)))
    monkeypatch.setattr(table, "_dead_writes", lambda: next(found))
    monkeypatch.setattr(cleaning, "call_hidden", lambda _jvm, _service, _name, one: calls.append(one))
    table.roll_back_dead_writes(confirm=lease(2))
    assert calls == [{"30": ""}, {"10": ""}]


def test_a_plan_of_a_clean_without_content_is_said_to_be_so() -> None:
    table = Begun(CleanerPlan())
    table.require_plan(CLEAN)
    table.empty = {"clean"}
    with pytest.raises(WaitingForInstantError, match=r"has no content.*removed once it is 10 minutes old"):
        table.require_plan(CLEAN)


def test_a_clean_goes_on_beside_a_savepoint_that_keeps_none_of_its_files() -> None:
    """The next step asks for Hudi's classes, which are not there."""
    with pytest.raises(AttributeError, match="clean"):
        Begun(CleanerPlan("old.parquet"), instant("savepoint")).run_clean(CLEAN, confirm=lambda: None)


def test_a_savepoint_that_cannot_be_read_yet_is_waited_for() -> None:
    table = Begun(CleanerPlan("old.parquet"), instant("savepoint", done=False))
    with pytest.raises(WaitingForInstantError, match=r"30\.savepoint is being made"):
        table.run_clean(CLEAN, confirm=lambda: None)


def test_a_savepoint_that_comes_while_the_others_are_read_is_seen_under_the_lock() -> None:
    table = Begun(CleanerPlan("old.parquet"))
    with pytest.raises(WaitingForInstantError, match=r"30\.savepoint came while"):
        table.run_clean(CLEAN, confirm=lambda: table.others.append(instant("savepoint")))


@pytest.mark.parametrize("action", ["rollback", "restore"])
def test_a_clean_that_has_not_begun_is_planned_again_after_a_rollback_or_a_restore(action: str) -> None:
    planned = replace(CLEAN, state=State.REQUESTED)
    why = refused(Begun(CleanerPlan("old.parquet"), instant(action)), planned)
    assert isinstance(why, WaitingForInstantError)
    assert f"30.{action} came after 20.clean.requested was planned" in str(why)


def test_a_clean_that_has_begun_ends_with_a_later_restore() -> None:
    assert "was planned before 30.restore" in str(refused(Begun(CleanerPlan("old.parquet"), instant("restore"))))


def test_a_file_that_a_rollback_by_hand_made_the_newest_again_is_not_deleted() -> None:
    """Also one whose instant is older than the plan: its client may have shown it late."""
    for time in ("10", "30"):
        why = str(refused(Begun(CleanerPlan("old.parquet"), instant("rollback", time=time), newest="old.parquet")))
        assert why.startswith("20.clean.inflight deletes old.parquet, which is in use again since a rollback")


def test_other_rollbacks_do_not_keep_a_clean_from_being_finished() -> None:
    """Its own driver rolls back what dead writers left."""
    for time in ("10", "30"):
        table = Begun(CleanerPlan("old.parquet"), instant("rollback", time=time), newest="new.parquet")
        with pytest.raises(AttributeError):
            table.run_clean(CLEAN, confirm=lambda: None)


@pytest.mark.parametrize(
    ("plan", "deletes"),
    [
        ('{"filePathsToBeDeletedPerPartition": {"a": [{"filePath": "x"}]}}', True),
        ('{"filePathsToBeDeletedPerPartition": {"a": []}, "partitionsToBeDeleted": []}', False),
        ('{"filePathsToBeDeletedPerPartition": null, "partitionsToBeDeleted": null}', False),
        ('{"filePathsToBeDeletedPerPartition": {}, "partitionsToBeDeleted": ["a"]}', False),
    ],
)
def test_a_plan_that_deletes_nothing_is_none(plan: str, deletes: bool) -> None:
    assert deletes_anything(plan) is deletes
