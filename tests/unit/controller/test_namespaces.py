"""The controller watches each namespace by itself: what it does not see it leaves alone, and the rest goes on."""

import asyncio
import io
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import kubernetes
import pytest
from urllib3 import HTTPResponse

from compaction_operator.api.cleanup import LABEL_COMPACTION_UID
from compaction_operator.api.config import WatchScope
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller.health import Vitals, readiness
from compaction_operator.controller.kube import watching
from compaction_operator.controller.kube.client import (
    CutError,
    ExpiredError,
    ForbiddenError,
    GoneError,
    KubeError,
    Raw,
)
from compaction_operator.controller.kube.history import WentBackError
from compaction_operator.controller.kube.resources import Key, ResourceKind
from compaction_operator.controller.kube.sight import AT_START, NOT_LISTED, PATIENCE, REMIND, Sight
from compaction_operator.controller.kube.watches import LONGEST_PAUSE, PAUSE, Watch, connections, watch_all
from compaction_operator.controller.kube.watching import Watching, changes_in
from compaction_operator.controller.kube.workers import Load
from compaction_operator.metastore import QueueState
from tests.unit.controller.sandbox import (
    CONFIG,
    NOON,
    FakeKube,
    Sandbox,
    Time,
    cleanup_raw,
    compaction_raw,
    condition,
    runs,
    with_pool,
)
from tests.unit.controller.test_controller import job, journal
from tests.unit.controller.test_policies import policy_raw
from tests.unit.controller.test_pools import enqueue, states

SINGLE = CONFIG.model_copy(update={"watch": WatchScope.NAMESPACES})
"""Namespaces: default and other."""
FORBIDDEN = "403 Forbidden: may not list"
EARLIER = NOON - timedelta(minutes=1)
OTHER_TABLE = {"database": "sales", "name": "customers"}


async def show(box: Sandbox, namespace: str, *kinds: ResourceKind) -> None:
    """Let the watches of a namespace, or those of some kinds, list what there is."""
    for kind in kinds or ResourceKind:
        box.controller.on_listing(kind, namespace)
        found = box.kube.all(kind, namespace)
        for raw in found:
            box.controller.on_event(kind, "ADDED", raw)
        versions = {raw["metadata"].get("uid", ""): int(raw["metadata"]["resourceVersion"]) for raw in found}
        box.controller.on_listed(kind, namespace, box.kube.version, versions)


def hide(box: Sandbox, namespace: str, kind: ResourceKind = ResourceKind.COMPACTION) -> None:
    """Take the rights on one of a namespace's kinds away."""
    box.controller.on_failed(kind, namespace, FORBIDDEN, refused=True, silent=0.0)


async def seeing(*namespaces: str, box: Sandbox | None = None) -> Sandbox:
    """Start a controller that may watch these of its namespaces."""
    box = box or Sandbox(config=SINGLE)
    box.create()
    box.kube.watchers[:] = [lambda kind, event, raw: _bring(box, kind, event, raw)]
    for namespace in ("default", "other"):
        if namespace in namespaces:
            await show(box, namespace)
    for _ in "12":
        for kind in ResourceKind:
            for namespace in {"default", "other"}.difference(namespaces):
                hide(box, namespace, kind)
        box.time.seconds += AT_START
    await box.controller.load()
    await box.run()
    return box


def _bring(box: Sandbox, kind: ResourceKind, event: str, raw: Raw) -> None:
    if box.controller.sight.sees(raw["metadata"]["namespace"]):
        box.controller.on_event(kind, event, raw)


def phase(box: Sandbox, name: str, namespace: str) -> str | None:
    return box.kube.status(ResourceKind.COMPACTION, name, namespace).get("phase")


def events_about(box: Sandbox, namespace: str) -> list[str]:
    return [one["reason"] for one in box.kube.events if one["metadata"]["namespace"] == namespace]


def lists(sight: Sight, namespace: str) -> list[bool]:
    """List each kind; return by which the namespace is seen."""
    return [sight.listed(namespace, kind) for kind in ResourceKind]


def test_a_namespace_is_seen_while_each_kind_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sight = Sight(["a", "b"])
    assert lists(sight, "a") == [False] * (len(ResourceKind) - 1) + [True]
    assert (sight.sees("a"), sight.sees("b"), sight.sees("c")) == (True, False, False)
    assert (sight.places(), sight.hidden()) == (["a"], {"b": NOT_LISTED})
    assert sight.failed("a", ResourceKind.POD, FORBIDDEN, refused=True)
    assert not sight.failed("a", ResourceKind.JOB, FORBIDDEN, refused=True)
    assert (sight.places(), sight.hidden()["a"]) == ([], FORBIDDEN)
    assert lists(sight, "a")[-1]
    said = [record.getMessage() for record in caplog.records]
    assert [one.partition(":")[0] for one in said] == ["namespace a is not served now", "namespace a is served again"]


def test_a_hidden_namespace_is_seen_once_each_kind_is_listed_again() -> None:
    """What was known of the others may be out of date by then; a failure while it is hidden counts at once."""
    sight = Sight(["a"])
    lists(sight, "a")
    sight.failed("a", ResourceKind.POD, FORBIDDEN, refused=True)
    assert not any(sight.is_listed("a", kind) for kind in ResourceKind)
    assert not sight.listed("a", ResourceKind.POD)
    for kind in set(ResourceKind) - {ResourceKind.POD, ResourceKind.CLEANUP}:
        sight.listed("a", kind)
    sight.failed("a", ResourceKind.JOB, "timed out", refused=False)
    assert not sight.listed("a", ResourceKind.CLEANUP)
    assert sight.listed("a", ResourceKind.JOB)


