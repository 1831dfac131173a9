"""Slots: a freed one wakes the oldest that can start and no other, a slow preflight keeps none, none is forgotten."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller.answers import Preflight
from compaction_operator.controller.compaction.turns import PATIENCE, PREFLIGHTS, SEARCHED, Turns
from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.client import KubeError, Raw
from compaction_operator.controller.kube.cluster import Pools, WarehousePools
from compaction_operator.controller.kube.job import job_name
from compaction_operator.controller.kube.line import Age, Line
from compaction_operator.controller.kube.resources import Compaction, Key, ResourceKind
from compaction_operator.controller.kube.times import rfc3339
from compaction_operator.controller.loop import CALM, SWEEP
from tests.unit.controller.sandbox import CONFIG, NOON, Inline, Sandbox, Time, compaction_raw, condition, runs

SEA = CONFIG.warehouses[0].model_copy(update={"name": "sea"})


def raw(number: int, *, table: int | None = None, **more: Any) -> Raw:
    """The compaction of that age, of a table of its own by default."""
    of = {"database": "sales", "name": f"t{number if table is None else table}"}
    return compaction_raw(f"c{number}", created=NOON + timedelta(seconds=number), table=of, **more)


def key(number: int) -> Key:
    return Key(ResourceKind.COMPACTION, "default", f"c{number}")


def job(number: int) -> str:
    return job_name(compaction=f"c{number}", uid=f"uid-default-c{number}", attempt=1)


def config(slots: int, **changes: Any) -> Any:
    return CONFIG.model_copy(update={"max_concurrent_jobs": slots, **changes})


class Queue:
    """Turns over compactions in memory; the slots are taken by compactions that run."""

    def __init__(self, *numbers: int, slots: int, **more: Any) -> None:
        self.cache = Cache()
        self.turns = Turns(self.cache, config(slots))
        for number in numbers:
            self.look(self.put(raw(number, **more)))

    def put(self, one: Raw) -> Compaction:
        compaction = self.cache.put_compaction(one)
        assert compaction is not None
        return compaction

    def look(self, compaction: Compaction) -> bool:
        return self.turns.look(compaction, NOON).has_come

    def wake(self) -> list[Key]:
        """Whom an offer is made to; others that are woken only have to be told."""
        return [key for key in self.turns.wake(NOON) if self.turns.is_offered(key)]


def test_so_many_are_woken_as_there_are_slots_the_oldest_first() -> None:
    """Whatever the order in which they came."""
    queue = Queue(5, 2, 9, 1, 7, slots=3)
    assert queue.wake() == [key(1), key(2), key(5)]
    assert queue.wake() == []


def test_an_offer_is_a_slot_that_is_taken() -> None:
    """Until it is looked at, a younger one that comes meanwhile finds no slot."""
    queue = Queue(1, slots=1)
    assert queue.wake() == [key(1)]
    younger = queue.put(raw(2))
    assert "maxConcurrentJobs" in (queue.turns.look(younger, NOON).waits_for or "")
    assert queue.wake() == []


def test_who_comes_later_and_is_younger_goes_behind_those_that_wait() -> None:
    """Also at the moment at which a slot is free and its offer has not been made."""
    queue = Queue(1, 3, slots=1)
    assert "maxConcurrentJobs" in (queue.turns.look(queue.put(raw(4)), NOON).waits_for or "")
    assert queue.wake() == [key(1)]


def test_an_offer_that_is_not_taken_goes_to_the_next() -> None:
    """Deleted, or suspended, before it was looked at."""
    queue = Queue(1, 2, 3, slots=1)
    assert queue.wake() == [key(1)]
    queue.turns.forget(key(1))
    assert queue.wake() == [key(2)]
    suspended = {**raw(2, suspend=True), "metadata": {**raw(2)["metadata"], "resourceVersion": "2"}}
    assert not queue.look(queue.put(suspended))
    assert queue.wake() == [key(3)]


def test_one_that_is_gone_takes_no_slot() -> None:
    """Its deletion is known before it is looked at."""
    queue = Queue(1, 2, slots=1)
    queue.cache.drop_compaction(key(1), "uid-default-c1")
    assert queue.wake() == []
    assert queue.wake() == [key(2)]


def test_of_a_freed_table_only_the_next_one_goes_on() -> None:
    """And the one behind it, which now waits for another: not all of them."""
    queue = Queue(1, 2, 3, 4, slots=9, table=0)
    (first,) = set(queue.wake())
    assert first == key(1)
    queue.cache.drop_compaction(key(1), "uid-default-c1")
    queue.turns.forget(key(1))
    assert sorted(map(str, set(queue.turns.wake(NOON)))) == ["default/c2", "default/c3"]
    assert queue.turns.is_offered(key(2))
    assert not queue.turns.is_offered(key(3))


def test_those_that_are_over_do_not_stand_in_the_way_of_the_next() -> None:
    """Suspended a moment ago, and not looked at since: they stand at the head of the line."""
    queue = Queue(1, 2, 3, 4, 5, slots=9, table=0)
    queue.wake()
    for number in (2, 3, 4):
        suspended = raw(number, table=0, suspend=True)
        queue.put({**suspended, "metadata": {**suspended["metadata"], "resourceVersion": "2"}})
    queue.cache.drop_compaction(key(1), "uid-default-c1")
    queue.turns.forget(key(1))
    queue.wake()
    assert queue.turns.is_offered(key(5))


def test_a_warehouse_is_offered_no_more_slots_than_it_has_room_for_preflights() -> None:
    queue = Queue(*range(PREFLIGHTS + 2), slots=100)
    queue.look(queue.put(raw(50, warehouse="sea")))
    assert queue.wake() == [*map(key, range(PREFLIGHTS)), key(50)]


def test_places_in_the_line() -> None:
    """Each in one lane, each lane by age; who leaves leaves nothing."""
    line: Line[str] = Line()
    ages = [Age(NOON + timedelta(seconds=number), "default", f"c{number}") for number in range(4)]
    for number in (2, 0, 3, 1):
        line.enter(ages[number], "a", told=str(number))
    line.enter(ages[1], "b", told=None)
    assert list(line.all("a")) == [key(0), key(2), key(3)]
    assert line.first_of({"a": 2, "b": 5}, 9) == [key(0), key(1), key(2)]
    assert [line.ahead_of(ages[3], rooms) for rooms in ({"a": 9}, {"a": 1}, {"b": 3, "a": 9}, {})] == [2, 1, 3, 0]
    assert (line.told(key(0)), len(line)) == ("0", 4)
    for age in ages:
        line.leave(age.key)
    assert not len(line)
    assert not line.lanes()


def forgotten(turns: Turns) -> list[Key]:
    return [key for found in turns.doubtful(NOON, stale=1) for key in found]


def test_the_safety_net_finds_who_is_in_no_line() -> None:
    queue = Queue(1, 2, slots=1)
    assert forgotten(queue.turns) == []
    queue.turns.forget(key(2))
    assert forgotten(queue.turns) == [key(2)]


def test_the_safety_net_finds_who_waits_for_what_is_over() -> None:
    """Even if nothing told that the table is free; of those whose status is outdated it brings only some."""
    queue = Queue(1, 2, 3, 4, 5, slots=9, table=0)
    queue.cache.drop_compaction(key(1), "uid-default-c1")
    queue.turns.forget(key(1))
    queue.cache.freed.clear()
    assert forgotten(queue.turns) == [key(2), key(3)]


@runs
async def test_all_that_wait_say_so() -> None:
    """Also those that came while there were free slots, and more than could be looked up at a time."""
    box = Sandbox(config=config(10))
    for number in range(40):
        box.kube.apply(ResourceKind.COMPACTION, raw(number))
    await box.start()
    phases = Counter(box.compaction(f"c{number}")["phase"] for number in range(40))
    assert phases == {"Running": 10, "Queued": 30}


@runs
async def test_each_end_wakes_one_of_many() -> None:
    """What a slot costs does not depend on how many wait for it."""
    box = Sandbox(config=config(2))
    for number in range(40):
        box.kube.apply(ResourceKind.COMPACTION, raw(number))
    await box.start()
    looks = count_looks(box)
    for number in range(10):
        box.kube.end_job(job(number), ok=True)
        await box.run()
    assert box.kube.jobs() == [job(number) for number in range(12)]
    assert len(looks) == 10


def count_looks(box: Sandbox) -> list[Key]:
    looks, look = list[Key](), box.controller._turns.look

    def counted(compaction: Compaction, now: Any) -> Any:
        looks.append(compaction.key)
        return look(compaction, now)

    box.controller._turns.look = counted  # type: ignore[method-assign]
    return looks


@runs
async def test_the_calls_of_a_compaction_are_counted() -> None:
    """Without cleanups; the second one had to wait."""
    box = Sandbox(config=config(1))
    calls = list[str]()
    for name in ("replace_status", "create_job", "get_job", "list_pods", "list_cleanups", "create_event"):
        setattr(box.kube, name, counted(getattr(box.kube, name), calls))
    for number in (1, 2):
        box.kube.apply(ResourceKind.COMPACTION, raw(number))
    await box.start()
    for number in (1, 2):
        box.kube.end_job(job(number), ok=True)
        await box.run()
    twice = {"create_job": 1, "list_pods": 1, "list_cleanups": 1, "create_event": 2}
    assert Counter(calls) == {"replace_status": 7, **{name: 2 * each for name, each in twice.items()}}


def counted(function: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        calls.append(function.__name__)
        return function(*args)

    return call


@runs
async def test_a_job_without_news_costs_no_look() -> None:
    """Each Job changes several times before it ends, in fields that decide nothing."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, raw(1))
    await box.start()
    same = box.kube.get(ResourceKind.JOB, job(1))
    same["status"]["active"] = 1
    box.kube.apply(ResourceKind.JOB, same)
    assert box.controller.step() == 0
    same["status"]["ready"] = 0
    box.kube.apply(ResourceKind.JOB, same)
    assert box.controller.step() == 1
    await box.idle()


