"""CompactionPolicies in the controller: what they create, when they stop, and what their status says."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from compaction_operator.api.compaction import CleanupOptions, CompactionType, TableCompactionSpec
from compaction_operator.api.hudi import HudiOptions
from compaction_operator.api.policy import LABEL_POLICY_UID, CompactionPolicySpec, Thresholds
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.kube.client import GoneError, KubeError, Raw
from compaction_operator.controller.kube.cluster import Pools, WarehousePools
from compaction_operator.controller.kube.resources import ResourceKind, read_policy
from compaction_operator.controller.kube.times import rfc3339
from compaction_operator.controller.policies.decide import hours, plan, restored
from compaction_operator.controller.policies.standing import Created, Known
from compaction_operator.hudi import LogSizes, SliceSizes
from compaction_operator.policy.choice import Hold, Outcome, Past, Usage
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import Memory, PartitionState, Problem, Round, TableState
from compaction_operator.policy.timeline import TimelineMeasure
from tests.unit.controller.sandbox import (
    NOON,
    Inline,
    KilledError,
    Sandbox,
    cleanup_raw,
    compaction_raw,
    condition,
    runs,
)

DELTAS = Measure(1, 1000, 11, 11, 90, 0, 1, 1, 0)
"""Eleven deltas on a base: a minor compaction is due."""
CLEAN = Measure(1, 1000, 1, 1, 9, 0, 1, 1, 0)


def state(name: str, measure: Measure = DELTAS, *, problem: Problem | None = None) -> TableState:
    return TableState(name, "1", NOON, (), Thresholds(), (PartitionState("", 100, measure),), problem)


def memory(*states: TableState, unread: frozenset[str] = frozenset()) -> Memory:
    return Memory({one.name: one for one in states}, matched=len(states), unread=unread)


def policy_raw(name: str = "keep", *, generation: int = 1, **spec: Any) -> Raw:
    return {
        "apiVersion": "compaction.dev/v1alpha1",
        "kind": "CompactionPolicy",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "generation": generation,
            "creationTimestamp": rfc3339(NOON),
        },
        "spec": {"warehouse": "lake", "tables": {"include": ["sales.*"]}, **spec},
    }


def change(box: Sandbox, **spec: Any) -> None:
    """Change the policy's spec, as a user does."""
    raw = box.kube.get(ResourceKind.POLICY, "keep")
    raw["metadata"]["generation"] += 1
    raw["spec"].update(spec)
    box.kube.apply(ResourceKind.POLICY, raw)


async def started(found: Memory, **spec: Any) -> Sandbox:
    box = Sandbox()
    box.work.memory = found
    box.kube.apply(ResourceKind.POLICY, policy_raw(**spec))
    await box.start()
    return box


def created(box: Sandbox) -> list[Raw]:
    return [raw for raw in box.kube.all(ResourceKind.COMPACTION) if raw["metadata"].get("ownerReferences")]


def status(box: Sandbox) -> dict[str, Any]:
    return box.kube.status(ResourceKind.POLICY, "keep")


def reasons(box: Sandbox) -> tuple[str, str]:
    return condition(status(box), "Ready")["reason"], condition(status(box), "Active")["reason"]


def kept_back(box: Sandbox) -> dict[str, int]:
    return {one["reason"]: one["tables"] for one in status(box)["keptBack"]}


async def jump(box: Sandbox, seconds: float) -> None:
    """Let time pass without what is due meanwhile: while tables are unread, there is a look each second."""
    box.time.seconds += seconds
    await box.run()


async def end(box: Sandbox, *, ok: bool = True) -> None:
    """Let the drivers of all running compactions end."""
    for job in box.kube.jobs():
        reason = Reason.NOTHING_TO_COMPACT if ok else Reason.UNSUPPORTED_TABLE
        box.kube.end_job(job, DriverResult(reason=reason, message="over"), ok=ok)
    await box.run()


@runs
async def test_without_a_policy_nothing_is_asked() -> None:
    box = Sandbox()
    await box.start()
    await box.pass_time(600)
    assert box.work.surveys == 0


@runs
async def test_a_due_table_gets_a_compaction_that_belongs_to_the_policy() -> None:
    template = {"cleanup": {"gracePeriod": "10m"}, "deadline": "2h"}
    box = await started(memory(state("sales.orders"), state("sales.calm", CLEAN)), template=template)
    (made,) = created(box)
    assert made["spec"]["table"] == {"database": "sales", "name": "orders"}
    assert (made["spec"]["type"], made["spec"]["deadline"]) == ("Minor", "7200s")
    assert made["spec"]["cleanup"]["gracePeriod"] == "600s"
    assert made["metadata"]["labels"][LABEL_POLICY_UID] == "uid-keep"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-keep"
    assert box.kube.jobs()
    assert reasons(box) == ("Looked", "Open")
    assert status(box)["tables"] == {"seen": 2, "due": 1, "running": 1, "done": 0, "failed": 0, "keptBack": 0}