def test_a_watch_that_fails_for_long_hides_its_namespace(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the reason: what is known by it may be out of date. The log says so again from time to time."""
    time = Time()
    sight = Sight(["a"], ticks=time.ticks)
    lists(sight, "a")
    fail = partial(sight.failed, "a", ResourceKind.JOB, "500", refused=False)
    assert not fail()
    time.seconds += PATIENCE - 1
    assert not fail()
    sight.listed("a", ResourceKind.JOB)
    assert not fail(silent=10.0)
    time.seconds += PATIENCE - 11
    assert not fail()
    assert caplog.records == []
    time.seconds += 1
    assert fail()
    assert sight.hidden() == {"a": "500"}
    fail()
    time.seconds += REMIND
    fail()
    assert len(caplog.records) == 2


def test_the_whole_cluster_is_always_seen() -> None:
    assert (Sight().sees("any"), Sight().places(), Sight().hidden()) == (True, [""], {})


@pytest.mark.parametrize(("refused", "seconds"), [(True, AT_START), (False, PATIENCE)])
def test_the_cache_is_loaded_once_each_namespace_has_answered(refused: bool, seconds: float) -> None:
    """One that fails for long delays nothing. Before that, it may be the API server that starts."""

    async def scenario() -> None:
        box = Sandbox(config=SINGLE)
        box.create()
        loading = asyncio.create_task(box.controller.load())
        await show(box, "default")
        for passed in (0.0, seconds - 1, 1.0):
            await asyncio.sleep(0)
            assert not box.controller.loaded
            box.time.seconds += passed
            for kind in ResourceKind:
                box.controller.on_failed(kind, "other", "no", refused=refused, silent=0.0)
        await asyncio.wait_for(loading, 30)
        assert box.controller.loaded

    asyncio.run(scenario())


@runs
async def test_a_namespace_without_rights_holds_nothing_up_and_goes_on_once_it_has_them() -> None:
    box = Sandbox(config=SINGLE)
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("first", namespace="other"))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("nightly"))
    await seeing("default", box=box)
    assert phase(box, "nightly", "default") == "Running"
    assert phase(box, "first", "other") is None
    assert events_about(box, "other") == []
    box.kube.delete(ResourceKind.COMPACTION, "default", "nightly")
    await show(box, "other")
    await box.run()
    assert phase(box, "first", "other") == "Running"


@runs
async def test_nothing_is_written_about_what_is_out_of_sight() -> None:
    """Not even that no operator serves it, as soon as one kind cannot be watched."""
    box = await seeing("default")
    raws = {ResourceKind.COMPACTION: compaction_raw(), ResourceKind.POLICY: policy_raw()}
    for kind, raw in raws.items():
        raw["metadata"]["namespace"] = "other"
        box.controller.on_event(kind, "ADDED", box.kube.apply(kind, raw))
    await box.pass_time(7200)
    assert [box.kube.status(kind, raw["metadata"]["name"], "other") for kind, raw in raws.items()] == [{}, {}]
    assert events_about(box, "other") == []


@runs
async def test_no_entry_is_taken_for_a_namespace_out_of_sight() -> None:
    """It would be held back from Hive's own Workers, and no compaction of it could be created."""
    box = Sandbox(config=with_pool().model_copy(update={"watch": WatchScope.NAMESPACES}))
    enqueue(box, "orders")
    await seeing("other", box=box)
    await box.pass_time(600)
    assert states(box) == [QueueState.INITIATED]
    await show(box, "default")
    await box.pass_time(60)
    assert states(box) == [QueueState.WORKING]


@runs
async def test_what_is_out_of_sight_leaves_the_line() -> None:
    """A slot that is offered to it would be lost."""
    config = SINGLE.model_copy(update={"max_concurrent_jobs": 1})
    box = await seeing("default", "other", box=Sandbox(config=config))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("runs"))
    await box.run()
    box.kube.apply(
        ResourceKind.COMPACTION, compaction_raw("next", namespace="other", created=EARLIER, table=OTHER_TABLE)
    )
    await box.run()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("mine", table={"database": "sales", "name": "third"}))
    await box.run()
    hide(box, "other")
    await box.run()
    box.kube.delete(ResourceKind.COMPACTION, "default", "runs")
    await box.pass_time(60)
    assert (phase(box, "next", "other"), phase(box, "mine", "default")) == ("Queued", "Running")


@runs
async def test_what_is_out_of_sight_takes_no_slot() -> None:
    """Neither what runs there, nor what waits for its turn."""
    config = SINGLE.model_copy(update={"max_concurrent_jobs": 1})
    box = await seeing("default", "other", box=Sandbox(config=config))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("runs", namespace="other"))
    await box.run()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("next", namespace="other", table=OTHER_TABLE))
    await box.run()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("mine", table={"database": "sales", "name": "third"}))
    await box.run()
    assert phase(box, "mine", "default") == "Queued"
    hide(box, "other")
    await box.run()
    assert phase(box, "mine", "default") == "Running"


