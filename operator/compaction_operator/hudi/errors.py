"""Reasons not to compact a Hudi table: each error carries the reason that the compaction's condition shows."""

from typing import ClassVar

from compaction_operator.api.request import Reason
from compaction_operator.errors import OperatorError


class HudiError(OperatorError):
    """A Hudi table cannot be compacted as requested. The message names the table or option and the remedy."""

    reason: ClassVar[Reason] = Reason.UNSUPPORTED_TABLE


class NotHudiError(HudiError):
    """The location holds no Hudi table."""

    reason = Reason.TABLE_NOT_FOUND


class NotMergeOnReadError(HudiError):
    """The table is copy-on-write: it has no log files."""

    reason = Reason.NOT_MERGE_ON_READ


class UnsupportedVersionError(HudiError):
    """No bundle, or not the requested one, supports the table version."""


class RefusedOptionError(HudiError):
    """The user may not set this option."""

    reason = Reason.REFUSED_OPTION


class NoLockProviderError(HudiError):
    """No lock provider that works across processes is configured, and the table may have other writers."""

    reason = Reason.NO_LOCK_PROVIDER


class WaitingForInstantError(HudiError):
    """An instant of another client on the timeline prevents the operation."""

    reason = Reason.WAITING_FOR_INSTANT


class HudiLockError(HudiError):
    """The table's lock could not be acquired."""

    reason = Reason.WAITING_FOR_LOCK


class HudiFailedError(HudiError):
    """Hudi failed in a way that has no reason of its own."""

    reason = Reason.DRIVER_FAILED