@runs
async def test_a_table_is_compacted_once_at_a_time_and_rests_after_it() -> None:
    box = await started(memory(state("sales.orders")))
    await box.pass_time(120)
    assert len(created(box)) == 1
    assert kept_back(box) == {"UnfinishedCompaction": 1}
    await end(box)
    await box.pass_time(60)
    assert kept_back(box) == {"NothingGained": 1}
    box.work.memory = memory(replace(state("sales.orders"), version="2"))
    await box.pass_time(60)
    assert kept_back(box) == {"MinInterval": 1}
    await box.pass_time(3600)
    assert len(created(box)) == 2


@runs
async def test_a_hand_made_compaction_keeps_its_table_back() -> None:
    """Even one that is suspended: who made it has something in mind."""
    box = Sandbox()
    box.work.memory = memory(state("sales.orders"))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(suspend=True))
    box.kube.apply(ResourceKind.POLICY, policy_raw())
    await box.start()
    assert created(box) == []
    assert kept_back(box) == {"UnfinishedCompaction": 1}


@runs
async def test_a_table_whose_compaction_failed_rests_longer_each_time() -> None:
    box = await started(memory(state("sales.orders")), minInterval="10m")
    await end(box, ok=False)
    await box.pass_time(540)
    assert (len(created(box)), kept_back(box)) == (1, {"BackingOff": 1})
    assert status(box)["tables"]["failed"] == 1
    await box.pass_time(120)
    assert len(created(box)) == 2
    await end(box, ok=False)
    await box.pass_time(1080)
    assert len(created(box)) == 2
    await box.pass_time(240)
    assert len(created(box)) == 3


@runs
async def test_suspend_stops_the_looks_and_what_was_about_to_start() -> None:
    """It is set while the look goes on: nothing is created from what this finds."""
    box = Sandbox()
    box.work.memory = memory(state("sales.orders"))
    box.work.during_survey = lambda: change(box, suspend=True)
    box.kube.apply(ResourceKind.POLICY, policy_raw())
    await box.start()
    await box.pass_time(300)
    assert (created(box), box.work.surveys) == ([], 1)
    assert condition(status(box), "Active")["reason"] == "Suspended"
    box.work.during_survey = lambda: None
    change(box, suspend=False)
    await box.run()
    assert len(created(box)) == 1


@runs
async def test_a_policy_that_is_deleted_during_a_look_creates_nothing() -> None:
    box = Sandbox()
    box.work.memory = memory(state("sales.orders"))
    box.work.during_survey = lambda: box.kube.delete(ResourceKind.POLICY, "default", "keep")
    box.kube.apply(ResourceKind.POLICY, policy_raw())
    await box.start()
    await box.pass_time(300)
    assert (created(box), box.work.surveys) == ([], 1)


@runs
async def test_a_dry_run_says_what_would_start() -> None:
    box = await started(memory(state("sales.orders")), dryRun=True)
    assert created(box) == []
    (line,) = status(box)["next"]
    assert (line["table"], line["keptBackBy"], line["filesSaved"]) == ("sales.orders", "DryRun", 10)
    assert reasons(box) == ("Looked", "DryRun")


@runs
async def test_nothing_starts_while_its_window_is_closed() -> None:
    box = await started(memory(state("sales.orders")), windows=[{"start": "13:00", "duration": "1h"}])
    assert (created(box), kept_back(box)) == ([], {"WindowClosed": 1})
    assert condition(status(box), "Active")["message"] == "the next window opens at 2026-01-01T13:00:00Z"
    await box.pass_time(3660)
    assert len(created(box)) == 1


@runs
async def test_bad_policies_are_named_in_the_status() -> None:
    for spec, reason, names in (
        ({"warehouse": "sea"}, "UnknownWarehouse", "sea"),
        ({"template": {"spark": {"profile": "gpu"}}}, "UnknownProfile", "gpu"),
        ({"windows": [{"start": "13:00", "duration": "1h", "timeZone": "Mars/Base"}]}, "UnknownTimeZone", "Mars/Base"),
        ({"partitions": {"filters": ["day ~ 3"]}}, "InvalidFilter", "day ~ 3"),
        ({"windows": [{"start": "13:00", "duration": "1h", "days": []}]}, "NeverOpens", "windows"),
        ({"strategy": "Gain"}, "NoBudget", "bytesPerWindow"),
        ({"partitions": {"minAge": "2h", "maxAge": "1h"}}, "NothingSelected", "minAge"),
    ):
        box = await started(memory(state("sales.orders")), **spec)
        ready = condition(status(box), "Ready")
        assert (ready["status"], ready["reason"], box.work.surveys) == ("False", reason, 0)
        assert names in ready["message"]
    box = await started(memory())
    assert condition(status(box), "Ready")["reason"] == "NothingMatches"
    large = Measure(1, 2**30, 11, 11, 2**26, 0, 1, 1, 0)
    box = await started(memory(state("sales.orders", large)), bytesPerWindow="1MiB")
    assert condition(status(box), "Ready")["reason"] == "BudgetTooSmall"