@runs
async def test_an_attempt_that_went_out_of_sight_holds_its_table() -> None:
    """Its driver may be at work: a second one would read what the first one publishes."""
    box = await seeing("default", "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("runs", namespace="other"))
    await box.run()
    assert phase(box, "runs", "other") == "Running"
    hide(box, "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("nightly"))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("free", table=OTHER_TABLE))
    await box.pass_time(600)
    assert (phase(box, "nightly", "default"), phase(box, "free", "default")) == ("Queued", "Running")
    message = condition(box.compaction())["message"]
    assert "compaction other/runs, which works on the same table (namespace other is not served now" in message
    assert "restart the controller" in message


@runs
async def test_one_that_waits_is_told_when_what_it_waits_for_goes_out_of_sight() -> None:
    """And when it is back. A namespace that was deleted never is, and the cache has what ran there until a restart."""
    box = await seeing("default", "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("runs", namespace="other"))
    await box.run()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("nightly"))
    await box.run()
    assert "not served" not in condition(box.compaction())["message"]
    hide(box, "other")
    await box.pass_time(60)
    assert "not served" in condition(box.compaction())["message"]
    await seeing("default", box=box)
    assert phase(box, "nightly", "default") == "Running"


async def with_a_record_that_fails(error: KubeError) -> Sandbox:
    """One slot; the record of an attempt in `other` fails, then its namespace goes out of sight."""
    config = SINGLE.model_copy(update={"max_concurrent_jobs": 1})
    box = await seeing("default", "other", box=Sandbox(config=config))
    written = box.kube.replace_status

    def fail(kind: ResourceKind, raw: Mapping[str, Any], status: Raw) -> Raw:
        if status.get("attempt"):
            raise error
        return written(kind, raw, status)

    box.kube.replace_status = fail  # type: ignore[method-assign]
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("runs", namespace="other"))
    await box.run()
    hide(box, "other")
    await box.pass_time(60)
    box.kube.replace_status = written  # type: ignore[method-assign]
    return box


@runs
async def test_an_attempt_whose_record_was_refused_holds_nothing() -> None:
    """The rights are gone before the watches notice it."""
    box = await with_a_record_that_fails(ForbiddenError(FORBIDDEN))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("nightly"))
    await box.pass_time(60)
    assert phase(box, "nightly", "default") == "Running"


@runs
async def test_in_the_whole_cluster_a_refused_record_is_tried_again_before_others() -> None:
    """There no namespace goes out of sight: what refuses it is a mistake, which the log shows."""
    box = Sandbox()
    await box.start()

    def refuse(kind: ResourceKind, raw: Mapping[str, Any], status: Raw) -> Raw:
        raise ForbiddenError(FORBIDDEN)

    box.kube.replace_status = refuse  # type: ignore[method-assign]
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.run()
    assert [claim.key.name for claim in box.controller._turns._claims.values()] == ["nightly"]


@runs
async def test_an_attempt_that_may_be_recorded_out_of_sight_keeps_its_table_and_no_slot() -> None:
    """Its driver may run. Once it is seen, its table is free for it alone."""
    box = await with_a_record_that_fails(KubeError("timed out"))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("nightly"))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("free", table=OTHER_TABLE))
    await box.pass_time(60)
    assert (phase(box, "nightly", "default"), phase(box, "free", "default")) == ("Queued", "Running")
    assert "compaction other/runs" in condition(box.compaction())["message"]
    box.kube.delete(ResourceKind.COMPACTION, "default", "free")
    await show(box, "other")
    await box.pass_time(60)
    assert (phase(box, "nightly", "default"), phase(box, "runs", "other")) == ("Queued", "Running")


