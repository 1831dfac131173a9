"""No sequence of sights, times and restarts ever leads to a deletion before everything that must come before it."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_operator.api.cleanup import Blocker, BlockerKind, PublishedState
from compaction_operator.api.config import CleanupSettings
from compaction_operator.cleanup.deletion import PartitionDeletion
from compaction_operator.cleanup.settle import Settlement
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.cleanup.decide import CleanupDecision, decide
from compaction_operator.controller.cleanup.observation import CleanupAction, CleanupObservation
from compaction_operator.controller.cleanup.partitions import Pass
from compaction_operator.controller.cleanup.reader_watch import Look
from compaction_operator.controller.kube.job import JobState, JobView
from tests.unit.controller.sandbox import DELTAS, NOON, baseline, cleanup, entry_json, settlement

GRACE, QUARANTINE = 30.0, 60.0
ENTRIES = [entry_json("prt=p1"), entry_json("prt=p2", txnId=9, queueId=5)]
PARTITIONS = ("prt=p1", "prt=p2")
TROUBLE = Trouble("MetastoreUnavailable", "refused")
BLOCKER = Blocker(kind=BlockerKind.LOCK, id=12, user="alice", host="desk")


def job(state: JobState) -> JobView:
    return JobView(namespace="default", name="job-1", resource_version=1, compaction="nightly", state=state)


@dataclass
class Way:
    """A cleanup on its way, and what of that must come before a deletion has been seen so far."""

    options: dict[str, Any]
    status: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    readers_gone: bool = False
    baseline_at: float | None = None
    published: frozenset[str] = frozenset()
    quarantined_at: float | None = None

    def sees(self, observed: CleanupObservation, *, suspended: bool, approved: bool) -> CleanupDecision:
        """Decide on an observation, check the decision, and keep its status as the API server would."""
        if isinstance(observed.settled, Settlement):
            now_taken = baseline(12, time=NOON + timedelta(seconds=self.seconds))
            observed = replace(observed, settled=replace(observed.settled, baseline=now_taken))
        one = cleanup(entries=ENTRIES, status=self.status, suspend=suspended, approved=approved, **self.options)
        now = NOON + timedelta(seconds=self.seconds)
        self._note(one.settled, one.ended, observed)
        decision = decide(one, observed, settings=CleanupSettings(ttl=100.0), now=now)
        self._check(decision, suspended=suspended, approved=approved)
        self.status = decision.status.to_json()
        if decision.status.quarantined_until and self.quarantined_at is None:
            self.quarantined_at = self.seconds
        return decision

    def upgrade(self) -> None:
        """Forget what the version before this one did not write: the readers must be asked for again."""
        for name in ("driverLostTime", "readersGoneTime", "listedTime", "deletionStartTime"):
            self.status.pop(name, None)
        self.readers_gone = False

    def require_end(self) -> None:
        """Let all go well from now on."""
        observed = CleanupObservation()
        for _ in range(30):
            decision = self.sees(observed, suspended=False, approved=True)
            self.seconds += decision.requeue_after or 0.0
            observed = first(self, decision)
        assert "completionTime" in self.status

    def _note(self, settled: bool, ended: bool, observed: CleanupObservation) -> None:
        running = observed.at_work
        if not settled and not running and isinstance(observed.settled, Settlement):
            self.baseline_at = self.seconds
            states = observed.settled.states
            self.published = frozenset(name for name in PARTITIONS if states[name] is not PublishedState.NOT_PUBLISHED)
        if (
            settled
            and not ended
            and observed.look is not None
            and not observed.look.error
            and not observed.look.blockers
        ):
            self.readers_gone = True

    def _check(self, decision: CleanupDecision, *, suspended: bool, approved: bool) -> None:
        if decision.action not in (CleanupAction.DELETE, CleanupAction.PURGE):
            return
        assert self.options["mode"] != "Never"
        assert self.options["mode"] != "Plan" or approved
        assert not suspended
        assert self.readers_gone
        assert self.baseline_at is not None
        assert self.seconds - self.baseline_at >= GRACE
        assert {entry.partition for entry in decision.partitions} <= self.published
        if decision.action is CleanupAction.PURGE:
            assert self.quarantined_at is not None
            assert self.seconds - self.quarantined_at >= QUARANTINE
        else:
            assert self.quarantined_at is None


results = st.sampled_from(
    [
        PartitionDeletion("", deleted=DELTAS, final=True),
        PartitionDeletion("", deleted=DELTAS[:1], remaining=dict.fromkeys(DELTAS[1:], "not obsolete")),
        PartitionDeletion("", quarantined=DELTAS, final=True),
        PartitionDeletion("", quarantined=DELTAS, remaining=dict.fromkeys(DELTAS, "not obsolete")),
        PartitionDeletion("", deleted=DELTAS[:1], restored=DELTAS[1:], final=True),
        PartitionDeletion("", reason="TableDropped", skipped="dropped", final=True),
        PartitionDeletion("", reason="StorageError", skipped="no such volume"),
    ]
)


@st.composite
def passes(draw: st.DrawFn) -> Pass:
    """A pass over some of the partitions, with any results."""
    visited = draw(st.sets(st.sampled_from(PARTITIONS)))
    outcome = tuple(
        PartitionDeletion(**{**{name: getattr(result, name) for name in result.__slots__}, "partition": partition})
        for partition in visited
        for result in [draw(results)]
    )
    entries = [entry for entry in cleanup(entries=ENTRIES).spec.partitions if entry.partition in visited]
    return Pass().after(entries, outcome if draw(st.booleans()) else TROUBLE)


states = st.sampled_from(PublishedState)
sights = st.builds(
    CleanupObservation,
    job=st.sampled_from([None, job(JobState.ACTIVE), job(JobState.FAILED)]),
    at_work=st.booleans(),
    lost=st.sampled_from([None, "lock 8 is silent"]),
    settled=st.one_of(
        st.none(),
        st.just(TROUBLE),
        st.builds(lambda one, two: settlement({"prt=p1": one, "prt=p2": two}, baseline(12)), states, states),
    ),
    look=st.sampled_from([None, Look(), Look((BLOCKER,)), Look(error="refused")]),
    planned=st.sampled_from([None, TROUBLE, (), tuple(PartitionDeletion(name) for name in PARTITIONS)]),
    deletion=st.none() | passes(),
    finished=st.sampled_from([False, True, TROUBLE]),
    needed=st.booleans(),
    left=st.sampled_from([False, True, TROUBLE]),
)
steps = st.tuples(sights, st.integers(0, 60), st.booleans(), st.booleans())
options = st.fixed_dictionaries(
    {"mode": st.sampled_from(["Auto", "Plan", "Never"]), "gracePeriod": st.just(f"{GRACE:.0f}s")},
    optional={"quarantine": st.just(f"{QUARANTINE:.0f}s"), "deadline": st.just("45s")},
)


@settings(max_examples=200, deadline=None)
@given(options, st.lists(steps, min_size=5, max_size=20))
def test_nothing_is_deleted_before_its_time(
    chosen: dict[str, Any], seen: list[tuple[CleanupObservation, float, bool, bool]]
) -> None:
    """Whatever is seen in whatever order, with what was not stored forgotten at each step, as after a restart."""
    way = Way(chosen)
    for observed, pause, suspended, approved in seen:
        way.sees(observed, suspended=suspended, approved=approved)
        way.seconds += pause


@settings(max_examples=100, deadline=None)
@given(options, st.lists(st.tuples(steps, st.booleans()), max_size=15))
def test_a_status_of_the_version_before_is_judged_right(
    chosen: dict[str, Any], seen: list[tuple[tuple[CleanupObservation, float, bool, bool], bool]]
) -> None:
    """It has none of the fields that say what was seen: that is seen again, and nothing is deleted before its time."""
    way = Way(chosen)
    for (observed, pause, suspended, approved), older in seen:
        way.sees(observed, suspended=suspended, approved=approved)
        way.seconds += pause
        if older:
            way.upgrade()
    way.upgrade()
    way.require_end()


def first(way: Way, decision: CleanupDecision) -> CleanupObservation:
    """Return what follows from an action when all goes well."""
    names = [entry.partition for entry in decision.partitions]
    gone = tuple(PartitionDeletion(name, deleted=DELTAS, final=True) for name in names)
    hidden = tuple(PartitionDeletion(name, quarantined=DELTAS, final=True) for name in names)
    moved = hidden if "quarantine" in way.options and decision.action is CleanupAction.DELETE else gone
    return {
        CleanupAction.SETTLE: CleanupObservation(
            settled=settlement(dict.fromkeys(PARTITIONS, PublishedState.PUBLISHED), baseline(12))
        ),
        CleanupAction.WATCH: CleanupObservation(look=Look()),
        CleanupAction.PLAN: CleanupObservation(planned=()),
        CleanupAction.FINISH: CleanupObservation(finished=True),
        CleanupAction.DELETE: CleanupObservation(deletion=Pass().after(decision.partitions, moved)),
        CleanupAction.PURGE: CleanupObservation(deletion=Pass().after(decision.partitions, gone)),
    }.get(decision.action, CleanupObservation())


@settings(max_examples=100, deadline=None)
@given(options, st.lists(steps, max_size=15))
def test_it_ends_once_all_goes_well(
    chosen: dict[str, Any], seen: list[tuple[CleanupObservation, float, bool, bool]]
) -> None:
    """Nothing that was seen on the way keeps a cleanup from its end for good."""
    way = Way(chosen)
    for observed, pause, suspended, approved in seen:
        way.sees(observed, suspended=suspended, approved=approved)
        way.seconds += pause
    way.require_end()
