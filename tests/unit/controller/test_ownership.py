"""Several operators in a cluster: each leaves alone what another one may own, and ends what it has begun itself."""

from collections.abc import Callable
from typing import Any

import pytest

from compaction_operator.api.compaction import ANNOTATION_OPERATOR
from compaction_operator.api.config import OperatorConfig
from compaction_operator.api.request import Reason
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.kube.client import Raw
from compaction_operator.controller.kube.job import job_name
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.controller.policies import Question
from compaction_operator.controller.policies.why import NoPolicyError
from tests.unit.controller.sandbox import (
    CONFIG,
    Sandbox,
    Time,
    cleanup_raw,
    compaction_raw,
    condition,
    runs,
    with_pool,
)
from tests.unit.controller.test_policies import memory, policy_raw, state
from tests.unit.controller.test_pools import enqueue

JOB = job_name(compaction="nightly", uid="uid-default-nightly", attempt=1)
CLEANUP = "nightly-1-0"
KEYS = ((ResourceKind.COMPACTION, "nightly"), (ResourceKind.CLEANUP, CLEANUP))


def serving(*namespaces: str, jobs: int = 2, config: OperatorConfig = CONFIG) -> OperatorConfig:
    lake = config.warehouses[0].model_copy(update={"namespaces": namespaces})
    return config.model_copy(update={"warehouses": (lake,), "max_concurrent_jobs": jobs})


def operator(
    *namespaces: str,
    identity: str = "one",
    beside: Sandbox | None = None,
    jobs: int = 2,
    config: OperatorConfig = CONFIG,
) -> Sandbox:
    """An operator in namespace `identity`, in the cluster of another one."""
    served = serving(*namespaces, jobs=jobs, config=config)
    box = Sandbox(time=beside.time if beside else Time(), config=served, identity=identity)
    if beside is not None:
        box.kube = beside.kube
    return box


def journal() -> Raw:
    raw = cleanup_raw(CLEANUP)
    raw["spec"]["compaction"]["job"] = JOB
    return raw


async def look(box: Sandbox, *, seconds: float = 600) -> int:
    """Let a new process of an operator work for a while; return how many writes it made."""
    before = box.kube.version
    await box.start()
    await box.pass_time(seconds)
    return box.kube.version - before


async def begun(box: Sandbox) -> None:
    """Let an operator start an attempt, whose driver has written its journal."""
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    box.kube.apply(ResourceKind.CLEANUP, journal())
    await box.run()
    assert box.compaction()["attempt"] == 1


async def running(box: Sandbox) -> None:
    await begun(box)


async def published(box: Sandbox) -> None:
    """The compaction has ended; its cleanup waits for a reader."""
    await begun(box)
    box.work.locks = (12,)
    box.kube.end_job(JOB, ok=True)
    await box.run()
    assert box.cleanup()["phase"] == "WaitingForReaders"


@pytest.mark.parametrize("stage", [running, published])
def test_a_second_operator_writes_nothing_to_what_the_first_one_handles(stage: Callable[[Sandbox], Any]) -> None:
    """Neither a failure nor a wait, whatever it would find: its metastore is another one."""

    @runs
    async def scenario() -> None:
        first = operator("default", identity="one")
        await stage(first)
        second = operator("analytics", identity="two", beside=first)
        assert await look(second) == 0
        assert second.work.calls.count("settle") == second.work.count("end") == second.work.count("held") == 0

    scenario()


@runs
async def test_a_second_operator_leaves_ended_cleanups_to_the_first_one() -> None:
    """It has another time to keep them."""
    first = operator("default")
    await begun(first)
    first.kube.end_job(JOB, ok=True)
    await first.run()
    await first.pass_time(10)
    assert first.cleanup()["phase"] == "Succeeded"
    assert await look(operator("analytics", identity="two", beside=first), seconds=200_000) == 0