@runs
async def test_no_step_waits_for_an_event_to_be_posted() -> None:
    """Nor does an API server that refuses them stop any."""
    box = Sandbox()
    go_on, posted = threading.Event(), list[tuple[bool, str]]()

    def refuse(event: Raw) -> None:
        posted.append((go_on.wait(5), event["reason"]))
        raise RuntimeError("no events today")

    box.kube.create_event = refuse  # type: ignore[method-assign]
    threads = ThreadPoolExecutor(4)
    lake = WarehousePools(Inline(), Inline(), Inline(), Inline(), Inline())
    box.pools = Pools(threads, {"lake": lake}, lake)
    box.kube.apply(ResourceKind.COMPACTION, raw(1))
    await box.start()
    assert box.kube.jobs() == [job(1)]
    go_on.set()
    threads.shutdown()
    assert posted == [(True, "Started")]


@runs
async def test_many_new_compactions_do_not_delay_those_that_go_on() -> None:
    """Each of them has a status to write: a few at a time."""
    box = Sandbox(config=config(1))
    box.kube.apply(ResourceKind.COMPACTION, raw(0))
    await box.start()
    for number in range(1, 20):
        box.kube.apply(ResourceKind.COMPACTION, raw(number))
    assert box.controller.step() == CALM
    box.kube.end_job(job(0), ok=True)
    assert box.controller.step() == 1
    await box.idle()
    assert box.compaction("c0")["phase"] == "Succeeded"
    await box.run()
    assert box.kube.jobs()[1:] == [job(1)]


