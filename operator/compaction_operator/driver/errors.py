"""Why a driver stops: each error carries the reason that the compaction's condition will show."""

from compaction_operator.acid.snapshot import NotEnoughHistory, OpenWriteBelow, UnsupportedLayout
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.orc import OrcError
from compaction_operator.storage import StorageError

PARTITION_ERRORS = (UnsupportedLayout, NotEnoughHistory, OrcError, StorageError)
"""What makes one partition impossible to compact and leaves the others alone."""


class JobError(Exception):
    """The attempt (or one partition of it) cannot go on."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def result(self) -> DriverResult:
        """Return what the driver says of itself."""
        return DriverResult(reason=self.reason, message=str(self))


class RepeatedRow(JobError):  # noqa: N818 - a verdict on the table
    """Two of the files that were read hold the same row."""


def job_error(error: Exception) -> JobError:
    """Return one of the PARTITION_ERRORS as an error of the job; a JobError stays as it is."""
    return error if isinstance(error, JobError) else JobError(_reason(error), str(error))


def at_location(error: Exception, location: str) -> JobError:
    """Return the error of the job that names a partition's place before what went wrong there."""
    return JobError(job_error(error).reason, f"{location}: {error}")


def _reason(error: Exception) -> Reason:
    if isinstance(error, OpenWriteBelow):
        return Reason.OPEN_WRITE
    if isinstance(error, UnsupportedLayout | NotEnoughHistory):
        return Reason.UNSUPPORTED_TABLE
    return Reason.UNREADABLE_FILE
