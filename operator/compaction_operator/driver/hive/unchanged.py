"""Whether what an attempt works at is still what it was started for.

Locks, claims and write ids go by a table's name, directories by their places. A table that takes another's name in
between would have the one's files judged by the other's write ids: rows that were rolled back come to light.
"""

from collections.abc import Sequence

from compaction_operator.api.request import Reason
from compaction_operator.cleanup.identity import TableGoneError, resolve_today
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.metastore.resolve import Target


class TableChanged(JobError):  # noqa: N818 - a verdict on the table
    """The table itself is another one: whatever goes by its name is no business of this attempt's any more."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.TABLE_CHANGED, message)


def changes(attempt: DriverContext, targets: Sequence[Target]) -> dict[str, JobError]:
    """Return, by name, the error (TableChanged) of each partition that is another one now, or elsewhere.

    Two calls of the metastore. Raises TableChanged when the table itself is another one, and MetastoreError.
    NB: only right while a lock is held: Hive's RENAME and DROP wait for an EXCLUSIVE one, so what is found then stays.
    """
    try:
        today = resolve_today(attempt.client, attempt.identity, targets)
    except TableGoneError as gone:
        raise TableChanged(f"{gone}: nothing more is published") from gone
    found = ((target.partition, today.what_changed(target)) for target in targets)
    return {name: JobError(Reason.TABLE_CHANGED, change.message) for name, change in found if change}
