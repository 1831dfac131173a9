"""The moment of publication: list once more, then rename into names that must not exist."""

import json
from collections.abc import Callable
from contextlib import suppress

from compaction_operator.acid.plan import Layout, check_still_publishable
from compaction_operator.api.request import Reason
from compaction_operator.cleanup.staging import INTENT
from compaction_operator.jobs.errors import JobError
from compaction_operator.jobs.partition import Prepared, make_output
from compaction_operator.storage import AlreadyExistsError, NotFoundError, Storage, join

Guard = Callable[[], None]
"""Raises when this attempt must not publish any more: its lock is gone."""


def needs_exclusive(prepared: Prepared) -> bool:
    """Whether publication takes two renames, between which a reader would see wrong rows (hazard H3)."""
    return len(prepared.plan.outputs) > 1


def publish(storage: Storage, prepared: Prepared, *, guard: Guard) -> None:
    """Publish a partition's output directories and remove its staging folder.

    Raises JobError (TableChanged) when the second listing shows that the plan no longer holds (hazard H23) or
    when the fence took the staging folder away (hazards H4, H19).
    """
    guard()
    _check(storage, prepared)
    if needs_exclusive(prepared):
        _write_intent(storage, prepared)
    try:
        _publish_guard(storage, prepared)
        for output in prepared.plan.outputs:
            storage.publish(join(prepared.staging, output.name), join(prepared.location, output.name))
    except (AlreadyExistsError, NotFoundError) as error:
        raise JobError(Reason.TABLE_CHANGED, f"{prepared.location}: not published: {error}") from error
    storage.delete_tree(prepared.staging)


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
