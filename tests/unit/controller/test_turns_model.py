"""Turns in a cluster where anything may happen in any order: the limits hold, and in the end all have had their turn.

The safety net is not used: nothing may depend on it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from compaction_operator.controller.compaction.turns import PATIENCE, Turns
from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.client import Raw
from compaction_operator.controller.kube.resources import Compaction, Key, read_compaction
from compaction_operator.controller.kube.times import rfc3339
from tests.unit.controller.sandbox import CONFIG, NOON, compaction_raw

PAUSE = 10
WHICH = st.integers(0, 99)


@dataclass
class Step:
    """A reconcile in progress: the resource as it began with, and whether it writes its attempt by now."""

    compaction: Compaction
    writes: bool = False


class Cluster(RuleBasedStateMachine):
    """The API server's objects, a controller that may lag behind them, and users who change them.

    `resting` are those whose reconcile comes again by itself: their preflight or write failed, or they back off.
    """

    @initialize(slots=st.integers(1, 3))
    def begin(self, slots: int) -> None:
        sea = CONFIG.warehouses[0].model_copy(update={"name": "sea"})
        self.config = CONFIG.model_copy(update={"max_concurrent_jobs": slots, "warehouses": (*CONFIG.warehouses, sea)})
        self.slots, self.created, self.version, self.seconds = slots, 0, 1, 0.0
        self.server: dict[Key, Raw] = {}
        self.start()

    def start(self) -> None:
        self.cache = Cache()
        self.turns = Turns(self.cache, self.config)
        self.busy: dict[Key, Step] = {}
        self.again, self.resting, self.unseen = set[Key](), set[Key](), set[Key]()
        for raw in self.server.values():
            self.cache.put_compaction(raw)
        self.ready = list(self.server)
        self.settle()

    @rule(age=st.integers(0, 20), table=st.integers(0, 2), warehouse=st.sampled_from(["lake", "sea"]))
    def create(self, age: int, table: int, warehouse: str) -> None:
        self.created += 1
        of = {"database": "sales", "name": f"t{table}"}
        created = NOON + timedelta(seconds=age)
        raw = compaction_raw(f"c{self.created}", created=created, table=of, warehouse=warehouse)
        self.see(self.store(raw))

    @rule(which=WHICH)
    def suspend_or_resume(self, which: int) -> None:
        for raw in self.one_of(list(self.server.values()), which):
            self.see(self.store({**raw, "spec": {**raw["spec"], "suspend": not raw["spec"].get("suspend", False)}}))

    @rule(which=WHICH)
    def delete(self, which: int) -> None:
        for key in self.one_of(list(self.server), which):
            gone = self.server.pop(key)
            self.unseen.discard(key)
            self.cache.drop_compaction(key, gone["metadata"]["uid"])
            self.look_at(key)

    @rule(seconds=st.sampled_from([1.0, PATIENCE, 5 * PATIENCE]))
    def wait(self, seconds: float) -> None:
        self.seconds += seconds
        self.settle()

    @rule(which=WHICH)
    def preflight_fails(self, which: int) -> None:
        for key in self.one_of([key for key, step in self.busy.items() if not step.writes], which):
            self.end_step(key, sure=True)

    @rule(which=WHICH)
    def preflight_succeeds(self, which: int) -> None:
        for key in self.one_of([key for key, step in self.busy.items() if not step.writes], which):
            step = self.busy[key]
            if self.turns.keep(step.compaction) is None:
                step.writes = True
                self.settle()
            else:
                self.resting.discard(key)
                self.end_step(key, sure=True, comes_again=False)

    @rule(which=WHICH, answered=st.booleans())
    def write_attempt(self, which: int, *, answered: bool) -> None:
        """The API server refuses a write of another version. Its answer may be lost; the watch brings it later."""
        for key in self.one_of([key for key, step in self.busy.items() if step.writes], which):
            step, raw = self.busy[key], self.server.get(key)
            fits = raw is not None and int(raw["metadata"]["resourceVersion"]) == step.compaction.meta.resource_version
            if raw is None or not fits:
                self.end_step(key, sure=False)
                continue
            written = self.store({**raw, "status": {"attempt": 1}})
            if answered:
                self.cache.put_compaction(written)
            else:
                self.unseen.add(key)
            self.end_step(key, sure=answered, comes_again=not answered)

    @rule(which=WHICH)
    def watch(self, which: int) -> None:
        for key in self.one_of(list(self.unseen), which):
            self.see(self.server[key])

    @rule(which=WHICH, ok=st.booleans())
    def attempt_ends(self, which: int, *, ok: bool) -> None:
        for key in self.one_of([key for key in self.cache.running if key not in self.busy], which):
            due = rfc3339(self.now + timedelta(seconds=PAUSE))
            end = {"completionTime": rfc3339(self.now)} if ok else {"nextAttemptTime": due}
            self.resting.add(key)
            self.see(self.store({**self.server[key], "status": {"attempt": 1, **end}}))

    @rule(which=WHICH)
    def rest_is_over(self, which: int) -> None:
        for key in self.one_of(list(self.resting), which):
            self.seconds += PAUSE
            self.resting.discard(key)
            self.look_at(key)

    @rule()
    def restart(self) -> None:
        self.start()

    @invariant()
    def no_more_run_than_there_are_slots(self) -> None:
        taken = {key for key, raw in self.server.items() if read_compaction(raw).attempt_running}
        taken |= {claim.key for claim in self.turns._claims.values() if claim.has_slot}
        assert len(taken | self.turns._offers.keys()) <= self.slots

    @invariant()
    def no_two_run_on_a_table(self) -> None:
        found = map(read_compaction, self.server.values())
        assert max(Counter(one.table for one in found if one.attempt_running).values(), default=0) <= 1

    def teardown(self) -> None:
        """Once everything answers, all that may have their turn."""
        for _ in range(3 * self.created + 3):  # also the steps for those that are deleted have to end
            for act in (self.watch, self.rest_is_over, self.preflight_succeeds, self.write, self.succeed):
                for _ in self.server:
                    act(which=0)
            self.wait(seconds=1.0)
        waiting = [one for one in map(read_compaction, self.server.values()) if not (one.ended or one.spec.suspend)]
        assert not waiting

    def write(self, which: int) -> None:
        self.write_attempt(which, answered=True)

    def succeed(self, which: int) -> None:
        self.attempt_ends(which, ok=True)

    @property
    def now(self) -> Any:
        return NOON + timedelta(seconds=self.seconds)

    def one_of(self, found: list[Any], which: int) -> list[Any]:
        """One of these, none if there are none."""
        return found[which % len(found) :][:1] if found else []

    def store(self, raw: Raw) -> Raw:
        self.version += 1
        stored: Raw = {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(self.version)}}
        self.server[read_compaction(stored).key] = stored
        return stored

    def see(self, raw: Raw) -> None:
        """The watch brings an object."""
        compaction = self.cache.put_compaction(raw)
        if compaction is not None:
            self.unseen.discard(compaction.key)
            self.look_at(compaction.key)

    def look_at(self, key: Key) -> None:
        self.ready.append(key)
        self.settle()

    def settle(self) -> None:
        """As the controller's loop does after each event."""
        self.turns.give_way(self.seconds)
        self.ready += self.turns.wake(self.now)
        while self.ready:
            self.reconcile(self.ready.pop(0))
            self.ready += self.turns.wake(self.now)

    def reconcile(self, key: Key) -> None:
        if key in self.busy:
            self.again.add(key)
            return
        compaction = self.cache.compactions.get(key)
        if compaction is None or compaction.ended or compaction.attempt_running:
            self.turns.forget(key)
        elif self.turns.look(compaction, self.now).has_come:
            self.turns.claim(compaction, ticks=self.seconds)
            self.busy[key] = Step(compaction)
        elif compaction.next_attempt is not None and compaction.next_attempt > self.now:
            self.resting.add(key)

    def end_step(self, key: Key, *, sure: bool, comes_again: bool = True) -> None:
        """The end of a reconcile, and of what was added to the queue meanwhile."""
        self.turns.release(self.busy.pop(key).compaction, sure=sure)
        if self.cache.compactions.get(key) is None:
            self.turns.forget(key)
        elif comes_again:
            self.resting.add(key)
        if key in self.again:
            self.again.discard(key)
            self.ready.append(key)
        self.settle()


def at_random(machine: Callable[[], RuleBasedStateMachine]) -> Any:
    case = machine.TestCase  # type: ignore[attr-defined]
    case.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
    return case


TestCluster = at_random(Cluster)