@runs
async def test_by_gain_a_policy_keeps_the_pace_and_does_not_wait_for_thresholds() -> None:
    """Of 1 GiB in a day, 43 MiB are for each hour, and six hours are left over at first.

    What is below the thresholds is neither due nor kept back.
    """
    four = Measure(1, 2**30, 4, 4, 40 * 2**20, 0, 1, 1, 0)
    tables = memory(*(state(f"sales.t{number}", four) for number in range(9)))
    box = await started(tables, strategy="Gain", bytesPerWindow="1GiB", maxConcurrent=9)
    assert [one["spec"]["type"] for one in created(box)] == ["Minor"] * 7
    assert (status(box)["tables"]["due"], kept_back(box)) == (0, {})
    assert [one["keptBackBy"] for one in status(box)["next"]] == ["BudgetPaced"] * 2
    await box.pass_time(60)
    assert len(created(box)) == 7
    await box.pass_time(3600)
    assert len(created(box)) == 8


def test_what_is_not_due_does_not_begin_to_wait() -> None:
    spec = read_policy(policy_raw(strategy="Gain", bytesPerWindow="1KiB")).spec
    found = memory(state("sales.orders"), state("sales.small", Measure(1, 1000, 4, 4, 40, 0, 1, 1, 0)))
    known, when = Known((), {}, frozenset()), hours(spec, NOON)
    decision = plan(spec, found, known, created=(), when=when, now=NOON)
    assert len(decision.verdicts) == 2
    assert decision.due_since == {"sales.orders": {"": NOON}, "sales.small": {}}


def test_the_owners_word_is_read_again_of_what_may_start_by_gain() -> None:
    """The next look reads the properties of the tables in `due_since`, as the owner may have set them to off."""
    small = memory(state("sales.small", Measure(1, 1000, 4, 4, 40, 0, 1, 1, 0)))
    for strategy, names in (("Gain", ["sales.small"]), ("Thresholds", [])):
        spec = read_policy(policy_raw(strategy=strategy, bytesPerWindow="1KiB")).spec
        when = hours(spec, NOON)
        decision = plan(spec, small, Known((), {}, frozenset()), created=(), when=when, now=NOON)
        assert list(decision.due_since) == names


