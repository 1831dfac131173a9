"""Checks before a commit: records that Hudi failed to write without reporting it."""

from typing import Any

import pytest

from compaction_operator.hudi import Action, HudiError, Operation, Plan
from compaction_operator.hudi.jvm.writes import require_all_written


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


class Metadata:
    """HoodieWriteMetadata with these statuses, and the Java list of them."""

    def __init__(self, *statuses: Status) -> None:
        self._statuses = statuses

    def getWriteStatuses(self) -> "Metadata":  # noqa: N802
        return self

    def collect(self) -> Any:
        return self

    def size(self) -> int:
        return len(self._statuses)

    def get(self, number: int) -> Status:
        return self._statuses[number]


def plan(action: Action = Action.LOG_COMPACTION) -> Plan:
    return Plan("1", action, (Operation("", "f1", ()), Operation("", "f2", ())))


def test_what_was_written_whole_may_be_committed() -> None:
    require_all_written(plan(), Metadata(Status("f1"), Status("f2"), Status("f2")))


def test_records_that_could_not_be_written_are_counted() -> None:
    with pytest.raises(HudiError, match="5 records could not be written"):
        require_all_written(plan(), Metadata(Status("f1", 2), Status("f2", 3)))


def test_a_file_group_without_any_output_is_named() -> None:
    """A merged block of it would replace its originals for readers with nothing."""
    with pytest.raises(HudiError, match="file group f2 could not be written"):
        require_all_written(plan(), Metadata(Status("f1")))


def test_a_compaction_may_leave_nothing_of_a_file_group() -> None:
    require_all_written(plan(Action.COMPACTION), Metadata(Status("f1")))