@runs
async def test_no_time_counts_against_a_driver_out_of_sight() -> None:
    """It may have held locks and let go of them meanwhile."""
    box = await seeing("default", "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    box.work.holding = False
    await box.pass_time(200)
    hide(box, "default")
    await box.pass_time(1000)
    await show(box, "default")
    await box.pass_time(200)
    assert (phase(box, "nightly", "default"), box.kube.reasons().count("DriverLost")) == ("Running", 0)
    await box.pass_time(400)
    assert box.kube.reasons().count("DriverLost") == 1


@runs
async def test_a_compaction_that_goes_out_of_sight_in_its_preflight_does_not_start() -> None:
    """Nor does it keep the table from others."""
    box = await seeing("default", "other")
    box.work.during_preflight = lambda: hide(box, "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("first", namespace="other"))
    await box.run()
    box.work.during_preflight = lambda: None
    assert "attempt" not in box.kube.status(ResourceKind.COMPACTION, "first", "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("nightly"))
    await box.run()
    assert phase(box, "nightly", "default") == "Running"


@runs
async def test_a_compaction_that_goes_out_of_sight_with_its_record_has_no_job() -> None:
    box = await seeing("default", "other")
    written = box.kube.replace_status

    def lost(kind: ResourceKind, raw: Mapping[str, Any], status: Raw) -> Raw:
        answer = written(kind, raw, status)
        if status.get("attempt"):
            hide(box, "default")
        return answer

    box.kube.replace_status = lost  # type: ignore[method-assign]
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.pass_time(60)
    assert (box.compaction()["attempt"], box.kube.jobs()) == (1, [])
    box.kube.replace_status = written  # type: ignore[method-assign]
    await show(box, "default")
    await box.run()
    assert box.kube.jobs() == [job()]


async def with_a_cleanup_that_waits() -> Sandbox:
    """A cleanup that waits for a reader, in a namespace that is seen."""
    box = await seeing("default", "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.run()
    box.kube.apply(ResourceKind.CLEANUP, journal())
    box.work.locks = (12,)
    box.kube.end_job(job(), DriverResult(reason=Reason.COMPACTED, message="done"), ok=True)
    await box.run()
    assert box.cleanup()["phase"] == "WaitingForReaders"
    return box


@runs
async def test_a_cleanup_out_of_sight_deletes_nothing() -> None:
    """A user who suspends it there is not heard. Once it is seen, it goes on where it was."""
    box = await with_a_cleanup_that_waits()
    hide(box, "default")
    box.work.locks = ()
    looks = box.work.looks
    await box.pass_time(3600)
    assert box.work.count("delete") == 0
    assert box.work.looks <= looks + 1
    await show(box, "default")
    await box.pass_time(60)
    assert (box.cleanup()["phase"], box.work.count("delete")) == ("Succeeded", 1)


@runs
async def test_a_cleanup_that_goes_out_of_sight_between_two_steps_goes_no_further() -> None:
    box = await with_a_cleanup_that_waits()
    box.work.locks = ()
    written = box.kube.replace_status

    def lost(kind: ResourceKind, raw: Mapping[str, Any], status: Raw) -> Raw:
        answer = written(kind, raw, status)
        hide(box, "default")
        return answer

    box.kube.replace_status = lost  # type: ignore[method-assign]
    await box.pass_time(60)
    assert box.work.count("delete") == 0


@runs
async def test_a_cleanup_that_was_deleted_unseen_does_not_go_on() -> None:
    """A user deletes one to stop it."""
    box = await with_a_cleanup_that_waits()
    hide(box, "default")
    box.kube.delete(ResourceKind.CLEANUP, "default", "nightly-1-0")
    box.work.locks = ()
    await show(box, "default")
    assert box.controller._cache.cleanups.all() == []
    await box.pass_time(60)
    assert box.work.count("delete") == 0


@runs
async def test_a_list_from_before_what_was_seen_drops_nothing() -> None:
    """After an etcd restore what was made since the backup is missing: its attempt runs, and holds its table."""
    box = await seeing("default", "other")
    version = box.kube.version
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.run()
    del box.kube.objects[ResourceKind.COMPACTION, "default", "nightly"]
    box.kube.version = version
    with pytest.raises(WentBackError):
        await show(box, "default", ResourceKind.COMPACTION)
    assert [one.meta.name for one in box.controller._cache.compactions.all()] == ["nightly"]


@runs
async def test_a_list_from_before_an_earlier_list_drops_nothing() -> None:
    """Others wrote since the last change of ours."""
    box = await seeing("default", "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(suspend=True))
    await box.run()
    box.kube.version += 1000
    await show(box, "default", ResourceKind.COMPACTION)
    box.kube.version -= 1
    with pytest.raises(WentBackError):
        await show(box, "default", ResourceKind.COMPACTION)


@runs
async def test_a_list_that_another_overtakes_is_no_step_back() -> None:
    """Each shows the state of a moment after its beginning."""
    box = await seeing("default", "other")
    box.controller.on_listing(ResourceKind.COMPACTION, "default")
    version = box.kube.version
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(namespace="other"))
    await show(box, "other", ResourceKind.COMPACTION)
    box.controller.on_listed(ResourceKind.COMPACTION, "default", version, {})


@runs
async def test_a_compaction_deleted_out_of_sight_holds_its_table_until_its_journals_are_known() -> None:
    """One of them may not be settled: no attempt starts before its result is known."""
    box = await seeing("default", "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("runs", namespace="other"))
    await box.run()
    hide(box, "other", ResourceKind.CLEANUP)
    box.kube.watchers.clear()
    deleted = box.kube.objects[ResourceKind.COMPACTION, "other", "runs"]
    box.kube.delete(ResourceKind.COMPACTION, "other", "runs")
    box.kube.apply(ResourceKind.CLEANUP, journal_of("runs", "other"))
    box.kube.watchers.append(lambda kind, event, raw: _bring(box, kind, event, raw))
    box.controller.on_event(ResourceKind.COMPACTION, "DELETED", deleted)
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("nightly"))
    await show(box, "other", *(set(ResourceKind) - {ResourceKind.CLEANUP}))
    await box.pass_time(60)
    assert phase(box, "nightly", "default") == "Queued"
    box.work.calls.clear()
    await show(box, "other", ResourceKind.CLEANUP)
    await box.run()
    assert (box.controller._cache.compactions.get(key("runs")), phase(box, "nightly", "default")) == (None, "Running")
    assert box.work.calls.index("settle runs-1-0") < box.work.calls.index("preflight")


@runs
async def test_one_that_is_gone_when_it_is_written_out_of_sight_holds_its_table() -> None:
    """Its namespace goes out of sight while the API server answers."""
    box = await seeing("default", "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("runs", namespace="other"))
    await box.run()

    def gone(*_: object) -> Raw:
        hide(box, "other", ResourceKind.CLEANUP)
        raise GoneError("404")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(box.kube, "replace_status", gone)
        suspended = box.kube.objects[ResourceKind.COMPACTION, "other", "runs"]
        box.kube.apply(ResourceKind.COMPACTION, {**suspended, "spec": {**suspended["spec"], "suspend": True}})
        await box.run()
    assert not box.controller.sight.sees("other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("nightly"))
    await box.pass_time(60)
    assert phase(box, "nightly", "default") == "Queued"


@runs
async def test_one_made_again_out_of_sight_does_not_free_its_table_either() -> None:
    """The new one's name is the old one's. Once seen, the old one is gone, and the new one there."""
    box = await seeing("default", "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("runs", namespace="other"))
    await box.run()
    hide(box, "other", ResourceKind.CLEANUP)
    again = compaction_raw("runs", namespace="other", table=OTHER_TABLE)
    again["metadata"]["uid"] = "uid-again"
    stored = box.kube.apply(ResourceKind.COMPACTION, again)
    box.controller.on_event(ResourceKind.COMPACTION, "ADDED", stored)
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("nightly"))
    await box.pass_time(60)
    assert phase(box, "nightly", "default") == "Queued"
    await show(box, "other")
    await box.run()
    known = box.controller._cache.compactions.get(key("runs"))
    assert known is not None
    assert (known.meta.uid, phase(box, "nightly", "default")) == ("uid-again", "Running")


def key(name: str) -> Key:
    return Key(ResourceKind.COMPACTION, "other", name)


def journal_of(compaction: str, namespace: str) -> Raw:
    """A journal of a compaction's attempt, in the same namespace."""
    raw = cleanup_raw(f"{compaction}-1-0")
    raw["metadata"]["namespace"] = namespace
    raw["metadata"]["labels"] = {LABEL_COMPACTION_UID: f"uid-{namespace}-{compaction}"}
    raw["spec"]["compaction"]["uid"] = f"uid-{namespace}-{compaction}"
    return raw


def swept(box: Sandbox, uid: str) -> list[str] | None:
    """Return the names of the journals with which an attempt of a compaction would be ended, None if it would not."""
    assert box.work.look_up is not None
    found = box.work.look_up(uid)
    return None if found is None else [one.meta.name for one in found]


@runs
async def test_only_attempts_that_were_in_sight_are_swept() -> None:
    """Compactions of other namespaces are as unknown as deleted ones; their journals are, too."""
    box = await seeing("default", "other")
    for name in ("gone", "left"):
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw(name))
    box.kube.apply(ResourceKind.CLEANUP, journal_of("unseen", "default"))
    box.kube.apply(ResourceKind.CLEANUP, journal_of("elsewhere", "other"))
    hide(box, "other")
    box.kube.delete(ResourceKind.COMPACTION, "default", "gone")
    await box.pass_time(31)
    assert swept(box, "uid-default-gone") == []
    assert swept(box, "uid-default-unseen") == ["unseen-1-0"]
    assert swept(box, "uid-other-elsewhere") is None
    assert swept(box, "uid-of-another-cluster") is None


@runs
async def test_an_attempt_is_swept_with_the_journals_that_there_are_then() -> None:
    """Its uploads are to be revoked before it is ended, so none may be missing: the watch may be late."""
    box = await seeing("default", "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("gone", namespace="other"))
    box.kube.delete(ResourceKind.COMPACTION, "other", "gone")
    await box.pass_time(31)
    watchers, box.kube.watchers = box.kube.watchers, []
    box.kube.apply(ResourceKind.CLEANUP, journal_of("gone", "other"))
    box.kube.watchers = watchers
    assert swept(box, "uid-other-gone") == ["gone-1-0"]


@runs
async def test_an_attempt_whose_journals_cannot_be_looked_up_is_not_swept() -> None:
    """Neither if its namespace went out of sight after the deletion was seen, nor if the API server refuses."""
    box = await seeing("default", "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("gone", namespace="other"))
    box.kube.delete(ResourceKind.COMPACTION, "other", "gone")
    hide(box, "other")
    await box.pass_time(31)
    assert swept(box, "uid-other-gone") is None
    await show(box, "other")
    assert swept(box, "uid-other-gone") == []

    def refuse(namespace: str, compaction_uid: str) -> list[Raw]:
        raise ForbiddenError(FORBIDDEN)

    box.kube.list_cleanups = refuse  # type: ignore[method-assign]
    assert swept(box, "uid-other-gone") is None


@runs
async def test_attempts_out_of_sight_count_as_unknown_until_they_are_seen_again() -> None:
    """Nothing else ends a lost one meanwhile. Where its uploads must be known for that, it is left alone."""
    box = await seeing("default", "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("runs", namespace="other"))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    hide(box, "other")
    await box.pass_time(31)
    assert box.work.swept[-1][1] == {"uid-default-nightly"}
    assert swept(box, "uid-other-runs") is None
    await show(box, "other")
    await box.pass_time(31)
    assert box.work.swept[-1][1] == {"uid-default-nightly", "uid-other-runs"}


@runs
async def test_a_journal_elsewhere_makes_no_attempt_out_of_sight_known() -> None:
    """Its compaction's own journals may name uploads. They are looked up in each namespace that is named."""
    box = await seeing("default", "other")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("runs", namespace="other"))
    forged = journal_of("runs", "other")
    forged["metadata"].update(namespace="default", name="forged")
    box.kube.apply(ResourceKind.CLEANUP, forged)
    box.kube.apply(ResourceKind.CLEANUP, journal_of("runs", "other"))
    hide(box, "other")
    await box.pass_time(31)
    assert swept(box, "uid-other-runs") is None
    await show(box, "other")
    assert swept(box, "uid-other-runs") == ["forged", "runs-1-0"]


@runs
async def test_in_the_whole_cluster_each_unknown_attempt_is_swept() -> None:
    box = Sandbox()
    await box.start()
    await box.pass_time(31)
    assert (len(box.work.swept), box.work.look_up) == (1, None)


@runs
async def test_a_policy_out_of_sight_makes_no_look() -> None:
    box = Sandbox(config=SINGLE)
    box.kube.apply(ResourceKind.POLICY, policy_raw())
    await seeing("default", "other", box=box)
    surveys = box.work.surveys
    assert surveys > 0
    hide(box, "default")
    await box.pass_time(3600)
    assert box.work.surveys == surveys


@runs
async def test_a_policy_that_was_deleted_unseen_makes_no_look() -> None:
    """It would create compactions. Those of other namespaces stay."""
    box = Sandbox(config=SINGLE)
    box.kube.apply(ResourceKind.POLICY, policy_raw())
    await seeing("default", "other", box=box)
    await show(box, "other")
    assert len(box.controller._policies.own()) == 1
    hide(box, "default")
    box.kube.delete(ResourceKind.POLICY, "default", policy_raw()["metadata"]["name"])
    await show(box, "default")
    surveys = box.work.surveys
    await box.pass_time(3600)
    assert (box.controller._policies.own(), box.work.surveys) == ([], surveys)


@runs
async def test_the_history_is_checked_where_it_is_seen() -> None:
    """A doubt about a kind asks no namespace that would refuse."""
    box = await with_a_cleanup_that_waits()
    hide(box, "other")
    asked: list[str] = []
    listed = box.kube.list_all

    def noting(kind: ResourceKind, namespace: str = "") -> list[Raw]:
        asked.append(namespace)
        return listed(kind, namespace)

    box.kube.list_all = noting  # type: ignore[method-assign]
    box.controller._history.doubt(ResourceKind.CLEANUP)
    await box.controller.check_history()
    assert asked == ["default"]
    hide(box, "default")
    box.controller._history.doubt(ResourceKind.CLEANUP)
    await box.controller.check_history()
    assert asked == ["default"]


@runs
async def test_who_is_not_served_is_a_metric() -> None:
    box = await seeing("default")
    value = box.metrics.registry.get_sample_value
    name = "compaction_operator_namespace_served"
    assert [value(name, {"name": one}) for one in ("default", "other")] == [1.0, 0.0]


def test_readiness_names_who_is_not_served() -> None:
    vitals = Vitals(leads=True, loaded=True, step=1.0, heard=None, kube=Load(0, 1, 0.0), hidden={"b": FORBIDDEN})
    assert readiness(vitals) == (True, ("role: leader", "cache: loaded", f"namespace b: not served: {FORBIDDEN}"))


class Scripted(Watching):
    """An API server that answers the calls of a watch one after the other; each is a value or an error."""

    def __init__(self, *answers: Any) -> None:
        self._answers = iter(answers)
        self.since: list[str] = []

    def _next(self) -> Iterator[Raw]:
        answer = next(self._answers)
        if isinstance(answer, BaseException):
            raise answer
        return iter(answer)

    def pages(self, kind: ResourceKind, namespace: str) -> Iterator[Raw]:
        return self._next()

    def changes(self, kind: ResourceKind, namespace: str, since: str) -> Iterator[Raw]:
        self.since.append(since)
        return self._next()


class Heard:
    """A listener that notes what it hears."""

    def __init__(self, *, spoiled: str = "") -> None:
        self.all: list[Any] = []
        self.listed: list[Mapping[str, int]] = []
        self.silent: list[float] = []
        self.again = False
        self._spoiled = spoiled

    def on_event(self, kind: ResourceKind, event: str | None, raw: Mapping[str, Any]) -> None:
        if raw["metadata"]["name"] == self._spoiled:
            raise TypeError("spoiled")
        self.all.append((event, raw["metadata"]["name"]))
        self.again = event == "AGAIN"

    def on_listing(self, kind: ResourceKind, namespace: str) -> None:
        self.again = False

    def on_listed(self, kind: ResourceKind, namespace: str, version: int, listed: Mapping[str, int]) -> None:
        self.all.append("listed")
        self.listed.append({"": version, **listed})

    def on_failed(self, kind: ResourceKind, namespace: str, why: str, *, refused: bool, silent: float) -> None:
        self.all.append(why if refused else f"not refused: {why}")
        self.silent.append(silent)

    def is_listed(self, kind: ResourceKind, namespace: str) -> bool:
        return not self.again


class OverError(BaseException):
    """The script has ended."""


def named(name: str, version: int) -> Raw:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


def page(version: int, *items: Raw) -> Raw:
    return {"metadata": {"resourceVersion": str(version)}, "items": list(items)}


def change(type_: str, raw: Raw) -> Raw:
    return {"type": type_, "object": raw}


def heard(
    monkeypatch: pytest.MonkeyPatch,
    *answers: Any,
    kind: ResourceKind = ResourceKind.JOB,
    listener: Heard | None = None,
    ticks: Callable[[], float] = lambda: 0.0,
) -> tuple[Any, Any]:
    """Let a watch follow the script; return what its listener heard, and from which versions it watched."""
    kube, listener = Scripted(*answers, OverError()), listener or Heard()
    no_pauses(monkeypatch)

    async def run() -> None:
        with ThreadPoolExecutor(1) as pool, pytest.raises(OverError):
            await Watch("a", kind, kube, pool, listener, ticks=ticks).run()

    asyncio.run(run())
    return listener.all, kube.since


PAUSES: list[float] = []
"""Those that a watch would have made in the last script."""


def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = asyncio.sleep
    PAUSES.clear()

    async def note(seconds: float) -> None:
        PAUSES.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", note)


def test_a_watch_lists_and_then_tells_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the API server ends it, it goes on from the last version, also from that of a bookmark."""
    pages = [page(5, named("x", 3)), page(5, named("y", 4))]
    first = [change("MODIFIED", named("x", 6)), change("BOOKMARK", named("", 9))]
    listener = Heard()
    said, since = heard(monkeypatch, pages, first, [change("DELETED", named("y", 10))], listener=listener)
    assert said == [("ADDED", "x"), ("ADDED", "y"), "listed", ("MODIFIED", "x"), ("DELETED", "y")]
    assert (since, listener.listed) == (["5", "9", "10"], [{"": 5, "uid-x": 3, "uid-y": 4}])


def test_a_watch_that_is_refused_says_so_and_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it may list, but not watch: what it has listed does not count then."""
    refused = ForbiddenError(FORBIDDEN)
    said, _ = heard(monkeypatch, refused, [page(5, named("x", 3))], refused, [page(6)], [])
    assert said == [FORBIDDEN, ("ADDED", "x"), FORBIDDEN, "listed"]


def test_a_refused_watch_asks_less_and_less_often_until_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refusal stands in the cluster's audit log."""
    refused = ForbiddenError(FORBIDDEN)
    heard(monkeypatch, *[refused] * 5, [page(5)], [], refused)
    assert PAUSES == [PAUSE, 20.0, 40.0, LONGEST_PAUSE, LONGEST_PAUSE, 1.0, PAUSE]


def test_a_watch_that_is_cut_goes_on_from_its_last_change(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Something on the way may cut each watch that is silent for a while: nothing is listed again for that."""

    def cut(*changes: Raw) -> Iterator[Raw]:
        yield from changes
        raise CutError("the watch was cut")

    said, since = heard(monkeypatch, [page(5)], cut(change("ADDED", named("x", 6))), cut())
    assert (said, since, caplog.records) == (["listed", ("ADDED", "x")], ["5", "6", "6"], [])


def test_a_watch_that_is_always_cut_lists_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large for something on the way may be lost each time, though each watch begins well."""
    time = Time()

    def cut() -> Iterator[Raw]:
        time.seconds += PATIENCE / 2
        raise CutError("the watch was cut")
        yield

    said, since = heard(monkeypatch, [page(5)], cut(), cut(), [page(7)], cut(), ticks=time.ticks)
    assert (said, since) == (["listed", "listed"], ["5", "5", "7", "7"])


def test_one_refusal_after_other_failures_is_not_yet_an_answer() -> None:
    """At its start the API server may be away, and then refuse until it knows the roles."""

    async def scenario() -> None:
        time = Time()
        sight = Sight(["a"], ticks=time.ticks)
        for refused, seconds in ((False, AT_START), (True, 1.0), (True, AT_START)):
            assert not sight._complete.is_set()
            for kind in ResourceKind:
                sight.failed("a", kind, "no", refused=refused, silent=0.0)
            time.seconds += seconds
        for kind in ResourceKind:
            sight.failed("a", kind, "no", refused=True)
        await asyncio.wait_for(sight.complete(), 30)

    asyncio.run(scenario())


def test_a_failure_says_how_long_nothing_was_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that hangs fails late: what is known by the watch is as old as the last answer."""
    time = Time()

    def hangs() -> Iterator[Raw]:
        time.seconds += 90
        raise KubeError("timed out")
        yield

    listener = Heard()
    first = [change("ADDED", named("x", 6))]
    heard(monkeypatch, [page(5)], first, hangs(), KubeError("away"), [page(7)], listener=listener, ticks=time.ticks)
    assert listener.silent == [90.0, 90.0]


def test_a_watch_whose_version_has_expired_lists_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said, since = heard(monkeypatch, [page(5)], ExpiredError("410"), [page(7)], [])
    assert (said, since) == (["not refused: 410", "listed"], ["5", "7", "7"])


def test_a_watch_of_a_namespace_that_was_hidden_lists_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that may go on: what it has not brought yet is not known."""
    changes = [change("AGAIN", named("x", 6)), change("MODIFIED", named("x", 7))]
    said, _ = heard(monkeypatch, [page(5)], changes, [page(8)], [])
    assert said == ["listed", ("AGAIN", "x"), "listed"]


@pytest.mark.parametrize(
    "answers",
    [[one for _ in range(6) for one in ([page(5)], ExpiredError("410"))], [[page(5)], *[[]] * 6]],
    ids=["expired", "ended"],
)
def test_what_the_api_server_ends_at_once_does_not_spin(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, answers: list[Any]
) -> None:
    """Neither an expired version, nor watches that bring nothing. The pauses double, and it is said once."""
    heard(monkeypatch, *answers)
    assert PAUSES == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert len([one for one in caplog.records if "at once" in one.getMessage()]) == 1


def test_an_object_that_cannot_be_handled_is_in_the_way_of_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would end the process at each start."""
    pages = [page(5, named("bad", 3), named("x", 4))]
    changes = [change("MODIFIED", named("bad", 6)), change("MODIFIED", named("x", 7))]
    said, _ = heard(monkeypatch, pages, changes, listener=Heard(spoiled="bad"))
    assert said == [("ADDED", "x"), "listed", ("MODIFIED", "x")]


def test_an_answer_that_is_no_list_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    said, _ = heard(monkeypatch, [{}], [page(5)], [])
    assert said == ["not refused: 'metadata'", "listed"]
    assert caplog.records[0].exc_info


def test_a_history_that_went_back_ends_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """And so the process: nothing that it knows counts."""
    listener = Heard()
    monkeypatch.setattr(listener, "on_listed", went_back)
    with pytest.raises(WentBackError):
        heard(monkeypatch, [page(5)], [], listener=listener)


def went_back(*_: object) -> None:
    raise WentBackError("it went back")


def test_a_watch_that_fails_is_no_refusal(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The API server may be away for a moment: what is known still counts. It is said once each time."""
    away = KubeError("API server not reachable")
    said, _ = heard(monkeypatch, away, away, [page(5)], [], away, [page(5)], [])
    failed = "not refused: API server not reachable"
    assert said == [failed, failed, "listed", failed, "listed"]
    assert [one.levelname for one in caplog.records] == ["WARNING", "WARNING"]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (ResourceKind.POLICY, "listed"),
        (ResourceKind.CLEANUP, "the API server does not know CompactionCleanup: install the CRDs"),
    ],
)
def test_a_kind_without_its_crd(monkeypatch: pytest.MonkeyPatch, kind: ResourceKind, says: str) -> None:
    said, _ = heard(monkeypatch, GoneError("404"), kind=kind)
    assert said == [says]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}\n', ExpiredError),
        (b'{"type": "ERROR", "object": {"code": 500, "reason": "InternalError", "message": "no"}}\n', KubeError),
        (b'{"type": "ADDED", "obj', CutError),
    ],
)
def test_an_error_within_a_watch(body: bytes, expected: type[KubeError]) -> None:
    with pytest.raises(KubeError) as raised:
        list(changes_in(HTTPResponse(io.BytesIO(body), preload_content=False)))
    assert type(raised.value) is expected


class Pieces(io.BytesIO):
    """An answer that comes in pieces of a few bytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(7)


def test_changes_may_come_in_pieces() -> None:
    lines = b'{"type": "ADDED", "object": {}}\n{"type": "DELETED", "object": {}}\n'
    changes = changes_in(HTTPResponse(Pieces(lines), preload_content=False))
    assert [one["type"] for one in changes] == ["ADDED", "DELETED"]


def test_each_watch_has_a_connection_and_repeats_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hangs would otherwise end after four times its timeout."""
    monkeypatch.setattr(watching, "configuration", kubernetes.client.Configuration)
    made = watching.connect_watches(connections(["a", "b"]))
    settings = made._core.api_client.rest_client.pool_manager.connection_pool_kw
    assert (settings["maxsize"], settings["retries"].total) == (2 * len(ResourceKind), False)


class Watched(Watching):
    """The watches of an API server. They end at once, and some may be refused. It notes what it has listed."""

    def __init__(self, kube: FakeKube) -> None:
        self._kube = kube
        self.refused: set[tuple[ResourceKind, str]] = set()
        self.listed: list[tuple[ResourceKind, str]] = []

    def pages(self, kind: ResourceKind, namespace: str) -> Iterator[Raw]:
        self.listed.append((kind, namespace))
        yield page(self._kube.version, *self._kube.all(kind, namespace))

    def changes(self, kind: ResourceKind, namespace: str, since: str) -> Iterator[Raw]:
        if (kind, namespace) in self.refused:
            raise ForbiddenError(FORBIDDEN)
        return iter(())


def test_the_controller_and_its_watches_from_one_end_to_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was deleted unseen is gone once each kind of its namespace was listed again."""
    no_pauses(monkeypatch)

    async def until(condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0)

    async def scenario() -> None:
        kube = FakeKube()
        watches, box = Watched(kube), Sandbox(config=SINGLE, kube=kube)
        kube.apply(ResourceKind.COMPACTION, compaction_raw("gone", namespace="other", suspend=True))
        box.create()
        kube.watchers.clear()
        sight, compactions = box.controller.sight, box.controller._cache.compactions
        task = asyncio.create_task(watch_all(["default", "other"], watches, box.controller))
        async with asyncio.timeout(30):
            await box.controller.load()
            assert (sight.hidden(), len(compactions.all())) == ({}, 1)
            watches.listed.clear()
            kube.delete(ResourceKind.COMPACTION, "other", "gone")
            watches.refused.add((ResourceKind.POD, "other"))
            await until(lambda: "other" in sight.hidden())
            known = set(ResourceKind) - {ResourceKind.POD}
            await until(lambda: all(sight.is_listed("other", kind) for kind in known))
            assert (list(sight.hidden()), len(compactions.all())) == (["other"], 1)
            watches.refused.clear()
            await until(lambda: not sight.hidden())
        assert (compactions.all(), {namespace for _, namespace in watches.listed}) == ([], {"other"})
        task.cancel()

    asyncio.run(scenario())