@runs
async def test_after_a_restart_the_oldest_goes_first() -> None:
    """Whatever the order in which the API server lists them; what waited before still waits."""
    box = Sandbox(config=config(1))
    for number in (3, 1, 2):
        box.kube.apply(ResourceKind.COMPACTION, raw(number))
    await box.start()
    await box.start()
    for number in (1, 2, 3):
        assert box.kube.jobs()[-1] == job(number)
        box.kube.end_job(job(number), ok=True)
        await box.run()


@runs
async def test_a_compaction_that_was_forgotten_is_found_within_half_a_minute() -> None:
    box = Sandbox(config=config(1))
    for number in (1, 2):
        box.kube.apply(ResourceKind.COMPACTION, raw(number))
    await box.start()
    box.controller._turns.forget(key(2))
    box.kube.end_job(job(1), ok=True)
    await box.run()
    assert job(2) not in box.kube.jobs()
    await box.pass_time(31)
    assert job(2) in box.kube.jobs()


class Running(Time):
    """A clock that does not stand still between two calls."""

    def clock(self) -> datetime:
        self.seconds += 1
        return self.now


@runs
async def test_a_pause_that_ends_in_the_middle_of_a_look_is_over() -> None:
    """Whether it backs off is asked twice, for its turn and for its decision."""
    for pause in range(1, 12):
        box = Sandbox(time=Running())
        due = rfc3339(NOON + timedelta(seconds=pause))
        box.kube.apply(ResourceKind.COMPACTION, {**raw(1), "status": {"nextAttemptTime": due}})
        await box.start()
        await box.pass_time(15)
        assert box.kube.jobs() == [job(1)]


