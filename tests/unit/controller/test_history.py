"""etcd restored from a backup under a running controller, and deletions that the watch has missed."""

import asyncio
import copy
from typing import Any

import pytest

from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller import loop as controller
from compaction_operator.controller.kube.client import KubeError
from compaction_operator.controller.kube.history import WentBackError
from compaction_operator.controller.kube.resources import ResourceKind
from tests.unit.controller.sandbox import NOON, Sandbox, compaction_raw, condition, copied, runs
from tests.unit.controller.test_controller import job, journal


async def restored(*, bumped: bool) -> Sandbox:
    """A controller that has seen a compaction to its end, on an API server that has it running (again)."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    await box.controller.check_history()
    objects, version = copy.deepcopy(box.kube.objects), box.kube.version
    box.kube.apply(ResourceKind.CLEANUP, journal())
    box.kube.end_job(job(), DriverResult(reason=Reason.COMPACTED, message="done"), ok=True)
    await box.run()
    assert condition(box.compaction())["reason"] == "Compacted"
    box.kube.objects, box.kube.version = objects, box.kube.version + 1_000_000 if bumped else version
    if bumped:
        list_again(box)
    return box


def list_again(box: Sandbox) -> None:
    """Let the watch list all there is, as it does when its version is too old to go on from."""
    for kind in (ResourceKind.CLEANUP, ResourceKind.COMPACTION):
        for raw in box.kube.all(kind):
            box.controller.on_event(kind, None, raw)


@pytest.mark.parametrize("bumped", [False, True], ids=["lower versions", "versions bumped"])
def test_a_restored_backup_is_noticed_and_all_begins_afresh(bumped: bool) -> None:
    """What is listed wins: the attempt that runs there is judged, and a new compaction has its turn."""

    async def scenario() -> None:
        box = await restored(bumped=bumped)
        with pytest.raises(WentBackError):
            await box.controller.check_history()
        await box.start()
        box.kube.apply(ResourceKind.CLEANUP, journal())
        box.kube.end_job(job(), DriverResult(reason=Reason.COMPACTED, message="done"), ok=True)
        await box.run()
        assert condition(box.compaction())["reason"] == "Compacted"
        await box.controller.check_history()

    asyncio.run(scenario())


@runs
async def test_a_restore_that_is_soon_overtaken_is_noticed_by_the_first_write() -> None:
    """The API server's own writes raise its version again; what is known wrongly is refused as a conflict."""
    box = await restored(bumped=False)
    box.kube.version += 1000
    await box.controller.check_history()
    key = (ResourceKind.COMPACTION, "default", "nightly")
    raw = copied(box.kube.objects[key])
    raw["metadata"] = {**raw["metadata"], "generation": 2, "resourceVersion": str(box.kube.version)}
    box.controller.on_event(ResourceKind.COMPACTION, "MODIFIED", raw)
    await box.run()
    with pytest.raises(WentBackError):
        await box.controller.check_history()


@runs
async def test_a_restore_that_is_newer_than_all_that_is_known_is_noticed() -> None:
    """Nothing was compacted for days, while others wrote: what was made since the backup has older versions again."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(suspend=True))
    await box.start()
    box.kube.version += 1000
    await box.controller.check_history()
    box.kube.version -= 1
    with pytest.raises(WentBackError):
        await box.controller.check_history()


@runs
async def test_the_loop_ends_when_the_history_went_back() -> None:
    """The process ends with it, and the kubelet starts a fresh one."""
    box = await restored(bumped=False)
    pause, controller.HISTORY_PAUSE = controller.HISTORY_PAUSE, 0.0
    try:
        box.controller._load_at_last = nothing  # type: ignore[method-assign]
        with pytest.raises(WentBackError, match="is at resource version"):
            await asyncio.wait_for(box.controller.run(), 30)
    finally:
        controller.HISTORY_PAUSE = pause


async def nothing() -> None:
    """Load nothing: the controller has loaded before."""


@runs
async def test_the_watch_never_goes_back() -> None:
    """A late version is refused; and that some version was late says nothing of the history."""
    box = Sandbox()
    old = box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    box.controller.on_event(ResourceKind.COMPACTION, None, old)
    box.controller.on_event(ResourceKind.COMPACTION, "MODIFIED", old)
    await box.run()
    assert box.kube.jobs() == [job()]
    await box.controller.check_history()


@runs
async def test_what_changes_while_it_is_listed_is_no_step_back() -> None:
    """Our own write may be answered before an older list is."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(suspend=True))
    await box.start()
    list_again(box)
    list_all = box.kube.list_all

    def late(kind: ResourceKind, namespace: str = "") -> Any:
        before = list_all(kind, namespace)
        if kind is ResourceKind.COMPACTION:
            box.kube.apply(kind, {**copied(before[0]), "spec": compaction_raw()["spec"]})
        return before

    box.kube.list_all = late  # type: ignore[method-assign]
    await box.controller.check_history()
    await box.run()
    assert box.compaction()["phase"] == "Running"


@runs
async def test_a_deletion_that_the_watch_has_missed_is_noticed_when_it_lists_again() -> None:
    """What waited for the table goes on; what was made meanwhile stays."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("waiting", created=NOON.replace(minute=1)))
    await box.start()
    watchers, box.kube.watchers = box.kube.watchers, []
    box.kube.delete(ResourceKind.COMPACTION, "default", "nightly")
    box.kube.delete(ResourceKind.JOB, "default", job())
    box.kube.watchers = watchers
    await box.controller.check_history()
    assert box.controller._cache.running
    list_again(box)
    await box.controller.check_history()
    await box.run()
    assert box.kube.jobs() == [job(name="waiting")]


@runs
async def test_an_api_server_that_does_not_answer_says_nothing() -> None:
    box = Sandbox()
    await box.start()

    def refuse(kind: ResourceKind, namespace: str = "") -> int:
        raise KubeError("API server not reachable")

    box.kube.newest = refuse  # type: ignore[method-assign]
    await box.controller.check_history()
