"""The policy: the operator's own decisions, from a look to the resources that it creates, without a cluster."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from bench.policy.fleet import BY_DAY, BY_KEY, START, Fleet, Floats, Ints, time_of
from bench.policy.loop import Limits, Run, Start
from bench.policy.state import State
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.policy import CompactionPolicySpec
from compaction_operator.api.request import Reason
from compaction_operator.controller.kube.resources import Compaction, read_compaction, read_policy
from compaction_operator.controller.kube.times import rfc3339
from compaction_operator.controller.policies.decide import Plan, hours, plan
from compaction_operator.controller.policies.manifest import compaction_manifest
from compaction_operator.controller.policies.standing import Created, Known, past_of, table_of
from compaction_operator.policy.candidates import PRESSING
from compaction_operator.policy.choice import Hold, Past, Usage, Verdict, failures
from compaction_operator.policy.memory import Memory, PartitionState, TableState, remembered
from compaction_operator.policy.naming import compaction_name

WAITS = (Hold.WINDOW_CLOSED, Hold.MAX_CONCURRENT, Hold.UNFINISHED, Hold.BACKING_OFF, Hold.MIN_INTERVAL)
"""What may keep a table back that has waited for `maxDelay`. The budget may not."""
DATABASE = "lake"
KEY = {BY_DAY: "day", BY_KEY: "key"}


@dataclass
class Audit:
    """How long tables waited that could have started, and whether the budget or the policy's choice kept one too long.

    `longest` is the longest wait of a table that was due, in days. `late` counts the looks at which a table waited
    for longer than `maxDelay`, and neither slots nor its own last compaction kept it back. `pressed` and `forced` are
    the bytes of what started because it had waited so long, within the budget or whatever the budget.
    """

    spec: CompactionPolicySpec
    longest: float = 0.0
    late: int = 0
    forced: float = 0.0
    pressed: float = 0.0

    def look(self, verdicts: Sequence[Verdict], now: datetime) -> None:
        """Count the verdicts of one look."""
        for one in verdicts:
            waited = (now - one.due_since).total_seconds()
            if one.hold is None:
                self.longest = max(self.longest, waited / 86400)
                self.forced += one.candidate.bytes * (waited >= self.spec.max_delay)
                self.pressed += one.candidate.bytes * (waited >= PRESSING * self.spec.max_delay)
            elif waited > self.spec.max_delay and one.hold not in WAITS:
                self.late += 1


@dataclass(frozen=True)
class Recorded(Known):
    """What is known, with the bytes of what has started at hand: all tables are in one database."""

    record: deque[tuple[datetime, int]]

    @property
    def running(self) -> int:
        """How many compactions have not ended."""
        return len(self.unfinished)

    @property
    def rates(self) -> dict[CompactionType, float]:
        """Nothing: no simulated compaction says what it took."""
        return {}

    def used(self, since: datetime) -> int:
        """Return the bytes of what has started since a time."""
        while self.record and self.record[0][0] < since:
            self.record.popleft()
        return sum(size for _, size in self.record)

    def starts(self) -> Iterable[tuple[datetime, int]]:
        """Return what has started, with its bytes."""
        return self.record

    def of_databases(self, created: Collection[Created], since: datetime) -> dict[str, Usage]:
        """Return what the one database has."""
        return {DATABASE: Usage(self.running + len(created), self.used(since))}


class OurPolicy:
    """One CompactionPolicy with its memory and its TableCompactions."""

    def __init__(
        self, fleet: Fleet, state: State, limits: Limits, *, weights: Floats | None = None, **spec: Any
    ) -> None:
        self._fleet, self._state = fleet, state
        self._weights = np.ones(fleet.shape.tables) if weights is None else weights
        self.policy = read_policy(policy_raw(limits, **spec))
        names = [f"{DATABASE}.t{number:04d}" for number in range(fleet.shape.tables)]
        self._names = names
        self._number = {name: number for number, name in enumerate(names)}
        self.memory = Memory({name: self._table(name) for name in names}, matched=len(names))
        self._parts: defaultdict[int, dict[str, PartitionState]] = defaultdict(dict)
        self.compactions: dict[str, Compaction] = {}
        self._past: defaultdict[str, list[Past]] = defaultdict(list)
        self._unfinished: set[str] = set()
        self._record: deque[tuple[datetime, int]] = deque()
        self.audit = Audit(self.policy.spec)

    def _table(self, name: str) -> TableState:
        number = self._number[name]
        keys = KEY.get(int(self._fleet.tables.kind[number]))
        return TableState(name, "0", START, (keys,) if keys else (), weight=float(self._weights[number]))

    def _name(self, partition: int) -> str:
        table = self._fleet.partitions.table[partition]
        key = KEY.get(int(self._fleet.tables.kind[table]))
        return f"{key}={partition - self._fleet.first[table]:02d}" if key else ""

    def decide(self, tick: int, changed: Ints, ended: Iterable[Run]) -> list[Start]:
        """Look at what has changed, decide, and create and delete TableCompactions."""
        now = time_of(tick)
        for run in ended:
            self._end(run.start.name, failed=run.fails, now=now)
        self._look(changed, tick, now)
        known = self.known()
        when = hours(self.policy.spec, now)
        decision = plan(self.policy.spec, self.memory, known, created=(), when=when, now=now)
        self.memory = replace(self.memory, due_since=dict(decision.due_since))
        starts = [self._create(one, decision, now) for one in decision.starting]
        for old in decision.expired:
            self._forget(old)
        self.audit.look(decision.verdicts, now)
        return starts

    def known(self) -> Known:
        """Return what `known_of` makes of all TableCompactions. It is kept up to date: there are thousands."""
        mine = list(self.compactions.values())
        return Recorded(mine, self._past, frozenset(self._unfinished), self._record)

    def _forget(self, old: Past) -> None:
        del self.compactions[old.name]
        left = [one for one in self._past[old.table] if one.name != old.name]
        if left:
            self._past[old.table] = left
        else:
            del self._past[old.table]

    def _look(self, changed: Ints, tick: int, now: datetime) -> None:
        """Put the measures of the changed partitions into the memory, as a survey does."""
        by_table: defaultdict[int, dict[str, PartitionState | None]] = defaultdict(dict)
        for partition, measure in zip(changed.tolist(), self._state.measures(changed.tolist()), strict=True):
            name, table = self._name(partition), int(self._fleet.partitions.table[partition])
            earlier = self._parts[table].get(name)
            by_table[table][name] = remembered(name, 0, measure, earlier=earlier, now=now)
        for table, found in by_table.items():
            known = {**self._parts[table], **found}
            self._parts[table] = {name: one for name, one in known.items() if one is not None}
            old, parts = self.memory.tables[self._names[table]], tuple(self._parts[table].values())
            state = replace(old, version=str(tick), looked=now, partitions=parts)
            self.memory.tables[old.name] = state

    def _create(self, verdict: Verdict, decision: Plan, now: datetime) -> Start:
        found, number = verdict.candidate, self._number[verdict.candidate.table]
        earlier, uid = self._past.get(found.table, ()), self.policy.meta.uid
        previous = earlier[-1].name if earlier else None
        name = compaction_name(policy_uid=uid, table=found.table, type_=found.type, previous=previous)
        failed, cpu = failures(earlier, found.type), decision.standing.cpu_of(found)
        raw = compaction_manifest(self.policy, found, name=name, failures=failed, cpu=cpu)
        raw["metadata"].update(uid=name, resourceVersion="1", creationTimestamp=rfc3339(now))
        self.compactions[name] = read_compaction(raw)
        self._unfinished.add(found.table)
        self._record.append((now, found.bytes))
        first = self._fleet.first[number]
        parts = [int(part.spec.partition("=")[2] or 0) + first for part in found.parts]
        return Start(name, number, np.array(parts), found.type)

    def _end(self, name: str, *, failed: bool, now: datetime) -> None:
        raw = self.compactions[name].raw
        reason = "DriverFailed" if failed else Reason.COMPACTED.value
        met = {"type": "Succeeded", "status": "False" if failed else "True", "reason": reason}
        status = {"completionTime": rfc3339(now), "conditions": [{**met, "lastTransitionTime": rfc3339(now)}]}
        ended = self.compactions[name] = read_compaction({**raw, "status": status})
        self._past[table_of(ended)].append(past_of(ended))
        self._unfinished.discard(table_of(ended))


def policy_raw(limits: Limits, **spec: Any) -> dict[str, Any]:
    """Return a CompactionPolicy for all tables, within these limits."""
    metadata = {"name": "bench", "namespace": "bench", "uid": "bench", "resourceVersion": "1"}
    given = {"maxConcurrent": limits.slots, "bytesPerWindow": int(limits.bytes)}
    return {
        "metadata": {**metadata, "creationTimestamp": rfc3339(START)},
        "spec": {"warehouse": "lake", "tables": {"include": [f"{DATABASE}.*"]}, **given, **spec},
    }