@runs
async def test_what_was_refused_stands_in_no_line() -> None:
    """It ends in the same look in which it would have entered it."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, raw(1, warehouse="none"))
    await box.start()
    assert box.compaction("c1")["phase"] == "Failed"
    assert not len(box.controller._turns._slots)
    assert not box.controller._turns._offers


def running(number: int, **more: Any) -> Raw:
    """A newer version of a compaction, whose first attempt is recorded."""
    return {**newer(raw(number, **more)), "status": {"attempt": 1, "phase": "Running"}}


def newer(one: Raw) -> Raw:
    return {**one, "metadata": {**one["metadata"], "resourceVersion": "2"}}


@pytest.mark.parametrize("slow", [0.0, 9.0])
def test_no_slot_is_taken_while_its_attempt_is_recorded(slow: float) -> None:
    """The preflight is over, the write under way: also if it had lost its slot and got another."""
    queue = Queue(1, slots=1)
    queue.wake()
    first = queue.put(newer(raw(1)))
    assert queue.look(first)
    queue.turns.claim(first, ticks=0.0)
    queue.turns.give_way(slow)
    assert queue.turns.keep(first) is None
    queue.look(queue.put(raw(2)))
    queue.turns.give_way(100.0)
    assert queue.turns.next_due() is None
    assert queue.wake() == []


def test_an_attempt_whose_record_has_no_answer_keeps_table_and_slot() -> None:
    """The API server may have written it. Until another version is known, it may only try again, even if that fails."""
    queue = Queue(1, slots=1, table=0)
    queue.wake()
    first = queue.put(newer(raw(1, table=0)))
    queue.look(first)
    queue.turns.claim(first, ticks=0.0)
    assert queue.turns.keep(first) is None
    queue.turns.release(first, sure=False)
    queue.look(queue.put(raw(0, table=0)))
    queue.look(queue.put(raw(2)))
    assert queue.wake() == []
    assert "works on the same table" in (queue.turns.look(queue.put(newer(raw(0, table=0))), NOON).waits_for or "")
    assert queue.look(first)
    queue.turns.claim(first, ticks=0.0)
    queue.turns.release(first)
    assert queue.wake() == []
    queue.look(queue.put({**raw(1, table=0), "metadata": {**raw(1)["metadata"], "resourceVersion": "3"}}))
    assert queue.turns._claims == {}
    assert set(queue.wake()) == {key(0)}


def test_one_that_runs_already_is_offered_nothing() -> None:
    """The watch brought its attempt: the answer to the write was lost, and it had entered the line again."""
    queue = Queue(1, 2, slots=2)
    queue.put(running(1))
    assert queue.turns.wake(NOON) == [key(1)]
    assert queue.wake() == [key(2)]
    assert not queue.turns.is_offered(key(1))


@runs
async def test_an_attempt_whose_record_was_answered_too_late_leaks_no_slot() -> None:
    box = Sandbox(config=config(1))
    write = box.kube.replace_status

    def answered_late(kind: ResourceKind, raw: Any, status: Raw) -> Raw:
        box.kube.replace_status = write  # type: ignore[method-assign]
        box.kube.watchers.clear()
        write(kind, raw, status)
        raise KubeError("timed out")

    box.create()
    box.kube.apply(ResourceKind.COMPACTION, raw(1))
    box.kube.replace_status = answered_late  # type: ignore[method-assign]
    await box.run()
    box.kube.watchers.append(box.controller.on_event)
    box.kube.apply(ResourceKind.COMPACTION, raw(2))
    await box.run()
    assert box.kube.jobs() == []
    box.controller.on_event(ResourceKind.COMPACTION, "MODIFIED", box.kube.get(ResourceKind.COMPACTION, "c1"))
    await box.run()
    assert box.kube.jobs() == [job(1)]
    assert not box.controller._turns._offers
    box.kube.end_job(job(1), ok=True)
    await box.run()
    assert box.kube.jobs() == [job(1), job(2)]


@runs
async def test_one_that_was_offered_a_slot_and_runs_already_takes_no_second_one() -> None:
    """The watch brings its attempt between the offer and the look."""
    box = Sandbox(config=config(1))
    for number in (1, 2):
        box.kube.apply(ResourceKind.COMPACTION, raw(number))
    await box.start()
    turns = box.controller._turns
    turns._offers[key(2)] = turns._slots.lane(key(2))
    box.kube.apply(ResourceKind.COMPACTION, running(2))
    await box.run()
    assert not turns.is_offered(key(2))


def test_one_that_waits_for_other_preflights_says_so_if_they_take_long() -> None:
    """At once if they are slow, otherwise when it is looked at again: its turn may come in a moment."""
    queue = Queue(*range(PREFLIGHTS), slots=100)
    queue.wake()
    younger = queue.put(raw(8))
    looks = [queue.turns.look(younger, NOON).waits_for for _ in range(2)]
    assert looks == [None, "a preflight of warehouse lake to end"]
    for number in range(PREFLIGHTS):
        compaction = queue.put(newer(raw(number)))
        assert queue.look(compaction)
        queue.turns.claim(compaction, ticks=0.0)
    queue.turns.give_way(PATIENCE)
    assert queue.turns.look(queue.put(raw(9)), NOON).waits_for == "a preflight of warehouse lake to end"


def failed(number: int, *, due: float = 0.0, **more: Any) -> Raw:
    """A compaction whose last preflight failed, and whose pause ends at that second."""
    status = {
        "nextAttemptTime": rfc3339(NOON + timedelta(seconds=due)),
        "backOff": {"reason": Reason.METASTORE_UNAVAILABLE, "message": "no answer", "waits": 1},
    }
    return {**raw(number, **more), "status": status}


class Failing(Queue):
    """Preflights of these have failed; all others are still to come."""

    def __init__(self, *dues: float, slots: int) -> None:
        super().__init__(slots=slots)
        for number, due in enumerate(dues):
            self.look(self.put(failed(number, due=due)))

    def look(self, compaction: Compaction) -> bool:
        return self.turns.look(compaction, NOON + timedelta(hours=1)).has_come

    def wake(self) -> list[Key]:
        return [key for key in self.turns.wake(NOON + timedelta(hours=1)) if self.turns.is_offered(key)]


def test_those_whose_preflight_failed_leave_room_for_others() -> None:
    """However many they are and however old: one of them at a time, as long as others of the warehouse wait."""
    queue = Failing(*range(8), slots=9)
    for number in range(20, 30):
        queue.look(queue.put(raw(number)))
    assert queue.wake() == [key(0), key(20), key(21), key(22)]
    queue.turns.forget(key(20))
    queue.turns.forget(key(21))
    assert queue.wake() == [key(23), key(24)]


def test_those_whose_preflight_failed_have_all_room_if_no_other_waits() -> None:
    """The metastore is back: all of them may go on."""
    queue = Failing(*range(8), slots=9)
    assert queue.wake() == [key(0), key(1), key(2), key(3)]


def test_of_those_whose_preflight_failed_the_one_whose_pause_ended_first_is_next() -> None:
    """An old one that fails each time does not keep the others from their second try, nor do new ones that fail."""
    queue = Failing(30, 5, 20, 10, 40, slots=9)
    assert queue.wake() == [key(1), key(3), key(2), key(0)]


def test_no_slot_waits_longer_for_a_preflight_that_fails() -> None:
    """Only for one that was too slow, and did succeed."""
    queue = Failing(1, slots=1)
    compaction = queue.put(newer(failed(0, due=1)))
    queue.turns.claim(compaction, ticks=0.0)
    queue.turns.give_way(PATIENCE)
    queue.turns.release(compaction)
    queue.turns.claim(compaction, ticks=0.0)
    assert {claim.due for claim in queue.turns._claims.values()} == {PATIENCE}
    queue.turns.give_way(PATIENCE)
    queue.turns.release(compaction)
    answered = newer(raw(0))
    compaction = queue.put({**answered, "metadata": {**answered["metadata"], "resourceVersion": "3"}})
    queue.turns.claim(compaction, ticks=0.0)
    assert {claim.due for claim in queue.turns._claims.values()} == {2 * PATIENCE}


def attempt_ends(box: Sandbox, name: str) -> None:
    box.kube.end_job(name, DriverResult(reason=Reason.WAITING_FOR_LOCK, message="no lock"), ok=False)


@runs
async def test_old_compactions_that_never_get_their_lock_do_not_keep_a_young_one_waiting() -> None:
    """Their pauses end while the slots are taken, so there is always an older one in line."""
    box = Sandbox(config=config(1))
    for number in (*range(5), 50):
        box.kube.apply(ResourceKind.COMPACTION, raw(number))
    await box.start()
    for _ in range(6):
        await box.pass_time(140)
        if job(50) in box.kube.jobs():
            break
        attempt_ends(box, next(name for name in box.kube.jobs() if name in active(box)))
        await box.run()
    assert job(50) in box.kube.jobs()


def active(box: Sandbox) -> list[str]:
    found = box.kube.all(ResourceKind.JOB)
    return [one["metadata"]["name"] for one in found if "conditions" not in one["status"]]


@runs
async def test_no_event_shortens_the_pause_after_a_failed_preflight() -> None:
    """Else a compaction that any client changes, or whose own status comes back late, asks without a pause."""
    box = Sandbox()
    box.work.metastore_down = True
    box.kube.apply(ResourceKind.COMPACTION, raw(1))
    await box.start()
    for number in range(5):
        changed = box.kube.get(ResourceKind.COMPACTION, "c1")
        changed["metadata"]["annotations"] = {"touched": str(number)}
        box.kube.apply(ResourceKind.COMPACTION, changed)
        await box.run()
    assert box.work.count("preflight") == 1


@runs
async def test_one_whose_preflight_always_fails_does_not_hold_its_table() -> None:
    """Another one of the table may come from a warehouse whose storage answers."""
    box = Sandbox()
    answer = box.work.preflight

    def preflight(compaction: Compaction) -> Preflight:
        fails = compaction.meta.name == "c1"
        return Preflight(Reason.STORAGE_UNAVAILABLE, "no answer") if fails else answer(compaction)

    box.work.preflight = preflight  # type: ignore[method-assign]
    for number in (1, 2):
        box.kube.apply(ResourceKind.COMPACTION, raw(number, table=0))
    await box.start()
    assert box.kube.jobs() == [job(2)]


@runs
async def test_one_that_has_an_answer_again_counts_as_failed_no_more() -> None:
    """It waits for a slot in the line of those that did not fail."""
    held = Held(slots=1, hang=lambda one: one.meta.name == "c0")
    box = held.box
    box.kube.apply(ResourceKind.COMPACTION, failed(0))
    box.kube.apply(ResourceKind.COMPACTION, raw(1))
    await held.until(lambda: len(box.controller._turns._claims) == 1)
    box.time.seconds += PATIENCE
    await held.until(lambda: box.kube.jobs() == [job(1)])
    held.free.set()
    await held.until(lambda: box.compaction("c0").get("phase") == "Queued")
    assert "backOff" not in box.compaction("c0")
    await held.end()


@runs
async def test_the_pause_after_a_failed_preflight_grows() -> None:
    """Up to two minutes; a success ends that."""
    box = Sandbox()
    box.work.metastore_down = True
    box.kube.apply(ResourceKind.COMPACTION, raw(1))
    await box.start()
    tries = list[float]()
    for second in range(1, 500):
        known = box.work.count("preflight")
        await box.pass_time(1)
        tries += [second] * (box.work.count("preflight") - known)
    assert tries == [3, 9, 21, 45, 93, 189, 309, 429]
    box.work.metastore_down = False
    await box.pass_time(120)
    assert box.kube.jobs() == [job(1)]
    assert "backOff" not in box.compaction("c1")


def test_the_safety_net_looks_at_a_table_once() -> None:
    """However many wait for it."""
    queue = Queue(*range(50), slots=1, table=0)
    looks, find = list[Any](), queue.turns._occupants
    queue.turns._occupants = lambda *of: looks.append(of) or find(*of)  # type: ignore
    assert forgotten(queue.turns) == []
    assert len(looks) == 1


def test_a_look_costs_the_same_whatever_its_table_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Years of compactions that ended, and one for each of a thousand partitions that wait."""
    queue = Queue(*range(30), slots=1, table=0)
    for number in range(100, 130):
        queue.put({**raw(number, table=0), "status": {"attempt": 1, "completionTime": rfc3339(NOON)}})
    youngest = queue.put(raw(200, table=0))
    seen, runs = list[Key](), Compaction.attempt_running

    def counted(one: Compaction) -> Any:
        seen.append(one.key)
        return runs.__get__(one)

    monkeypatch.setattr(Compaction, "attempt_running", property(counted))
    queue.look(youngest)
    assert len(seen) <= 3


