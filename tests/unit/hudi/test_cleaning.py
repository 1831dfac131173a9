"""When nothing is planned or deleted: while a restore is in progress. And which plans of Hudi's delete anything."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from compaction_operator.hudi import Action, Instant, State
from compaction_operator.hudi.errors import WaitingForInstantError
from compaction_operator.hudi.jvm.cleaning import Cleaning, deletes_anything

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


@pytest.mark.parametrize(
    ("plan", "deletes"),
    [
        ('{"filePathsToBeDeletedPerPartition": {"a": [{"filePath": "x"}]}}', True),
        ('{"filePathsToBeDeletedPerPartition": {"a": []}, "partitionsToBeDeleted": []}', False),
        ('{"filePathsToBeDeletedPerPartition": null, "partitionsToBeDeleted": null}', False),
        ('{"filePathsToBeDeletedPerPartition": {}, "partitionsToBeDeleted": ["a"]}', True),
    ],
)
def test_a_plan_that_deletes_nothing_is_none(plan: str, deletes: bool) -> None:
    assert deletes_anything(plan) is deletes
