"""When nothing is planned or deleted: while a restore is in progress. And which plans of Hudi's delete anything."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from compaction_operator.hudi import Action, Instant, State
from compaction_operator.hudi.errors import HudiError, WaitingForInstantError
from compaction_operator.hudi.jvm.cleaning import (
    HUDIS_SAVEPOINTS_KEY,
    SAVEPOINTS_KEY,
    Cleaning,
    _new_savepoints,
    deletes_anything,
)

CLEAN = Instant("20", Action.CLEAN, State.INFLIGHT, "team/uid/1")


class JavaList(list[Any]):
    """A java.util.List."""

    def size(self) -> int:
        return len(self)

    def get(self, number: int) -> Any:
        return self[number]


class Restored(Cleaning):
    """A table with one clean, whose timeline has a restore. Whatever would save, begin or delete fails."""

    def __init__(self, *, done: bool) -> None:
        restore = SimpleNamespace(getAction=lambda: "restore", isCompleted=lambda: done, requestedTime=lambda: "30")
        timeline = SimpleNamespace(getInstants=lambda: JavaList([restore]))
        self._found = SimpleNamespace(getActiveTimeline=lambda: timeline)

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
        return SimpleNamespace(getExtraMetadata=lambda: None)


def test_nothing_is_planned_or_deleted_while_a_restore_is_in_progress() -> None:
    """It makes old files the newest ones again."""
    table = Restored(done=False)
    with pytest.raises(WaitingForInstantError, match="restore 30 is in progress"):
        table.plan_clean(owner="me", confirm=lambda: None)
    with pytest.raises(WaitingForInstantError, match="restore 30 is in progress"):
        table.run_clean(CLEAN, confirm=lambda: None)


def test_a_restore_that_is_over_does_not_prevent_a_clean() -> None:
    """The next step asks for Hudi's classes, which are not there."""
    with pytest.raises(AttributeError, match="_client"):
        Restored(done=True).plan_clean(owner="me", confirm=lambda: None)


class CleanerPlan:
    """A HoodieCleanerPlan."""

    def __init__(self, *, files: dict[str, list[str]], partitions: list[str], extra: dict[str, str]) -> None:
        self.files, self.partitions, self.extra = files, partitions, extra

    def getExtraMetadata(self) -> dict[str, str]:  # noqa: N802 - Java's name
        return self.extra

    def setPartitionsToBeDeleted(self, partitions: list[str]) -> None:  # noqa: N802 - Java's name
        self.partitions = partitions

    def toString(self) -> str:  # noqa: N802 - Java's name
        return json.dumps({"filePathsToBeDeletedPerPartition": self.files, "partitionsToBeDeleted": self.partitions})


class Begun(Restored):
    """A table whose one clean has a plan."""

    def __init__(self, plan: CleanerPlan) -> None:
        super().__init__(done=True)
        generator = SimpleNamespace(getCleanRequestedInstant=lambda _: "requested")
        self._found.getInstantGenerator = lambda: generator
        utils = SimpleNamespace(getCleanerPlan=lambda _meta, _instant: plan)
        self._hudi = SimpleNamespace(common=SimpleNamespace(util=SimpleNamespace(CleanerUtils=utils)))
        self._jvm = SimpleNamespace(java=SimpleNamespace(util=SimpleNamespace(ArrayList=JavaList)))


def test_no_directory_is_deleted() -> None:
    """A writer may have come back to the partition, and a savepoint may need it: Hudi's plan looks for neither."""
    plan = CleanerPlan(files={}, partitions=["day=1"], extra={})
    with pytest.raises(HudiError, match="deletes whole partitions and no file"):
        Begun(plan).run_clean(CLEAN, confirm=lambda: None)
    assert plan.partitions == []


@pytest.mark.parametrize(
    ("extra", "new"),
    [
        ({SAVEPOINTS_KEY: "10.savepoint,20.savepoint"}, set()),
        ({SAVEPOINTS_KEY: ""}, {"10.savepoint"}),
        ({HUDIS_SAVEPOINTS_KEY: "10"}, set()),
        ({}, {"10.savepoint"}),
    ],
)
def test_savepoints_that_a_plan_knows_are_not_new(extra: dict[str, str], new: set[str]) -> None:
    """NB: of a table without partitions Hudi's own key has none."""
    savepoint = SimpleNamespace(getAction=lambda: "savepoint", requestedTime=lambda: "10")
    meta = SimpleNamespace(getActiveTimeline=lambda: SimpleNamespace(getInstants=lambda: JavaList([savepoint])))
    assert _new_savepoints(meta, CleanerPlan(files={}, partitions=[], extra=extra)) == new


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