@runs
async def test_the_safety_net_lets_other_work_go_on_between_some_tables() -> None:
    box = Sandbox(config=config(1))
    for number in range(2 * SEARCHED + 2):  # one of them runs
        box.kube.apply(ResourceKind.COMPACTION, raw(number))
    await box.start()
    pauses, search = 0, box.controller._wake_doubtful()
    with contextlib.suppress(StopIteration):
        while True:
            search.send(None)
            pauses += 1
    assert pauses == 3


@runs
async def test_a_search_at_a_time() -> None:
    """However long one takes."""
    box = Sandbox()
    await box.start()
    box.time.seconds += SWEEP
    box.work.sweep = lambda *_, **__: None  # type: ignore[method-assign]
    assert box.controller.step() == 2
    box.time.seconds += SWEEP
    assert box.controller.step() == 0
    await box.idle()
    box.time.seconds += SWEEP
    assert box.controller.step() == 2
    await box.idle()


@runs
async def test_a_time_that_cannot_be_read_ends_no_controller() -> None:
    """It is in a status that any user with the right to write it can break; the attempt starts."""
    box = Sandbox(config=config(5))
    box.kube.apply(ResourceKind.COMPACTION, {**raw(1), "status": {"nextAttemptTime": "2026-01-01T11:59:60Z"}})
    box.kube.apply(ResourceKind.COMPACTION, raw(2, table=1))
    await box.start()
    assert box.kube.jobs() == [job(1)]


