"""Errors that stop a driver. Each carries the reason that the compaction's condition shows."""

from compaction_operator.acid.snapshot import NotEnoughHistory, OpenWriteBelow, UnsupportedLayout
from compaction_operator.api.request import Reason
from compaction_operator.errors import OperatorError
from compaction_operator.orc import OrcError, RowTypeError
from compaction_operator.storage import StorageError, is_passing

PARTITION_ERRORS = (UnsupportedLayout, NotEnoughHistory, OrcError, StorageError)
"""Errors that make one partition impossible to compact and do not affect the others."""


class JobError(OperatorError):
    """The attempt, or one partition of it, cannot continue."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RepeatedRow(JobError):  # noqa: N818 - a verdict on the table
    """Two of the input files hold the same row."""


class RowTypesDiffer(JobError):  # noqa: N818 - a verdict on the table
    """The rows of an input file cannot become rows of the output's row type without possible loss."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.ROW_TYPES_DIFFER, message)


class Unstopped(JobError):  # noqa: N818 - a verdict on the attempt
    """The attempt must end, but a thread of it still waits for its store, and may write to the staging folders."""


def job_error(error: Exception) -> JobError:
    """Convert one of the PARTITION_ERRORS to a JobError; return a JobError unchanged."""
    return error if isinstance(error, JobError) else JobError(_reason(error), str(error))


def at_location(error: Exception, location: str) -> JobError:
    """Convert an error to a JobError whose message starts with the partition's location."""
    return JobError(job_error(error).reason, f"{location}: {error}")


def _reason(error: Exception) -> Reason:
    if isinstance(error, OpenWriteBelow):
        return Reason.OPEN_WRITE
    if isinstance(error, UnsupportedLayout | NotEnoughHistory):
        return Reason.UNSUPPORTED_TABLE
    if isinstance(error, RowTypeError):
        return Reason.ROW_TYPES_DIFFER
    return Reason.STORAGE_UNAVAILABLE if is_passing(error) else Reason.UNREADABLE_FILE
