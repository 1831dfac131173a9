"""Why a driver stops: each error carries the reason that the compaction's condition will show."""

from compaction_operator.api.request import DriverResult, Reason


class JobError(Exception):
    """The attempt (or one partition of it) cannot go on."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def result(self) -> DriverResult:
        """Return what the driver says of itself."""
        return DriverResult(reason=self.reason, message=str(self))