@runs
async def test_an_end_that_another_call_saw_first_is_still_news() -> None:
    """A cleanup asks for the Job too; its answer may come before the watch."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, raw(1))
    await box.start()
    box.kube.watchers.clear()
    box.kube.end_job(job(1), ok=True)
    box.controller._cluster._jobs.clear()
    await box.controller._cluster.job("default", job(1))
    box.controller.on_event(ResourceKind.JOB, "MODIFIED", box.kube.get(ResourceKind.JOB, job(1)))
    await box.run()
    assert box.compaction("c1")["phase"] == "Succeeded"


class Held:
    """A controller with real threads for the preflights of a warehouse; those of some tables hang until let go."""

    def __init__(self, *, slots: int, hang: Callable[[Compaction], bool]) -> None:
        self.box = Sandbox(config=config(slots, warehouses=(*CONFIG.warehouses, SEA)))
        self.free = threading.Event()
        self.threads: dict[str, Executor] = {name: ThreadPoolExecutor(PREFLIGHTS) for name in ("lake", "sea")}
        pools = {
            name: WarehousePools(Inline(), threads, Inline(), Inline(), Inline())
            for name, threads in self.threads.items()
        }
        self.box.pools = Pools(Inline(), pools, pools["lake"])
        answer = self.box.work.preflight

        def preflight(compaction: Compaction) -> Preflight:
            if hang(compaction):
                self.free.wait(30)
            return answer(compaction)

        self.box.work.preflight = preflight  # type: ignore[method-assign]
        self.box.create()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Let the controller work until that is so."""
        async with asyncio.timeout(20):
            while not reached():
                self.box.controller.step()
                await asyncio.sleep(0.001)

    async def end(self) -> None:
        self.free.set()
        await self.box.idle()
        for threads in self.threads.values():
            threads.shutdown()


