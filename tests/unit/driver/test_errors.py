"""Which reason a partition's error becomes: it decides whether another attempt is made."""

import errno
import os

import pytest

from compaction_operator.acid.snapshot import NotEnoughHistory, OpenWriteBelow, UnsupportedLayout
from compaction_operator.api.request import FINAL_REASONS, WAITING_REASONS, Reason
from compaction_operator.driver.errors import at_location, job_error
from compaction_operator.orc import OrcError
from compaction_operator.storage import StorageError


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UnsupportedLayout("odd"), Reason.UNSUPPORTED_TABLE),
        (NotEnoughHistory("odd"), Reason.UNSUPPORTED_TABLE),
        (OpenWriteBelow("odd"), Reason.OPEN_WRITE),
        (OrcError("f", "odd"), Reason.UNREADABLE_FILE),
        (StorageError("odd"), Reason.UNREADABLE_FILE),
        (StorageError("no answer", passing=True), Reason.STORAGE_UNAVAILABLE),
    ],
)
def test_each_error_has_its_reason(error: Exception, reason: Reason) -> None:
    assert job_error(error).reason is reason
    assert at_location(error, "/t").reason is reason


def test_a_file_of_a_store_that_does_not_answer_is_waited_for() -> None:
    """An outage must not use up the attempts."""
    unreadable, failed = OrcError("f", "no answer"), OSError("no answer")
    unreadable.__cause__, failed.__cause__ = failed, StorageError("no answer", passing=True)
    assert job_error(unreadable).reason is Reason.STORAGE_UNAVAILABLE
    assert Reason.STORAGE_UNAVAILABLE in WAITING_REASONS


def test_a_full_disk_is_waited_for_and_a_quota_counts() -> None:
    """Space comes back without a change of the table. A quota is a decision, which only a person can change."""
    for code, reason in ((errno.ENOSPC, Reason.STORAGE_UNAVAILABLE), (errno.EDQUOT, Reason.UNREADABLE_FILE)):
        for error in (OrcError("f", "cannot be written"), StorageError("f: cannot be written")):
            error.__cause__ = OSError(code, os.strerror(code), "f")
            assert job_error(error).reason is reason


def test_an_open_write_is_waited_for() -> None:
    assert Reason.OPEN_WRITE in WAITING_REASONS - FINAL_REASONS
