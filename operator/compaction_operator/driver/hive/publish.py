"""Publication of a partition: list it once more, then rename the outputs to names that must not exist."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from compaction_operator.acid.plan import check_still_publishable
from compaction_operator.api.cleanup import Upload
from compaction_operator.api.request import Reason
from compaction_operator.cleanup.staging import INTENT
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.merge.partition import Prepared, make_output
from compaction_operator.storage import AlreadyExistsError, NotFoundError, StorageError, join

log = logging.getLogger(__name__)

UPLOADS_PER_CHECK = 32
"""How many uploads are completed before the guard is asked again: one that is late must find few to complete."""

Guard = Callable[[], None]
"""Raises JobError when this attempt may no longer publish, because its lock or transaction is lost."""


def needs_exclusive(prepared: Prepared) -> bool:
    """Whether publication takes several renames; a reader between those of a pair would see wrong rows (hazard H3).

    NB: runs of one row type are right one by one. But the end of an attempt counts its outputs as published all or
    none, so that it is clear what became obsolete.
    """
    return len(prepared.plan.outputs) > 1


def publish(prepared: Prepared, *, guard: Guard) -> None:
    """Publish a partition's output directories, which are visible once renamed, and remove its staging folder.

    Raises JobError: the guard's own, and one with reason TableChanged when the second listing shows that the plan no
    longer holds (hazard H23) or when a fence removed the staging folder (hazards H4, H19).
    """
    _check(prepared)
    target = prepared.target
    if needs_exclusive(prepared):
        # It names the directories of the pair, or of all runs: a fence of this attempt completes them first.
        names = [output.name for output in prepared.plan.outputs]
        target.storage.write(join(target.staging, INTENT), json.dumps({"outputs": names}).encode())
    with _unless_changed(prepared):
        _publish_guard(prepared)
        _rename(prepared, guard)
    leave(prepared)


def leave(prepared: Prepared) -> None:
    """Remove a staging folder that is no longer needed.

    NB: a storage error is only logged, because raising it would fail finished work. The end of the attempt or the
    next fence removes what remains.
    """
    try:
        prepared.target.storage.delete_tree(prepared.target.staging)
    except StorageError as error:
        log.warning("staging was not removed: %s", error)


def move_outputs(prepared: Prepared, *, uploads: Sequence[Upload], guard: Guard) -> None:
    """Put a partition's output directories into place; they become visible when their transaction commits.

    Where the store cannot rename, it completes their uploads, a few behind each check of the guard. NB: an upload that
    is completed late is one that the journal names: the end of this attempt aborts it. Raises as `publish` does.
    """
    _check(prepared)
    target = prepared.target
    with _unless_changed(prepared):
        if target.storage.uploads is None:
            _rename(prepared, guard)
        else:
            for start in range(0, len(uploads), UPLOADS_PER_CHECK):
                guard()
                target.storage.uploads.complete(target.location, uploads[start : start + UPLOADS_PER_CHECK])


def _rename(prepared: Prepared, guard: Guard) -> None:
    """Check the guard, then rename the outputs.

    NB: the guard comes last, after every slow step. A rename that is late nevertheless is harmless: the next attempt
    fences the staging folder before it lists, so the rename finds no source, or the listing sees its result.
    """
    guard()
    target = prepared.target
    for output in prepared.plan.outputs:
        target.storage.publish(join(target.staging, output.name), join(target.location, output.name))


@contextmanager
def _unless_changed(prepared: Prepared) -> Iterator[None]:
    try:
        yield
    except (AlreadyExistsError, NotFoundError) as error:
        raise JobError(Reason.TABLE_CHANGED, f"{prepared.target.location}: not published: {error}") from error


def _check(prepared: Prepared) -> None:
    target = prepared.target
    if reason := check_still_publishable(prepared.plan, target.storage.list_partition(target.location)):
        raise JobError(Reason.TABLE_CHANGED, f"{target.location}: not published: {reason}")


def _publish_guard(prepared: Prepared) -> None:
    """Publish the empty base that older snapshots continue with (hazard H24).

    An earlier attempt may have published it already.
    """
    guard = prepared.plan.guard
    if guard is None:
        return
    staged = make_output(prepared, guard)
    with suppress(AlreadyExistsError):
        prepared.target.storage.publish(staged, join(prepared.target.location, guard.name))