@runs
async def test_a_slow_preflight_does_not_delay_others() -> None:
    """Its slot goes to those that can start; it gets one as soon as there is another, however slow it is again."""
    held = Held(slots=1, hang=lambda one: one.meta.name == "c0")
    box = held.box
    for number in range(3):
        box.kube.apply(ResourceKind.COMPACTION, raw(number))
    await held.until(lambda: len(box.controller._turns._claims) == 1)
    assert box.kube.jobs() == []
    box.time.seconds += PATIENCE
    await held.until(lambda: box.kube.jobs() == [job(1)])
    held.free.set()
    await held.until(lambda: box.compaction("c0").get("phase") == "Queued")
    assert "maxConcurrentJobs" in condition(box.compaction("c0"))["message"]
    held.free.clear()
    box.kube.end_job(job(1), ok=True)
    await held.until(lambda: len(box.controller._turns._claims) == 1)
    box.time.seconds += 1.5 * PATIENCE
    box.controller.step()
    held.free.set()
    await held.until(lambda: box.kube.jobs()[1:] == [job(0)])
    await held.end()


@runs
async def test_a_metastore_that_hangs_does_not_take_the_slots_of_others() -> None:
    """However many of its compactions are older: they wait for its threads, not for slots."""
    held = Held(slots=2, hang=lambda one: one.spec.warehouse == "sea")
    box = held.box
    for number in range(20):
        box.kube.apply(ResourceKind.COMPACTION, raw(number, warehouse="sea"))
    box.kube.apply(ResourceKind.COMPACTION, raw(90))
    for _ in range(PREFLIGHTS):
        await held.until(lambda: box.controller.step() == 0)
        box.time.seconds += PATIENCE
    await held.until(lambda: box.kube.jobs() == [job(90)])
    await held.end()


