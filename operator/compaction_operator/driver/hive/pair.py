"""Publication of a pair on Hive 3.1: under the EXCLUSIVE lock, both halves become readable or neither (hazard H3)."""

import logging
import time

from compaction_operator.cleanup.fence import retire
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError, job_error
from compaction_operator.driver.hive.driver_locks import Locks
from compaction_operator.driver.hive.protocol import Staged
from compaction_operator.driver.hive.publish import publish
from compaction_operator.driver.merge.partition import OpenTarget
from compaction_operator.storage import StorageError, is_passing, join

log = logging.getLogger(__name__)

COMPLETION_SECONDS = 600.0
"""How long to try to complete a pair while its store does not answer. It outlasts a restart of a NameNode.

NB: nothing else hides a half for longer than hive.txn.timeout: without the driver's heartbeats the lock ends.
"""
RETRY_SECONDS = 5.0


class HalfPublished(JobError):  # noqa: N818 - a state of the partition
    """Half of a pair may be published. It ends the attempt for all partitions, so that the controller completes it."""


def publish_pair(item: Staged, locks: Locks) -> None:
    """Publish a pair under the EXCLUSIVE lock that is held; if it fails between the renames, complete it there.

    Raises what `publish` raises, and HalfPublished if the pair cannot be completed: the lock is kept then.
    """
    begun = False

    def guard() -> None:
        nonlocal begun
        locks.guard()
        begun = True  # The renames come right after it.

    try:
        publish(item, guard=guard)
    except (JobError, StorageError) as error:
        if begun:
            _complete(item, locks, failure=error)
        raise


def _complete(item: Staged, locks: Locks, *, failure: Exception) -> None:
    """Complete the pair, or give it up if none of it is published; otherwise keep the lock and raise HalfPublished.

    NB: it is done before the lock is released, since the next reader may start right after that.
    """
    try:
        _retire(item.target)
    except (JobError, StorageError) as error:
        # NB: a rename without an answer may still be carried out.
        if isinstance(error, StorageError) and not (is_passing(failure) or _is_begun(item)):
            return
        locks.keep()
        what = f"{item.target.location}: half of a pair may be published; its EXCLUSIVE lock is kept"
        raise HalfPublished(job_error(error).reason, f"{what}: {error}") from error


def _retire(target: OpenTarget) -> None:
    """Give up the own staging folder, which completes a pair; repeat it while the store does not answer.

    Raises JobError (Interrupted) on SIGTERM, and StorageError if a retry cannot help or time is up.
    """
    deadline = time.monotonic() + COMPLETION_SECONDS
    while True:
        try:
            return retire(target.storage, target.location, target.staging_name)
        except StorageError as error:
            if not is_passing(error) or time.monotonic() >= deadline:
                raise
            log.warning("%s: half of a pair may be published, trying again: %s", target.location, error)
        interruption.pause(RETRY_SECONDS)


def _is_begun(item: Staged) -> bool:
    """Whether an output may be there."""
    target = item.target
    try:
        return any(target.storage.exists(join(target.location, output.name)) for output in item.plan.outputs)
    except StorageError:
        return True
