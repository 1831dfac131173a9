"""Errors of calls to a Hive metastore."""

from compaction_operator.errors import OperatorError


class MetastoreError(OperatorError):
    """The metastore refused a call, or its reply is unusable."""


class MetastoreUnavailable(MetastoreError):  # noqa: N818 - a state of the world, in its own words
    """No reply: the metastore is unreachable, closed the connection, or exceeded the configured timeout.

    It is unknown whether the call took effect.
    """


class HungUp(MetastoreUnavailable):
    """The metastore accepted the call and closed the connection, or answered with an HTTP server error."""


class TableNotFound(MetastoreError):  # noqa: N818 - a state of the world, in its own words
    """The table or database does not exist."""


class LockLost(MetastoreError):  # noqa: N818 - a state of the world, in its own words
    """A lock no longer exists in the metastore, or may no longer exist."""


class TransactionLost(MetastoreError):  # noqa: N818 - a state of the world, in its own words
    """A transaction is not open: it was aborted, has ended, or is unknown to the metastore."""