@runs
async def test_those_that_wait_for_a_metastore_that_hangs_say_so() -> None:
    """Also one that waited for another compaction of its table before."""
    held = Held(slots=9, hang=lambda one: one.spec.warehouse == "sea" and one.meta.name != "c0")
    box = held.box
    for number in range(PREFLIGHTS + 3):
        box.kube.apply(ResourceKind.COMPACTION, raw(number, warehouse="sea"))
    box.kube.apply(ResourceKind.COMPACTION, raw(50, warehouse="sea", table=0))
    await held.until(lambda: box.kube.jobs() == [job(0)])
    await held.until(lambda: len(box.controller._turns._slots) == 2)
    assert "works on the same table" in condition(box.compaction("c50"))["message"]
    assert "phase" not in box.compaction("c6")
    box.kube.end_job(job(0), ok=True)
    await held.until(lambda: len(box.controller._turns._slots) == 3)
    box.time.seconds += PATIENCE
    for name in ("c5", "c6", "c50"):
        await held.until(lambda name=name: "preflight of warehouse sea" in said(box, name))  # type: ignore
    await held.end()


def said(box: Sandbox, name: str) -> str:
    found = box.compaction(name)
    return condition(found)["message"] if found else ""


@runs
async def test_a_slow_preflight_that_refuses_says_so_without_a_slot() -> None:
    held = Held(slots=1, hang=lambda one: one.meta.name == "c0")
    box = held.box
    for number in range(2):
        box.kube.apply(ResourceKind.COMPACTION, raw(number))
    await held.until(lambda: len(box.controller._turns._claims) == 1)
    box.time.seconds += PATIENCE
    await held.until(lambda: box.kube.jobs() == [job(1)])
    box.work.verdict = Preflight(Reason.TABLE_NOT_FOUND, "no such table")
    held.free.set()
    await held.until(lambda: box.compaction("c0").get("phase") == "Failed")
    await held.end()


@pytest.mark.parametrize("again", [False, True])
def test_one_that_is_deleted_while_its_attempt_is_recorded_starts_no_job(*, again: bool) -> None:
    """The deletion is known before the answer. Another one of that name, with another table, has had no preflight."""

    async def scenario() -> None:
        box = Sandbox()
        write, other = box.kube.replace_status, raw(1, table=7, suspend=True)

        def deleted_meanwhile(kind: ResourceKind, raw: Any, status: Raw) -> Raw:
            box.kube.replace_status = write  # type: ignore[method-assign]
            written = write(kind, raw, status)
            box.kube.delete(kind, "default", "c1")
            if again:
                box.kube.apply(kind, {**other, "metadata": {**other["metadata"], "uid": "second"}})
            return written

        box.kube.replace_status = deleted_meanwhile  # type: ignore[method-assign]
        box.kube.apply(ResourceKind.COMPACTION, raw(1))
        await box.start()
        await box.pass_time(5)
        assert box.kube.jobs() == []
        assert not box.controller._turns._claims

    asyncio.run(scenario())


@pytest.mark.parametrize("due", ["2030-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00"])
def test_a_pause_that_no_clock_can_have_meant_is_over_soon(due: str) -> None:
    """The clock was ahead when it was written."""

    async def scenario() -> None:
        box = Sandbox()
        box.kube.apply(ResourceKind.COMPACTION, {**raw(1), "status": {"nextAttemptTime": due}})
        await box.start()
        assert box.compaction("c1")["phase"] == "Waiting"
        await box.pass_time(11)
        assert box.kube.jobs() == [job(1)]

    asyncio.run(scenario())
