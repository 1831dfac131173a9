"""A check that a table and its partitions are still the ones that an attempt was started for.

Locks, claims and write ids are bound to a table's name, directories to their locations. If another table takes the name
meanwhile, its write ids would be applied to the first table's files, and rows that were rolled back would reappear.
"""

from collections.abc import Sequence

from compaction_operator.api.request import Reason
from compaction_operator.cleanup.identity import TableGoneError, resolve_today
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.metastore import Target


class TableChanged(JobError):  # noqa: N818 - a verdict on the table
    """The table was replaced: this attempt must not touch the table that now has its name."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.TABLE_CHANGED, message)


def changes(attempt: DriverContext, targets: Sequence[Target]) -> dict[str, JobError]:
    """Return, by partition name, an error with reason TableChanged for each partition that was replaced or moved.

    Makes two metastore calls. Raises TableChanged when the table itself was replaced, and MetastoreError.
    NB: call it only while a lock is held. Hive's RENAME and DROP wait for an EXCLUSIVE lock, so the answer stays true.
    """
    try:
        today = resolve_today(attempt.client, attempt.identity, targets)
    except TableGoneError as gone:
        raise TableChanged(f"{gone}: nothing more is published") from gone
    found = ((target.partition, today.what_changed(target)) for target in targets)
    return {name: JobError(Reason.TABLE_CHANGED, change.message) for name, change in found if change}
