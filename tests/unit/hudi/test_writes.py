"""Checks before a commit: records that Hudi failed to write without reporting it."""

from types import SimpleNamespace
from typing import Any

import pytest

from compaction_operator.hudi import Action, HudiError, Operation, Plan
from compaction_operator.hudi.jvm.writes import Writes, require_all_written


class Status:
    """A WriteStatus of Hudi, which is its own HoodieWriteStat here."""

    def __init__(self, file_id: str, errors: int = 0) -> None:
        self._file_id = file_id
        self._errors = errors

    def getTotalErrorRecords(self) -> int:  # noqa: N802
        return self._errors

    def getStat(self) -> "Status":  # noqa: N802
        return self

    def getFileId(self) -> str:  # noqa: N802
        return self._file_id

    def getPath(self) -> str:  # noqa: N802
        return f"day=1/.{self._file_id}_20.log.1_0-1-1"


class Statuses:
    """A JavaRDD of statuses, with its Java list and its Java iterator, and what was asked of it."""

    def __init__(self, *statuses: Status, kept: bool = True) -> None:
        self._statuses = statuses
        self._kept = kept
        self._next = 0
        self.asked: list[str] = []

    def getStorageLevel(self) -> Any:  # noqa: N802
        return SimpleNamespace(isValid=lambda: self._kept)

    def count(self) -> int:
        self.asked.append("count")
        return len(self._statuses)

    def collect(self) -> "Statuses":
        self.asked.append("collect")
        return self

    def toLocalIterator(self) -> "Statuses":  # noqa: N802
        self.asked.append("toLocalIterator")
        return self

    def size(self) -> int:
        return len(self._statuses)

    def get(self, number: int) -> Status:
        return self._statuses[number]

    def hasNext(self) -> bool:  # noqa: N802
        return self._next < len(self._statuses)

    def next(self) -> Status:
        self._next += 1
        return self._statuses[self._next - 1]


class Client(Writes):
    """A client of a table that has a record index, or has none."""

    def __init__(self, *, tracks: bool) -> None:
        self._tracks = tracks

    def _table(self) -> Any:
        return SimpleNamespace(shouldTrackSuccessRecords=lambda: self._tracks)


@pytest.mark.parametrize(
    ("tracks", "kept", "asked"),
    [
        (True, True, ["count", "toLocalIterator"]),
        (False, True, ["collect"]),
        (True, False, ["collect"]),
    ],
    ids=["record index", "no record index", "would be written twice"],
)
def test_statuses_that_hold_all_keys_are_never_in_the_driver_together(
    tracks: bool, kept: bool, asked: list[str]
) -> None:
    statuses = Status("f1"), Status("f2")
    rdd = Statuses(*statuses, kept=kept)
    assert tuple(Client(tracks=tracks)._statuses(rdd)) == statuses
    assert rdd.asked == asked


def plan(action: Action = Action.LOG_COMPACTION) -> Plan:
    return Plan("1", action, (Operation("", "f1", ()), Operation("", "f2", ())))


def test_what_was_written_whole_may_be_committed() -> None:
    require_all_written(plan(), (Status("f1"), Status("f2"), Status("f2")))


def test_records_that_could_not_be_written_are_counted() -> None:
    with pytest.raises(HudiError, match="5 records could not be written"):
        require_all_written(plan(), (Status("f1", 2), Status("f2", 3)))


def test_a_file_group_without_any_output_is_named() -> None:
    """A merged block of it would replace its originals for readers with nothing."""
    with pytest.raises(HudiError, match="file group f2 could not be written"):
        require_all_written(plan(), [Status("f1")])


def test_a_compaction_may_leave_nothing_of_a_file_group() -> None:
    require_all_written(plan(Action.COMPACTION), [Status("f1")])