@runs
async def test_what_no_operator_handles_gets_one_note_and_does_not_fail() -> None:
    """The first operator to write loses nothing by it: the one that serves the namespace goes on from there."""
    strangers = [operator(name, identity=name) for name in ("a", "b")]
    strangers[1].kube, strangers[1].time = strangers[0].kube, strangers[0].time
    kube = strangers[0].kube
    kube.apply(ResourceKind.COMPACTION, compaction_raw())
    assert await look(strangers[0], seconds=59) == 0
    assert await look(strangers[0], seconds=600) == 1
    assert await look(strangers[1], seconds=600) == 0
    said = condition(strangers[0].compaction())
    assert (said["status"], said["reason"], strangers[0].compaction()["phase"]) == ("Unknown", "NotServed", "Waiting")
    assert said["message"].endswith("serves: a")
    assert kube.reasons() == ["NotServed"]
    assert "operator" not in strangers[0].compaction()
    owner = operator("default", identity="c", beside=strangers[0])
    await owner.start()
    assert (owner.compaction()["operator"], owner.kube.jobs()) == ("c", [JOB])


@runs
async def test_a_namespace_that_another_operator_handles_gets_its_notes_later() -> None:
    """That operator may have thousands of compactions to look at first."""
    first = operator("default")
    await begun(first)
    first.kube.apply(ResourceKind.COMPACTION, compaction_raw("new"))
    second = operator("other", identity="two", beside=first)
    assert await look(second, seconds=1799) == 0
    assert await look(second, seconds=1) == 1
    assert condition(second.compaction("new"))["reason"] == "NotServed"


@runs
async def test_an_operator_ends_what_it_has_begun_in_a_namespace_that_was_taken_off_its_list() -> None:
    """Half a pair of directories may be published (H3)."""
    box = operator("default")
    await begun(box)
    box.kube.end_job(JOB, ok=False)
    again = operator("other", beside=box)
    await look(again)
    assert again.work.count("end 1") == 1
    said = condition(again.compaction())
    assert (said["status"], said["reason"]) == ("False", "NotAllowed")


@runs
async def test_attempts_of_another_operator_take_no_slot() -> None:
    """Nor does what waits in its namespaces come first, on any table. One that works on the same table holds it."""
    first = operator("default")
    await begun(first)
    first.kube.apply(ResourceKind.COMPACTION, compaction_raw("waits", table={"database": "sales", "name": "items"}))
    second = operator("other", identity="two", beside=first, jobs=1)
    first.kube.apply(
        ResourceKind.COMPACTION,
        compaction_raw("mine", namespace="other", table={"database": "sales", "name": "items"}),
    )
    first.kube.apply(ResourceKind.COMPACTION, compaction_raw("same", namespace="other"))
    await look(second)
    assert second.kube.status(ResourceKind.COMPACTION, "mine", "other")["phase"] == "Running"
    assert "default/nightly" in condition(second.kube.status(ResourceKind.COMPACTION, "same", "other"))["message"]


