"""What Hudi throws becomes one line and the right reason."""

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import IllegalArgumentException

from compaction_operator.api.request import Reason
from compaction_operator.hudi import HudiError
from compaction_operator.hudi.jvm.java import hudi_errors, items


class Thrown:
    """A Java exception as py4j hands it over."""

    _target_id = "o1"

    def __init__(self, name: str, message: str, cause: "Thrown | None" = None) -> None:
        self._name, self._message, self._cause = name, message, cause

    def getClass(self) -> Any:  # noqa: N802
        return self

    def getSimpleName(self) -> str:  # noqa: N802
        return self._name

    def getMessage(self) -> str:  # noqa: N802
        return self._message

    def getCause(self) -> "Thrown | None":  # noqa: N802
        return self._cause


def caught(thrown: Thrown) -> HudiError:
    with pytest.raises(HudiError) as found, hudi_errors("planning"):
        raise Py4JJavaError("An error", thrown)
    return found.value


@pytest.mark.parametrize(
    ("thrown", "reason"),
    [
        (Thrown("HoodieLockException", "Unable to acquire the lock"), Reason.WAITING_FOR_LOCK),
        (Thrown("HoodieLockException", "due to heartbeat by concurrent writer/job"), Reason.WAITING_FOR_INSTANT),
        (Thrown("HoodieException", "failed", Thrown("HoodieLockException", "no lock")), Reason.WAITING_FOR_LOCK),
        (Thrown("NullPointerException", "null"), Reason.DRIVER_FAILED),
    ],
)
def test_a_lock_that_is_not_had_is_waited_for(thrown: Thrown, reason: Reason) -> None:
    assert caught(thrown).reason is reason


def test_the_deepest_cause_is_said_in_one_line() -> None:
    error = caught(Thrown("SparkException", "Job aborted", Thrown("FileNotFoundException", "no\n  file " + "x" * 9999)))
    assert str(error).startswith("planning: FileNotFoundException: no file xxx")
    assert len(str(error)) < 600


def test_what_pyspark_made_an_error_of_its_own_of_is_hudis_all_the_same() -> None:
    error = IllegalArgumentException.__new__(IllegalArgumentException)
    error._origin = Thrown("IllegalArgumentException", "20.logcompaction.inflight does not exist!")
    with pytest.raises(HudiError, match=r"planning: IllegalArgumentException: 20\.log"), hudi_errors("planning"):
        raise error


def test_other_errors_are_let_through() -> None:
    with pytest.raises(KeyError), hudi_errors("planning"):
        raise KeyError


def test_a_list_that_is_not_there_is_empty() -> None:
    assert items(None) == []
