"""The moment of publication: list once more, then rename into names that must not exist."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from compaction_operator.acid.plan import Layout, check_still_publishable
from compaction_operator.api.request import Reason
from compaction_operator.cleanup.staging import INTENT
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.merge.partition import Prepared, make_output
from compaction_operator.storage import AlreadyExistsError, NotFoundError, Storage, StorageError, join

log = logging.getLogger(__name__)

Guard = Callable[[], None]
"""Raises when this attempt must not publish any more: its lock is gone."""


def needs_exclusive(prepared: Prepared) -> bool:
    """Whether publication takes two renames, between which a reader would see wrong rows (hazard H3)."""
    return len(prepared.plan.outputs) > 1


def publish(storage: Storage, prepared: Prepared, *, guard: Guard) -> None:
    """Publish a partition's output directories, which count from their rename on, and remove its staging folder.

    Raises JobError: what the guard raises; TableChanged when the second listing shows that the plan no longer holds
    (hazard H23) or when the fence took the staging folder away (hazards H4, H19).
    """
    _check(storage, prepared)
    if needs_exclusive(prepared):
        _write_intent(storage, prepared)
    with _unless_changed(prepared):
        _publish_guard(storage, prepared)
        _rename(storage, prepared, guard)
    leave(storage, prepared)


def leave(storage: Storage, prepared: Prepared) -> None:
    """Remove a staging folder from which nothing is needed any more.

    NB: an error here would fail work that is done. What is left goes with the end of the attempt, or the next fence.
    """
    try:
        storage.delete_tree(prepared.staging)
    except StorageError as error:
        log.warning("staging is left behind: %s", error)


def move_outputs(storage: Storage, prepared: Prepared, *, guard: Guard) -> None:
    """Rename a partition's output directories into place, where they count once their transaction is committed.

    Raises as `publish` does.
    """
    _check(storage, prepared)
    with _unless_changed(prepared):
        _rename(storage, prepared, guard)


def _rename(storage: Storage, prepared: Prepared, guard: Guard) -> None:
    """NB: the guard comes last, after all that may take long. A rename that is late all the same is harmless: whoever
    comes next has fenced the staging folder before it lists, so that the rename has no source, or is seen.
    """
    guard()
    for output in prepared.plan.outputs:
        storage.publish(join(prepared.staging, output.name), join(prepared.location, output.name))


@contextmanager
def _unless_changed(prepared: Prepared) -> Iterator[None]:
    try:
        yield
    except (AlreadyExistsError, NotFoundError) as error:
        raise JobError(Reason.TABLE_CHANGED, f"{prepared.location}: not published: {error}") from error


def _check(storage: Storage, prepared: Prepared) -> None:
    reason = check_still_publishable(prepared.plan, storage.list_partition(prepared.location))
    if reason:
        raise JobError(Reason.TABLE_CHANGED, f"{prepared.location}: not published: {reason}")


def _publish_guard(storage: Storage, prepared: Prepared) -> None:
    """Publish the empty base that older snapshots go on with (hazard H24); it may be left from another attempt."""
    guard = prepared.plan.guard
    if guard is None:
        return
    staged = make_output(storage, prepared, guard, layout=Layout.HIVE3)
    with suppress(AlreadyExistsError):
        storage.publish(staged, join(prepared.location, guard.name))


def _write_intent(storage: Storage, prepared: Prepared) -> None:
    """Say which two directories belong together, so that whoever fences this attempt rolls forward first."""
    names = [output.name for output in prepared.plan.outputs]
    storage.write(join(prepared.staging, INTENT), json.dumps({"outputs": names}).encode())