@runs
async def test_policies_of_another_operator_are_left_alone() -> None:
    """One that no operator handles gets one note."""
    first = operator("default")
    first.work.memory = memory(state("sales.orders"))
    first.kube.apply(ResourceKind.POLICY, policy_raw(suspend=True))
    await first.start()
    second = operator("other", identity="two", beside=first)
    assert await look(second, seconds=7200) == 0
    with pytest.raises(NoPolicyError):
        second.controller.why(Question("sales.orders"))
    first.kube.apply(ResourceKind.POLICY, policy_raw("alone"))
    assert await look(second, seconds=7200) == 1
    ready = condition(second.kube.status(ResourceKind.POLICY, "alone"), "Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "NotServed")
    assert second.work.surveys == 0
    answers = second.controller.why(Question("sales.orders"))
    assert [(one.policy, one.reason) for one in answers or ()] == [("alone", "NotServed")]


async def two_operators(stage: Callable[[Sandbox], Any]) -> tuple[Sandbox, Sandbox, list[ResourceKind]]:
    """An operator that has come to a stage, a second one beside it, and the kinds of what has not ended."""
    first = operator("default")
    await stage(first)
    unended = [kind for kind, name in KEYS if not first.kube.status(kind, name).get("completionTime")]
    first.kube.events.clear()
    return first, operator("default", identity="two", beside=first), unended


@pytest.mark.parametrize("stage", [running, published])
def test_of_two_operators_that_serve_one_namespace_the_second_changes_nothing(stage: Callable[[Sandbox], Any]) -> None:
    """Its warehouse of that name may have another metastore, where the table has no readers (H1)."""

    @runs
    async def scenario() -> None:
        first, second, unended = await two_operators(stage)
        assert await look(second) == 0
        assert second.work.calls == []
        assert first.kube.reasons() == ["HandledByAnother"] * len(unended)
        assert "list one under takeOver" in first.kube.events[0]["message"]

    scenario()


@pytest.mark.parametrize("stage", [running, published])
def test_users_are_reminded_each_hour_that_another_operator_handles_what_has_not_ended(
    stage: Callable[[Sandbox], Any],
) -> None:
    """The API server forgets an event after an hour. That the resource has ended ends it."""

    @runs
    async def scenario() -> None:
        first, second, unended = await two_operators(stage)
        assert await look(second, seconds=2.5 * 3600) == 0
        assert first.kube.reasons() == ["HandledByAnother"] * len(unended) * 3

    scenario()


async def of_a_policy(box: Sandbox) -> None:
    box.work.memory = memory(state("sales.orders"))
    box.kube.apply(ResourceKind.POLICY, policy_raw())
    await box.start()


async def of_a_pool(box: Sandbox) -> None:
    enqueue(box, "orders")
    await box.start()


@pytest.mark.parametrize("create", [of_a_policy, of_a_pool])
def test_what_an_operator_creates_is_its_own_before_its_first_look(create: Callable[[Sandbox], Any]) -> None:
    """The second operator may see it first, and would hold it against its own metastore (H1)."""

    @runs
    async def scenario() -> None:
        first = operator("default", config=with_pool())
        await create(first)
        (created,) = first.kube.all(ResourceKind.COMPACTION)
        del created["status"]
        second = operator("default", identity="two")
        second.kube.apply(ResourceKind.COMPACTION, created)
        assert await look(second) == 0
        assert (second.work.calls, second.kube.reasons()) == ([], ["HandledByAnother"])
        again = operator("default", beside=second)
        await again.start()
        assert again.compaction(created["metadata"]["name"])["operator"] == "one"

    scenario()


@runs
async def test_what_a_removed_operator_has_created_is_free_by_the_command_of_the_event() -> None:
    """Without takeOver: no operator has handled it. What one has handled has no such way."""
    second = operator("default", identity="two")
    raw = compaction_raw()
    raw["metadata"]["annotations"] = {ANNOTATION_OPERATOR: "one"}
    second.kube.apply(ResourceKind.COMPACTION, raw)
    second.kube.apply(ResourceKind.COMPACTION, {**compaction_raw("handled"), "status": {"operator": "one"}})
    assert await look(second) == 0
    told = {one["involvedObject"]["name"]: one["message"] for one in second.kube.events}
    assert told["nightly"].endswith("remains, or: kubectl annotate tcomp nightly -n default compaction.dev/operator-")
    assert told["handled"].endswith("of the one that remains")
    del raw["metadata"]["annotations"]
    second.kube.apply(ResourceKind.COMPACTION, raw)
    await look(second)
    assert (second.compaction()["operator"], second.compaction()["attempt"]) == ("two", 1)


@runs
async def test_the_annotation_gives_no_operator_a_namespace_that_it_does_not_serve() -> None:
    """Users can write it: neither a failure nor an attempt may come of that."""
    box = operator("other")
    raw = compaction_raw()
    raw["metadata"]["annotations"] = {ANNOTATION_OPERATOR: "one"}
    box.kube.apply(ResourceKind.COMPACTION, raw)
    assert await look(box, seconds=59) == 0


@runs
async def test_the_annotation_takes_nothing_from_the_operator_that_has_written() -> None:
    """A user who names another one would hand it half of an attempt."""
    first = operator("default")
    await begun(first)
    raw = first.kube.get(ResourceKind.COMPACTION, "nightly")
    raw["metadata"]["annotations"] = {ANNOTATION_OPERATOR: "two"}
    first.kube.apply(ResourceKind.COMPACTION, raw)
    second = operator("default", identity="two", beside=first)
    assert await look(second) == 0
    first.kube.end_job(JOB, ok=True)
    await first.run()
    assert first.compaction()["operator"] == "one"


@runs
async def test_the_annotation_takes_no_attempt_that_names_no_operator() -> None:
    """An older version left the name out of the status. Its attempt has to end."""
    first = operator("default")
    await begun(first)
    raw = first.kube.get(ResourceKind.COMPACTION, "nightly")
    raw["metadata"]["annotations"] = {ANNOTATION_OPERATOR: "two"}
    del raw["status"]["operator"]
    first.kube.apply(ResourceKind.COMPACTION, raw)
    first.kube.end_job(JOB, ok=False)
    again = operator("default", beside=first)
    await look(again)
    assert (again.work.count("end 1"), again.compaction()["operator"]) == (1, "one")


@runs
async def test_a_journal_belongs_to_the_operator_of_its_driver_before_any_look() -> None:
    """The second operator may see it first: without readers in its own metastore it would delete at once (H1)."""
    first = operator("default")
    raw = journal()
    raw["spec"]["operator"] = "one"
    first.kube.apply(ResourceKind.CLEANUP, raw)
    second = operator("default", identity="two", beside=first)
    assert await look(second) == 0
    assert second.work.calls == []
    await first.start()
    assert first.cleanup()["operator"] == "one"


@runs
async def test_a_journal_without_a_name_belongs_to_the_operator_of_its_compaction() -> None:
    """A driver or a CRD of an older version leaves the name out (H1)."""
    first = operator("default")
    first.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await first.start()
    first.kube.apply(ResourceKind.CLEANUP, journal())
    first.kube.end_job(JOB, ok=True)
    second = operator("default", identity="two", beside=first)
    assert await look(second) == 0
    assert second.work.calls == []


@runs
async def test_what_only_waits_is_taken_over_too() -> None:
    """Else it would be left alone as soon as the configuration no longer names the removed operator."""
    first = operator("default")
    await published(first)
    first.kube.apply(ResourceKind.POLICY, policy_raw(suspend=True))
    await first.pass_time(10)
    second = operator("default", identity="two", beside=first, config=CONFIG.model_copy(update={"take_over": ("one",)}))
    second.work.locks = (12,)
    await look(second)
    assert (second.cleanup()["phase"], second.cleanup()["operator"]) == ("WaitingForReaders", "two")
    assert second.kube.status(ResourceKind.POLICY, "keep")["operator"] == "two"


@runs
async def test_attempts_of_a_warehouse_that_is_gone_take_no_slot() -> None:
    """They hold their tables until the warehouse is configured again; others go on."""
    first = operator("default", jobs=1)
    await begun(first)
    first.kube.end_job(JOB, ok=False)
    (lake,) = serving("default").warehouses
    sea = CONFIG.model_copy(update={"warehouses": (lake.model_copy(update={"name": "sea"}),)})
    again = operator("default", beside=first, jobs=1, config=sea)
    again.kube.apply(ResourceKind.COMPACTION, compaction_raw("other", warehouse="sea"))
    again.work.ending = Trouble(Reason.UNKNOWN_WAREHOUSE, "unknown warehouse 'lake'")
    await look(again)
    assert again.compaction("other")["phase"] == "Running"
    assert again.compaction()["phase"] != "Failed"


@runs
async def test_a_removed_operator_is_replaced_by_one_that_takes_over_from_it() -> None:
    """In the namespaces that the new one serves, and nowhere else."""
    first = operator("default")
    await published(first)
    heir = CONFIG.model_copy(update={"take_over": ("one",)})
    for namespaces, expected in (("other",), "one"), (("default",), "two"):
        second = operator(*namespaces, identity="two", beside=first, config=heir)
        await look(second)
        assert first.cleanup()["operator"] == expected
    assert first.cleanup()["phase"] == "Succeeded"
