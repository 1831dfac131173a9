"""Why a Hudi table is not compacted: each error carries the reason that the compaction's condition will show."""

from typing import ClassVar

from compaction_operator.api.request import Reason


class HudiError(Exception):
    """A Hudi table cannot be compacted as it was asked for; the message names the table or option and what to do."""

    reason: ClassVar[Reason] = Reason.UNSUPPORTED_TABLE


class NotHudiError(HudiError):
    """There is no Hudi table at the place."""

    reason = Reason.TABLE_NOT_FOUND


class NotMergeOnReadError(HudiError):
    """The table is copy-on-write: it has no log files."""

    reason = Reason.NOT_MERGE_ON_READ


class UnsupportedVersionError(HudiError):
    """No bundle (or not the one that was asked for) serves a table of that version."""


class RefusedOptionError(HudiError):
    """An option is not the user's to set."""

    reason = Reason.REFUSED_OPTION


class NoLockProviderError(HudiError):
    """No lock that holds between processes was named, and the table may have other writers."""

    reason = Reason.NO_LOCK_PROVIDER


class WaitingForInstantError(HudiError):
    """Somebody else's instant on the timeline stands in the way."""

    reason = Reason.WAITING_FOR_INSTANT