@runs
async def test_a_metastore_that_does_not_answer_changes_nothing_that_is_known() -> None:
    box = await started(memory(state("sales.orders")))
    before = status(box)
    box.work.metastore_down = True
    await box.pass_time(60)
    ready = condition(status(box), "Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "MetastoreUnavailable")
    assert status(box)["tables"] == before["tables"]


PLACE = "/warehouse/lake/orders"


def hudi_state(type_: CompactionType = CompactionType.LOG_COMPACTION, **options: Any) -> TableState:
    """A Hudi table that is due for a compaction of a type."""
    commits = 5 if type_ is CompactionType.COMPACTION else 1
    measure = TimelineMeasure(commits, 5, SliceSizes(LogSizes(1, 5, 90), LogSizes(1, 5, 90), 1000))
    return replace(
        state("sales.orders"),
        partitions=(PartitionState("", 100, measure),),
        place=PLACE,
        hudi={type_: HudiOptions(**options)},
    )


@runs
async def test_a_due_hudi_table_gets_a_compaction_that_the_api_server_takes() -> None:
    """It refuses options of the cleanup for it, and a size limit for a compaction."""
    template = {"cleanup": {"gracePeriod": "10m"}, "deadline": "2h", "spark": {"driver": {"memory": "2g"}}}
    limited = hudi_state(max_log_file_size_to_merge=2048, options={"hoodie.a": "b"})
    box = await started(memory(limited), template=template)
    (made,) = created(box)
    spec = made["spec"]
    assert (spec["type"], spec["deadline"], spec["spark"]["driver"]["memory"]) == ("LogCompaction", "7200s", "2g")
    assert "partitions" not in spec or spec["partitions"] == []
    assert TableCompactionSpec.model_validate(spec).cleanup == CleanupOptions()
    assert (spec["hudi"]["options"], spec["hudi"]["maxLogFileSizeToMerge"]) == ({"hoodie.a": "b"}, "2KiB")
    box = await started(memory(hudi_state(CompactionType.COMPACTION, clean=True)))
    (made,) = created(box)
    assert (made["spec"]["type"], made["spec"]["hudi"]["clean"]) == ("Compaction", True)
    assert "maxLogFileSizeToMerge" not in made["spec"]["hudi"]


@runs
async def test_a_hudi_table_is_compacted_once_at_a_time_and_rests_after_it() -> None:
    """Its location becomes known with the first attempt: from then on that is its key in the cluster."""
    box = await started(memory(hudi_state()))
    (raw,) = created(box)
    box.kube.apply(ResourceKind.COMPACTION, {**raw, "status": {**raw["status"], "location": PLACE}})
    await box.pass_time(60)
    assert kept_back(box) == {"UnfinishedCompaction": 1}
    await end(box)
    await box.pass_time(60)
    assert (kept_back(box), len(created(box))) == ({"NothingGained": 1}, 1)
    assert box.work.ended.keys() == {"sales.orders"}


@runs
async def test_what_gained_nothing_is_tried_again_with_other_options() -> None:
    """Also after a restart, and with other options of the warehouse. Nothing was written to the table meanwhile."""
    box = await started(memory(hudi_state()))
    await end(box)
    await box.pass_time(7200)
    assert (kept_back(box), len(created(box))) == ({"NothingGained": 1}, 1)
    box.work.memory = memory(hudi_state(max_log_file_size_to_merge=2048))
    await box.pass_time(60)
    assert len(created(box)) == 2
    await end(box)
    await box.pass_time(7200)
    assert (kept_back(box), len(created(box))) == ({"NothingGained": 1}, 2)
    given = replace(hudi_state(max_log_file_size_to_merge=2048), given={"hoodie.a": "b"})
    box.work.memory = memory(given)
    await box.start()
    assert len(created(box)) == 3


@runs
async def test_a_hand_made_compaction_by_location_or_by_another_name_keeps_a_hudi_table_back() -> None:
    for table, known in (({"location": PLACE}, {}), ({"database": "sales", "name": "orders_rt"}, {"location": PLACE})):
        box = Sandbox()
        box.work.memory = memory(hudi_state())
        raw = compaction_raw(suspend=True, type="LogCompaction", table=table)
        box.kube.apply(ResourceKind.COMPACTION, {**raw, "status": known})
        box.kube.apply(ResourceKind.POLICY, policy_raw())
        await box.start()
        assert (created(box), kept_back(box)) == ([], {"UnfinishedCompaction": 1})


@runs
async def test_what_a_database_has_is_counted_over_the_looks() -> None:
    """What runs, and what it used up of the budget once that has ended."""
    two = memory(state("sales.orders"), state("sales.parts"))
    box = await started(two, maxConcurrent=2, databaseShare=50, bytesPerWindow="1KiB", minInterval="1m")
    for _ in range(2):
        assert (len(created(box)), kept_back(box)["DatabaseShare"]) == (1, 1)
        await box.pass_time(60)
    change(box, bytesPerWindow="1MiB")
    await end(box)
    await box.pass_time(60)
    assert len(created(box)) == 2
    box = await started(two, maxConcurrent=4, databaseShare=10, bytesPerWindow="1KiB", minInterval="1m")
    await end(box)
    await box.pass_time(120)
    assert (len(created(box)), kept_back(box)["DatabaseShare"]) == (1, 1)


@runs
async def test_core_hours_count_as_expected_and_then_as_they_were() -> None:
    """What the first compaction took says what is to be expected of the next one."""
    large = replace(DELTAS, delta_bytes=2**30, base_bytes=2**40)
    box = await started(memory(state("sales.orders", large)), coreHoursPerWindow=1)
    (raw,) = created(box)
    assert raw["metadata"]["annotations"]["compaction.dev/policy-cpu-milliseconds"] == "51200"
    assert (status(box)["budget"]["bytesUsed"], status(box)["budget"]["cpuSecondsUsed"]) == (2**30, 51)
    await box.pass_time(60)
    assert status(box)["budget"]["cpuSecondsUsed"] == 51
    await end(box)
    await box.pass_time(60)
    assert status(box)["budget"]["cpuSecondsUsed"] == 51
    ended = box.kube.get(ResourceKind.COMPACTION, raw["metadata"]["name"])
    taken = {**ended["status"], "cpuMilliseconds": 1_000_000}
    box.kube.apply(ResourceKind.COMPACTION, {**ended, "status": taken})
    box.work.memory = memory(state("sales.parts", large))
    await box.pass_time(60)
    assert created(box)[-1]["metadata"]["annotations"]["compaction.dev/policy-cpu-milliseconds"] == "1000000"
    assert status(box)["budget"]["cpuSecondsUsed"] == 2000
    box.work.memory = memory(state("sales.more", replace(large, delta_bytes=2**31)))
    await box.pass_time(60)
    assert kept_back(box) == {"BudgetSpent": 1}


def test_a_compaction_that_the_watch_has_not_brought_counts_for_its_database() -> None:
    new = [Created("sales.a", NOON, 5, 50), Created("sales.b", NOON, 6, 60), Created("hr.c", NOON, 7, 70)]
    found = Known((), {}, frozenset()).of_databases(new, NOON)
    assert found == {"sales": Usage(2, 11, 110), "hr": Usage(1, 7, 70)}


def test_what_found_nothing_in_a_partition_lets_another_one_start() -> None:
    parts = tuple(PartitionState(f"day={day}", 100, DELTAS) for day in (1, 2))
    table = replace(state("sales.orders"), keys=("day",), partitions=parts)
    spec = read_policy(policy_raw(minInterval="1h")).spec
    when, alone = hours(spec, NOON), Known((), {}, frozenset())
    (first,) = plan(spec, memory(table), alone, created=(), when=when, now=NOON).verdicts
    long_ago = NOON - timedelta(hours=2)
    nothing = Past("one", "sales.orders", first.candidate.type, long_ago, long_ago, Outcome.NOTHING, 0)
    nothing = replace(nothing, partitions=("day=1",), seen=first.candidate.seen)
    known = Known((), {"sales.orders": [nothing]}, frozenset())
    decision = plan(spec, memory(table), known, created=(), when=when, now=NOON)
    found = {one.candidate.parts[0].spec: one.hold for one in decision.verdicts}
    assert found == {"day=1": Hold.NOTHING_GAINED, "day=2": None}


def test_what_found_nothing_is_kept_only_as_long_as_it_keeps_something_back() -> None:
    """Cold tables would leave one for each, for good. What is not known again yet after a restart, may be kept back."""
    parts = tuple(PartitionState(f"day={day}", 100, DELTAS) for day in (1, 2))
    table = replace(state("sales.orders"), keys=("day",), partitions=parts)
    spec = read_policy(policy_raw(history={"succeeded": 0, "failed": 0})).spec
    alone, when = Known((), {}, frozenset()), hours(spec, NOON)
    (first,) = plan(spec, memory(table), alone, created=(), when=when, now=NOON).verdicts

    def nothing(day: int, hours_ago: int) -> Past:
        then = NOON - timedelta(hours=hours_ago)
        found = Past(f"{day}-{hours_ago}", "sales.orders", first.candidate.type, then, then, Outcome.NOTHING, 0)
        return replace(found, partitions=(f"day={day}",), seen=first.candidate.seen)

    known = Known((), {"sales.orders": [nothing(1, 9), nothing(1, 8), nothing(2, 7)]}, frozenset())

    def gone(found: Memory) -> set[str]:
        return {one.name for one in plan(spec, found, known, created=(), when=when, now=NOON).expired}

    assert gone(memory(table)) == {"1-9"}
    assert gone(memory(replace(table, partitions=parts[:1]))) == {"1-9", "2-7"}
    assert gone(memory(replace(table, partitions=()))) == gone(memory()) == {"1-9", "1-8", "2-7"}
    reading = replace(table, partitions=(), round=Round("", NOON, "day=0", 1, 3))
    silent = state("sales.orders", problem=Problem("StorageUnavailable", "", passing=True))
    for unknown in (memory(unread=frozenset({"sales.orders"})), memory(reading), memory(silent)):
        assert gone(unknown) == set()


@runs
async def test_what_gains_nothing_does_not_speak_for_a_table_of_which_something_else_waits() -> None:
    parts = tuple(PartitionState(f"day={day}", 100, DELTAS) for day in (1, 2))
    table = replace(state("sales.orders"), keys=("day",), partitions=parts[:1])
    box = await started(memory(table))
    await end(box)
    await box.pass_time(600)
    assert kept_back(box) == {"NothingGained": 1}
    fewer = Measure(1, 1000, 11, 3, 90, 0, 1, 1, 0)  # the other partition has a lower score
    box.work.memory = memory(replace(table, partitions=(parts[0], replace(parts[1], measure=fewer))))
    await box.pass_time(60)
    assert [one["keptBackBy"] for one in status(box)["next"]] == ["NothingGained", "MinInterval"]
    assert kept_back(box) == {"MinInterval": 1}


def test_the_bytes_of_a_compaction_that_the_watch_has_not_brought_count() -> None:
    """For the budget and for the pace: the next look may come a second later."""
    four, mib = Measure(1, 2**30, 4, 4, 40 * 2**20, 0, 1, 1, 0), 2**20
    for strategy, measure, hold in (("Thresholds", DELTAS, "BudgetSpent"), ("Gain", four, "BudgetPaced")):
        spec = read_policy(policy_raw(strategy=strategy, bytesPerWindow="400MiB")).spec
        new, known = Created("sales.a", NOON, 400 * mib, 0), Known((), {}, frozenset())
        for created, expected in (((), None), ((new,), hold)):
            decision = plan(spec, memory(state("sales.b", measure)), known, created=created, when=hours(spec, NOON),
                            now=NOON)  # fmt: skip
            assert [one.hold for one in decision.verdicts] == [expected]


@runs
async def test_what_is_not_due_and_exceeds_the_budget_does_not_make_a_policy_not_ready() -> None:
    """It never has to start, and no time is known at which it may."""
    four = Measure(1, 2**30, 4, 4, 40 * 2**20, 0, 1, 1, 0)
    box = await started(memory(state("sales.orders", four)), strategy="Gain", bytesPerWindow="1MiB")
    assert condition(status(box), "Ready")["reason"] == "Looked"
    assert (created(box), [one["keptBackBy"] for one in status(box)["next"]]) == ([], ["BudgetTooSmall"])


@runs
async def test_what_is_due_is_in_the_status_before_what_is_not() -> None:
    """Else its wait would begin again with a restart. The order stays that of the policy."""
    better = [state(f"sales.t{number}", Measure(1, 1000, 9, 900, 90, 0, 1, 1, 0)) for number in range(25)]
    spec = {"strategy": "Gain", "bytesPerWindow": "1GiB", "dryRun": True}
    box = await started(memory(*better, state("sales.orders")), **spec)
    lines = status(box)["next"]
    assert (len(lines), lines[-1]["table"]) == (20, "sales.orders")


@runs
async def test_by_gain_a_policy_reads_all_tables_before_it_starts_anything_that_can_wait() -> None:
    """For an hour at most: a warehouse that cannot be read to the end must not stop it for good."""
    spec = {"strategy": "Gain", "bytesPerWindow": "1GiB"}
    box = await started(memory(state("sales.orders"), unread=frozenset({"sales.other"})), **spec)
    assert (created(box), kept_back(box)) == ([], {"FirstLook": 1})
    await jump(box, 3000)
    assert created(box) == []
    await jump(box, 660)
    assert len(created(box)) == 1
    box = await started(memory(state("sales.orders"), unread=frozenset({"sales.other"})), **spec)
    box.work.memory = memory(state("sales.orders"))
    await box.pass_time(60)
    assert len(created(box)) == 1


@runs
async def test_the_hour_of_the_first_look_begins_when_it_has_ended() -> None:
    """Not while the policy is suspended, the metastore does not answer, or the look goes on."""
    spec = {"strategy": "Gain", "bytesPerWindow": "1GiB"}
    box = await started(memory(state("sales.orders"), unread=frozenset({"sales.other"})), **spec, suspend=True)
    await box.pass_time(7200)
    box.work.metastore_down = True
    change(box, suspend=False)
    await box.pass_time(7200)
    box.work.metastore_down = False

    def wait() -> None:
        box.time.seconds += 7200

    box.work.during_survey = wait
    change(box, maxConcurrent=3)
    await box.idle()
    box.controller.step()
    await box.idle()
    assert (created(box), kept_back(box)) == ([], {"FirstLook": 1})
    box.work.during_survey = lambda: None
    await jump(box, 3000)
    assert created(box) == []
    change(box, suspend=True)
    await box.pass_time(7200)
    change(box, suspend=False)
    await box.run()
    await jump(box, 3000)
    assert (created(box), kept_back(box)) == ([], {"FirstLook": 1})
    await jump(box, 660)
    assert len(created(box)) == 1


@runs
async def test_a_spec_that_changes_right_after_a_look_does_not_take_what_this_found() -> None:
    """The listing depends on the thresholds. The new spec comes between the write of the status and its answer."""
    box, given = Sandbox(), list[tuple[int, set[str]]]()
    box.work.memory = memory(state("sales.orders"))
    survey, replace_status = box.work.survey, box.kube.replace_status

    def recording(warehouse: str, spec: CompactionPolicySpec, memory: Memory, **more: Any) -> Memory | Trouble:
        given.append((spec.thresholds.deltas, set(memory.tables)))
        return survey(warehouse, spec, memory, **more)

    def changing(kind: ResourceKind, raw: Mapping[str, Any], status: Raw) -> Raw:
        written = replace_status(kind, raw, status)
        if kind is ResourceKind.POLICY and written["metadata"]["generation"] == 1:
            change(box, thresholds={"deltas": 50})
        return written

    box.work.survey, box.kube.replace_status = recording, changing  # type: ignore[method-assign]
    box.kube.apply(ResourceKind.POLICY, policy_raw())
    await box.start()
    assert given == [(10, set()), (50, set())]


def test_times_in_a_status_that_cannot_be_read_are_left_out() -> None:
    line = {"table": "sales.a", "type": "Minor", "partitions": 1, "score": "1", "reason": "r", "filesSaved": 1,
            "deleteBytes": 0, "bytes": 1}  # fmt: skip
    raw = policy_raw()
    raw["status"] = {"next": [{**line, "dueSince": "soon"}, {**line, "table": "sales.b", "dueSince": rfc3339(NOON)}]}
    assert restored(read_policy(raw).status) == {"sales.b": {"": NOON}}


def test_what_was_not_due_has_not_waited() -> None:
    """Else a look long after could start it beyond the budget at once."""
    line = {"table": "sales.a", "type": "Minor", "partitions": 1, "score": "1", "reason": "r", "filesSaved": 1,
            "deleteBytes": 0, "bytes": 1, "due": False, "dueSince": rfc3339(NOON)}  # fmt: skip
    raw = policy_raw()
    raw["status"] = {"next": [line]}
    assert restored(read_policy(raw).status) == {}


@runs
async def test_a_large_partition_does_not_starve_behind_small_ones_of_its_table() -> None:
    """These are written to all the time, and compacted each hour, with what the budget has left."""
    large = replace(DELTAS, delta_bytes=2**21, base_bytes=2**30)
    parts = tuple(PartitionState(f"day={day}", 100, large if day == 9 else DELTAS) for day in range(10))
    table = replace(state("sales.orders"), keys=("day",), partitions=parts)
    box = await started(memory(table), bytesPerWindow="1MiB", maxDelay="3h")
    taken = []
    for hour in range(4):
        taken.append("day=9" in created(box)[-1]["spec"]["partitions"])
        await box.pass_time(60)
        await end(box)
        box.work.memory = memory(replace(table, version=str(hour)))
        await box.pass_time(60)
        if hour < 3:
            assert status(box)["next"][0]["dueLongest"] == "day=9"
        await box.pass_time(3600)
    assert taken == [False, False, False, True]
    assert (len(created(box)), kept_back(box)) == (4, {"BudgetSpent": 1})


@runs
async def test_a_table_is_listed_again_after_its_compaction_and_after_its_cleanup() -> None:
    """The cleanup's directories were there when the table was listed after the compaction."""
    box = await started(memory(state("sales.orders", CLEAN)))
    compacted, cleaned = NOON + timedelta(minutes=1), NOON + timedelta(minutes=2, microseconds=7)
    box.kube.apply(ResourceKind.COMPACTION, {**compaction_raw(), "status": {"completionTime": rfc3339(compacted)}})
    await box.pass_time(60)
    assert box.work.ended == {"sales.orders": compacted}
    raw = {**cleanup_raw(), "status": {"completionTime": rfc3339(cleaned)}}
    box.kube.apply(ResourceKind.CLEANUP, raw)
    await box.pass_time(60)
    assert box.work.ended == {"sales.orders": cleaned}


@runs
async def test_the_rest_of_the_tables_is_read_at_once() -> None:
    box = await started(memory(state("sales.orders"), unread=frozenset(f"sales.t{number}" for number in range(100))))
    assert "100 more are read" in condition(status(box), "Ready")["message"]
    await box.pass_time(2)
    assert box.work.surveys == 3


@runs
async def test_what_is_read_over_several_looks_is_named() -> None:
    """At once, if nothing of it is known yet."""
    first, again = (Round(version, NOON, "day=5", 5, 9) for version in ("", "1"))
    large = replace(state("sales.big", CLEAN), version="", round=first)
    box = await started(memory(large, replace(state("sales.other", CLEAN), round=again)))
    message = condition(status(box), "Ready")["message"]
    assert "the partitions of sales.big and 1 other table are read over several looks" in message
    await box.pass_time(2)
    assert box.work.surveys == 3
    box.work.memory = memory(replace(large, version="1", round=again))
    await box.pass_time(10)
    assert box.work.surveys == 4


@runs
async def test_a_problem_of_a_table_is_counted_with_an_example() -> None:
    box = await started(memory(state("sales.orders", problem=Problem("OptedOut", "its property is off"))))
    assert status(box)["keptBack"] == [
        {"reason": "OptedOut", "tables": 1, "example": "sales.orders", "message": "its property is off"}
    ]
    assert created(box) == []


@runs
async def test_the_history_keeps_what_is_asked_for() -> None:
    box = await started(memory(state("sales.a")), history={"failed": 1}, minInterval="10m")
    await end(box, ok=False)
    await box.pass_time(1300)
    await end(box, ok=False)
    first, second = (one["metadata"]["name"] for one in sorted(created(box), key=lambda one: one["metadata"]["uid"]))
    box.work.memory = memory(state("sales.a", CLEAN))
    await box.pass_time(1300)
    (kept,) = created(box)
    assert kept["metadata"]["name"] in (first, second)
    assert kept["metadata"]["annotations"]["compaction.dev/policy-failures"] == "1"


@runs
async def test_two_policies_make_one_compaction_of_a_table() -> None:
    """Both decided before either created one."""
    box = Sandbox()
    box.work.memory = memory(state("sales.a"))
    for name in ("keep", "other"):
        raw = policy_raw()
        raw["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        box.kube.apply(ResourceKind.POLICY, raw)
    await box.start()
    assert len(created(box)) == 1


@runs
async def test_a_restart_neither_repeats_a_compaction_nor_begins_the_wait_again() -> None:
    since = rfc3339(NOON - timedelta(hours=5))
    box = await started(memory(state("sales.orders"), state("sales.b")), maxConcurrent=1)
    raw = box.kube.get(ResourceKind.POLICY, "keep")
    raw["status"]["next"][0]["dueSince"] = since
    box.kube.apply(ResourceKind.POLICY, raw)
    before = [one["metadata"]["name"] for one in created(box)]
    await box.start()
    assert [one["metadata"]["name"] for one in created(box)] == before
    assert status(box)["next"][0]["dueSince"] == since


@runs
async def test_a_restart_keeps_the_wait_of_the_partition_that_was_due_longest() -> None:
    """That of the others begins again: they might exceed the budget too early."""
    large = replace(DELTAS, delta_bytes=2048, base_bytes=2**20)
    parts = tuple(PartitionState(f"day={day}", 100, large) for day in (1, 2))
    table, closed = (
        replace(state("sales.orders"), keys=("day",), partitions=parts),
        {"start": "13:00", "duration": "1h"},
    )
    box = await started(memory(table), maxDelay="4h", bytesPerWindow="1KiB", windows=[closed])
    raw = box.kube.get(ResourceKind.POLICY, "keep")
    raw["status"]["next"][0] |= {"dueSince": rfc3339(NOON - timedelta(hours=5)), "dueLongest": "day=2"}
    box.kube.apply(ResourceKind.POLICY, raw)
    await box.start()
    (line,) = status(box)["next"]
    assert (line["dueLongest"], line["dueSince"]) == ("day=2", rfc3339(NOON - timedelta(hours=5)))
    change(box, windows=[])
    await box.run()
    assert created(box)[-1]["spec"]["partitions"] == ["day=2"]


@runs
async def test_after_a_restart_nothing_is_compacted_again_that_had_nothing_to_merge() -> None:
    """The new controller lists each table for the first time, but nothing was written to it meanwhile."""
    box = await started(memory(state("sales.orders")))
    await end(box)
    await box.pass_time(7200)
    box.work.memory = memory(replace(state("sales.orders"), looked=box.time.now))
    await box.start()
    assert (len(created(box)), kept_back(box)) == (1, {"NothingGained": 1})
    box.work.memory = memory(replace(state("sales.orders"), version="2", looked=box.time.now))
    await box.start()
    assert len(created(box)) == 2


@runs
async def test_a_controller_that_dies_right_after_it_created_one_makes_no_second() -> None:
    for die_after in (False, True):
        box = Sandbox()
        box.work.memory = memory(state("sales.orders"))
        box.kube.apply(ResourceKind.POLICY, policy_raw())
        box.kube.die_at, box.kube.die_after = 2, die_after
        box.create()
        await box.controller.load()
        try:
            await box.run()
        except KilledError:
            box.kube.die_at = None
        await box.start()
        await box.pass_time(120)
        assert len(created(box)) == 1


@runs
async def test_a_compaction_that_the_watch_has_not_brought_yet_takes_its_slot() -> None:
    box = Sandbox()
    box.work.memory = memory(state("sales.a"), state("sales.b"))
    box.kube.apply(ResourceKind.POLICY, policy_raw(maxConcurrent=1))
    box.create()
    await box.controller.load()
    box.kube.watchers.clear()
    await box.run()
    await box.pass_time(120)
    assert len(created(box)) == 1


@runs
async def test_what_the_api_server_refuses_is_said_in_the_status() -> None:
    box = Sandbox()
    box.work.memory = memory(state("sales.orders"))

    def refuse(manifest: Raw) -> Raw:
        raise KubeError("403 Forbidden: quota")

    box.kube.create_compaction = refuse  # type: ignore[method-assign]
    box.kube.apply(ResourceKind.POLICY, policy_raw())
    await box.start()
    ready = condition(status(box), "Ready")
    assert (ready["reason"], ready["message"]) == ("NotCreated", "403 Forbidden: quota")


@runs
async def test_a_cluster_without_the_crd_works_as_before() -> None:
    box = Sandbox()
    listed: Callable[[ResourceKind, str], list[Raw]] = box.kube.list_all

    def list_all(kind: ResourceKind, namespace: str = "") -> list[Raw]:
        if kind is ResourceKind.POLICY:
            raise GoneError("404")
        return listed(kind, namespace)

    box.kube.list_all = list_all  # type: ignore[method-assign]
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    assert box.kube.jobs()


@runs
async def test_a_look_has_a_thread_of_its_own() -> None:
    """The pools of all other work refuse whatever a policy gives them."""

    class Refusing(Inline):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError(fn)

    box = Sandbox(pools=Pools(Inline(), {}, WarehousePools(Refusing(), Refusing(), Refusing(), Refusing(), Inline())))
    box.work.memory = memory(state("sales.orders"))
    box.kube.apply(ResourceKind.POLICY, policy_raw(dryRun=True))
    await box.start()
    assert condition(status(box), "Ready")["reason"] == "Looked"
