"""What can go wrong between this project and a Hive metastore."""


class MetastoreError(Exception):
    """The metastore refused a call, or answered with something that cannot be relied on."""


class MetastoreUnavailable(MetastoreError):  # noqa: N818 - a state of the world, in its own words
    """No answer: the metastore cannot be reached, went away, or took longer than the configured timeout.

    Whether the call took effect is not known.
    """


class HungUp(MetastoreUnavailable):
    """The metastore took the call and ended the connection, or over HTTP answered with a server error."""


class TableNotFound(MetastoreError):  # noqa: N818 - a state of the world, in its own words
    """There is no such table (or database)."""


class LockLost(MetastoreError):  # noqa: N818 - a state of the world, in its own words
    """A lock no longer exists in the metastore, or can no longer be relied on."""


class TransactionLost(MetastoreError):  # noqa: N818 - a state of the world, in its own words
    """A transaction is no longer open: it was aborted, has ended, or is not known (any more)."""
