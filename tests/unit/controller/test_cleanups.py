"""Every transition of a CompactionCleanup, decided from its status and from what was seen."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from compaction_operator.api.cleanup import (
    Blocker,
    BlockerHealth,
    BlockerKind,
    CompactionCleanupStatus,
    PartitionStatus,
    PublishedState,
)
from compaction_operator.api.conditions import find_condition
from compaction_operator.api.config import CleanupSettings
from compaction_operator.cleanup.deletion import PartitionDeletion
from compaction_operator.cleanup.identity import Change
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.cleanup.decide import CHUNK, CleanupDecision, decide
from compaction_operator.controller.cleanup.observation import CleanupAction, CleanupObservation
from compaction_operator.controller.cleanup.partitions import Pass
from compaction_operator.controller.cleanup.reader_watch import Look
from compaction_operator.controller.kube.job import JobState, JobView
from tests.unit.controller.sandbox import DELTAS, NOON, baseline, cleanup, entry_json, settlement

PUBLISHED, MISSING, NOTHING = PublishedState.PUBLISHED, PublishedState.NOT_PUBLISHED, PublishedState.NOTHING_TO_PUBLISH


def view(state: JobState) -> JobView:
    return JobView(namespace="default", name="job-1", resource_version=1, compaction="nightly", state=state)


def blocker(id_: int = 12, *, heartbeat: str | None = None) -> Blocker:
    return Blocker(kind=BlockerKind.LOCK, id=id_, user="alice", host="desk", last_heartbeat=heartbeat)


def step(
    status: CompactionCleanupStatus | None = None,
    observed: CleanupObservation | None = None,
    *,
    now: datetime = NOON,
    suspended: bool = False,
    **fields: Any,
) -> CleanupDecision:
    one = cleanup(status=status.to_json() if status else {}, **fields)
    return decide(one, observed or CleanupObservation(), settings=CleanupSettings(suspend=suspended), now=now)


def settled(**fields: Any) -> CompactionCleanupStatus:
    """The status after the baseline: one partition published, lock 12 from before."""
    return step(None, CleanupObservation(settled=settlement({"": PUBLISHED}, baseline(12))), **fields).status


def readers_gone(**fields: Any) -> CompactionCleanupStatus:
    """The status when deletion begins."""
    return step(settled(**fields), CleanupObservation(look=Look()), **fields).status


def summary(decision: CleanupDecision) -> tuple[str, str, str]:
    condition = find_condition(decision.status.conditions, "Succeeded")
    assert condition is not None
    return condition.status.value, condition.reason, decision.status.phase.value


def outcome(status: CompactionCleanupStatus, type_: str) -> str | None:
    condition = find_condition(status.conditions, type_)
    return condition.status.value if condition else None


def test_pending_while_the_job_runs() -> None:
    """The driver may still publish: nothing is fenced, listed or asked."""
    decision = step(None, CleanupObservation(job=view(JobState.ACTIVE), at_work=True))
    assert summary(decision) == ("Unknown", "JobRunning", "Pending")
    assert (decision.action, decision.requeue_after) == (CleanupAction.NONE, 30.0)


def test_a_driver_that_is_lost_is_settled_though_its_job_runs() -> None:
    """It may have published half of a pair, which readers see: it is settled, and once said why."""
    running = view(JobState.ACTIVE)
    waiting = step(None, CleanupObservation(job=running, at_work=True))
    assert (waiting.action, waiting.requeue_after, waiting.events) == (CleanupAction.NONE, 30.0, ())
    lost = step(waiting.status, CleanupObservation(job=running, lost="lock 8 is silent"))
    assert (lost.action, [event.reason for event in lost.events]) == (CleanupAction.SETTLE, ["DriverLost"])
    assert "is running, but lock 8 is silent" in lost.events[0].message
    failed = step(lost.status, CleanupObservation(job=running, settled=Trouble("UndecidedError", "half")))
    again = step(failed.status, CleanupObservation(job=running, lost="lock 8 is silent"))
    assert (again.action, again.events) == (CleanupAction.SETTLE, ())
    done = step(again.status, CleanupObservation(job=running, settled=settlement({"": PUBLISHED}, baseline(12))))
    assert outcome(done.status, "Published") == "True"


def test_a_partition_that_cannot_be_reached_holds_up_the_others_for_a_minute_only() -> None:
    """Then nothing of it is deleted for this journal, and the next compaction of it records that again."""
    why = Change("StorageError", "/t/a is a symbolic link")
    found = settlement({"": PublishedState.NOT_PUBLISHED}, baseline(12), unreachable={"": why})
    waiting = step(None, CleanupObservation(settled=found, failures=5))
    assert (waiting.status.baseline, waiting.failed) == (None, True)
    done = step(None, CleanupObservation(settled=found, failures=6))
    assert done.status.baseline is not None
    assert [(part.reason, part.message) for part in done.status.partitions] == [(why.reason, why.message)]


@pytest.mark.parametrize("job", [None, view(JobState.SUCCEEDED), view(JobState.FAILED)])
def test_settled_once_the_job_has_ended_or_is_gone(job: JobView | None) -> None:
    assert step(None, CleanupObservation(job=job)).action is CleanupAction.SETTLE


@pytest.mark.parametrize(("failures", "pause"), [(0, 1), (1, 2), (3, 8), (9, 15)])
def test_an_error_while_settling_stores_nothing(failures: int, pause: int) -> None:
    """The reason is shown and it is tried again, for ever, a little later each time."""
    decision = step(None, CleanupObservation(settled=Trouble("MetastoreUnavailable", "refused"), failures=failures))
    assert summary(decision) == ("Unknown", "MetastoreUnavailable", "Pending")
    assert decision.status.baseline is None
    assert (decision.requeue_after, decision.failed) == (pause, True)


def test_states_and_baseline_are_stored_together() -> None:
    decision = step(None, CleanupObservation(settled=settlement({"": PUBLISHED}, baseline(12))))
    assert decision.status.baseline == baseline(12)
    assert decision.status.partitions == (PartitionStatus(partition="", state=PUBLISHED, remaining=DELTAS),)
    assert outcome(decision.status, "Published") == "True"
    assert decision.action is CleanupAction.WATCH
    assert [event.reason for event in decision.events] == ["BaselineTaken"]


def test_the_baseline_is_never_taken_again() -> None:
    """Whatever a later settling would find: it has happened once."""
    status = settled()
    again = step(status, CleanupObservation(settled=settlement({"": MISSING}, baseline(99))))
    assert again.status.baseline == baseline(12)
    assert again.status.partitions == status.partitions


def test_what_was_not_published_is_never_deleted() -> None:
    """A later attempt may make the same directories obsolete, with readers that this baseline does not have."""
    decision = step(None, CleanupObservation(settled=settlement({"": MISSING}, baseline())))
    assert summary(decision) == ("True", "NotPublished", "Succeeded")
    assert decision.action is CleanupAction.NONE
    assert outcome(decision.status, "Published") == "False"
    assert decision.status.partitions[0].remaining == DELTAS
    assert "not published" in (decision.status.partitions[0].message or "")


def test_published_partitions_go_on_without_the_others() -> None:
    entries = [entry_json("prt=p1"), entry_json("prt=p2")]
    states = {"prt=p1": MISSING, "prt=p2": PUBLISHED}
    status = step(None, CleanupObservation(settled=settlement(states, baseline())), entries=entries).status
    condition = find_condition(status.conditions, "Published")
    assert condition is not None
    assert condition.reason == "PartiallyPublished"
    decision = step(status, CleanupObservation(look=Look()), entries=entries)
    assert [entry.partition for entry in decision.partitions] == ["prt=p2"]


def test_not_asked_yet_is_not_gone() -> None:
    decision = step(settled())
    assert summary(decision) == ("Unknown", "NotAskedYet", "WaitingForReaders")
    assert outcome(decision.status, "ReadersGone") == "Unknown"
    assert decision.action is CleanupAction.WATCH


def test_readers_are_waited_for_by_name() -> None:
    found = tuple(blocker(id_) for id_ in range(12, 42))
    decision = step(settled(), CleanupObservation(look=Look(found)))
    assert summary(decision) == ("Unknown", "ReadersFromBefore", "WaitingForReaders")
    assert outcome(decision.status, "ReadersGone") == "False"
    assert decision.status.conditions[-1].message == "waiting for lock 12 of alice@desk and 29 more"
    assert (len(decision.status.blockers), decision.status.blocker_count) == (20, 30)
    assert [event.reason for event in decision.events] == ["WaitingForReaders"]


def test_who_was_waited_for_stays_named() -> None:
    """Each reader once, also after all are gone: receipts tell of them."""
    status = step(settled(), CleanupObservation(look=Look((blocker(12), blocker(13))))).status
    leaked = blocker(13).model_copy(update={"health": BlockerHealth.LIKELY_LEAKED})
    status = step(status, CleanupObservation(look=Look((leaked, blocker(14))))).status
    status = step(status, CleanupObservation(look=Look())).status
    assert ([one.id for one in status.waited_for], status.blockers) == ([12, 13, 14], ())


def test_heartbeats_are_no_news() -> None:
    """Else each tick would write each status."""
    status = step(settled(), CleanupObservation(look=Look((blocker(),)))).status
    later = step(
        status,
        CleanupObservation(look=Look((blocker(heartbeat="2026-01-01T12:00:00Z"),))),
        now=NOON + timedelta(hours=1),
    )
    assert later.status == status
    assert later.events == ()


def test_an_error_is_never_no_readers() -> None:
    decision = step(settled(), CleanupObservation(look=Look(error="refused")))
    assert outcome(decision.status, "ReadersGone") == "Unknown"
    assert decision.action is CleanupAction.WATCH


def test_the_blockers_stay_named_while_the_metastore_is_down() -> None:
    status = step(settled(), CleanupObservation(look=Look((blocker(),)))).status
    assert step(status, CleanupObservation(look=Look(error="refused"))).status.blocker_count == 1


def test_after_a_restart_the_readers_are_asked_for_again() -> None:
    """Who was named stays named until the first look."""
    status = step(settled(), CleanupObservation(look=Look((blocker(),)))).status
    decision = step(status)
    assert (decision.status, decision.action) == (status, CleanupAction.WATCH)


def test_readers_gone_is_remembered() -> None:
    """No later reader is added: after a restart during the deletion, the cleanup continues at once."""
    status = readers_gone()
    assert outcome(status, "ReadersGone") == "True"
    assert (status.blockers, status.blocker_count) == ((), 0)
    assert step(status).action is CleanupAction.DELETE


@pytest.mark.parametrize(
    ("passed", "action"), [(0.0, CleanupAction.NONE), (29.9, CleanupAction.NONE), (30.0, CleanupAction.DELETE)]
)
def test_grace_period_counts_from_the_baseline(passed: float, action: CleanupAction) -> None:
    status = settled(gracePeriod="30s")
    now = NOON + timedelta(seconds=passed)
    decision = step(status, CleanupObservation(look=Look()), gracePeriod="30s", now=now)
    assert decision.action is action
    if action is CleanupAction.NONE:
        assert decision.status.phase == "GracePeriod"
        assert decision.requeue_after == pytest.approx(30.0 - passed)


@pytest.mark.parametrize(
    "observed", [CleanupObservation(), CleanupObservation(look=Look()), CleanupObservation(look=Look((blocker(),)))]
)
@pytest.mark.parametrize("where", [{"suspend": True}, {"suspended": True}])
def test_suspended(observed: CleanupObservation, where: dict[str, Any]) -> None:
    for status in (settled(), readers_gone()):
        decision = step(status, observed, **where)
        assert summary(decision) == ("Unknown", "Suspended", "Suspended")
        assert decision.action is CleanupAction.NONE


def test_suspended_in_the_middle_of_a_deletion() -> None:
    """What is recorded so far is kept; the next chunk is not touched."""
    entries = [entry_json(f"prt=p{index}") for index in range(CHUNK + 5)]
    states = {entry["partition"]: PUBLISHED for entry in entries}
    status = step(None, CleanupObservation(settled=settlement(states, baseline())), entries=entries).status
    assert step(status, CleanupObservation(look=Look()), entries=entries, suspend=True).action is CleanupAction.NONE


def test_deletion_goes_chunk_by_chunk() -> None:
    """Each partition is visited once in a pass, and the progress is in the status between two chunks."""
    entries = [entry_json(f"prt=p{index}") for index in range(CHUNK + 5)]
    states = {entry["partition"]: PUBLISHED for entry in entries}
    status = step(None, CleanupObservation(settled=settlement(states, baseline())), entries=entries).status
    first = step(status, CleanupObservation(look=Look()), entries=entries)
    assert len(first.partitions) == CHUNK
    results = tuple(
        PartitionDeletion(entry.partition, deleted=DELTAS, bytes_deleted=30, final=True) for entry in first.partitions
    )
    going = Pass().after(first.partitions, results)
    second = step(first.status, CleanupObservation(deletion=going), entries=entries)
    assert [entry.partition for entry in second.partitions] == [f"prt=p{CHUNK + index}" for index in range(5)]
    assert (second.status.directories_deleted, second.status.bytes_deleted) == (3 * CHUNK, 30 * CHUNK)
    assert summary(second) == ("Unknown", "Deleting", "Deleting")


def delete(*results: PartitionDeletion, failures: int = 0, **fields: Any) -> CleanupDecision:
    """Decide after one chunk of deletion with these results."""
    going = Pass().after(cleanup(**fields).spec.partitions, results)
    return step(readers_gone(**fields), CleanupObservation(deletion=going, failures=failures), **fields)


def test_all_deleted() -> None:
    decision = delete(PartitionDeletion("", deleted=DELTAS, bytes_deleted=30, final=True))
    assert summary(decision) == ("True", "Deleted", "Succeeded")
    assert outcome(decision.status, "Deleted") == "True"
    assert decision.status.completion_time
    assert decision.status.conditions[-1].message == "deleted 3 paths (directories and original files), 30 bytes"
    assert [event.reason for event in decision.events] == ["Deleted"]


def test_what_others_had_deleted_does_not_count() -> None:
    """Where two cleanups of a table meet, the totals of both together are what was freed."""
    decision = delete(PartitionDeletion("", deleted=DELTAS[:1], gone=DELTAS[1:], bytes_deleted=10, final=True))
    (part,) = decision.status.partitions
    assert (part.deleted, part.gone, part.remaining) == (DELTAS[:1], DELTAS[1:], ())
    assert (decision.status.directories_deleted, decision.status.bytes_deleted) == (1, 10)
    said = "deleted 1 path (directories and original files), 10 bytes; 2 were already gone"
    assert decision.status.conditions[-1].message == said


def test_where_others_had_deleted_all_there_was_nothing_to_delete() -> None:
    decision = delete(PartitionDeletion("", gone=DELTAS, final=True))
    assert summary(decision) == ("True", "NothingToDelete", "Succeeded")
    assert decision.status.directories_deleted == 0
    assert decision.status.conditions[-1].message == "none of the recorded names is left; 3 were already gone"


def test_what_it_has_deleted_itself_is_not_gone_already_in_the_next_pass() -> None:
    left = delete(PartitionDeletion("", deleted=DELTAS[:1], remaining={DELTAS[2]: "came back"}, gone=DELTAS[1:2]))
    rest = PartitionDeletion("", deleted=DELTAS[2:], gone=DELTAS[:2], final=True)
    done = step(left.status, CleanupObservation(deletion=Pass().after(cleanup().spec.partitions, (rest,))))
    (part,) = done.status.partitions
    assert (part.deleted, part.gone) == ((DELTAS[0], DELTAS[2]), DELTAS[1:2])
    assert done.status.directories_deleted == 2


@pytest.mark.parametrize(("failures", "pause"), [(0, 5), (1, 10), (3, 40), (20, 600)])
def test_readers_are_rarely_held_off(failures: int, pause: int) -> None:
    """Each try lets new readers wait for a moment."""
    busy = PartitionDeletion("", reason="ReadersBusy", skipped="lock 7 of ann@desk")
    decision = delete(busy, failures=failures)
    assert summary(decision) == ("Unknown", "ReadersBusy", "Deleting")
    assert (decision.requeue_after, decision.failed) == (pause, True)


@pytest.mark.parametrize(("failures", "insist"), [(7, False), (8, True)])
def test_readers_never_hold_up_a_deletion_for_ever(failures: int, insist: bool) -> None:
    decision = step(readers_gone(), CleanupObservation(failures=failures))
    assert (decision.action, decision.insist) == (CleanupAction.DELETE, insist)


def test_what_was_not_obsolete_at_the_baseline_is_kept_for_good() -> None:
    """Who reads it until it is was never asked for: a later compaction records it again, with its own readers."""
    needed = {"": DELTAS[1:]}
    stored = step(
        None, CleanupObservation(settled=settlement({"": PublishedState.PUBLISHED}, baseline(), needed=needed))
    ).status
    (part,) = stored.partitions
    assert (part.kept, part.remaining) == (DELTAS[1:], DELTAS[:1])
    all_needed = settlement({"": PublishedState.PUBLISHED}, baseline(), needed={"": DELTAS})
    ended = step(None, CleanupObservation(settled=all_needed))
    assert summary(ended) == ("False", "StillNeeded", "Failed")


def test_what_a_pass_finds_in_use_is_kept_for_good() -> None:
    decision = delete(PartitionDeletion("", deleted=DELTAS[:1], needed=DELTAS[1:], bytes_deleted=10, final=True))
    assert summary(decision) == ("True", "Deleted", "Succeeded")
    assert decision.status.partitions[0].kept == DELTAS[1:]
    assert f"kept: table: {DELTAS[1]}, {DELTAS[2]}: not obsolete" in decision.status.conditions[-1].message


def test_deleted_by_half() -> None:
    """What is gone is recorded, what is left is tried again, for ever."""
    left = PartitionDeletion("", deleted=DELTAS[:2], remaining={DELTAS[2]: "readers still need it"}, bytes_deleted=20)
    decision = delete(left, failures=2)
    assert summary(decision) == ("Unknown", "NotDeletedYet", "Deleting")
    assert outcome(decision.status, "Deleted") == "False"
    assert decision.status.partitions[0].remaining == DELTAS[2:]
    assert decision.status.directories_deleted == 2
    assert (decision.requeue_after, decision.failed, decision.action) == (4.0, True, CleanupAction.NONE)
    rest = PartitionDeletion("", deleted=DELTAS, bytes_deleted=10, final=True)
    going = Pass().after(cleanup().spec.partitions, (rest,))
    done = step(decision.status, CleanupObservation(deletion=going))
    assert (done.status.directories_deleted, done.status.bytes_deleted) == (3, 30)


def test_storage_error_in_one_partition() -> None:
    decision = delete(PartitionDeletion("", skipped="/warehouse: permission denied"))
    assert summary(decision) == ("Unknown", "StorageError", "Deleting")
    assert decision.failed
    assert "permission denied" in decision.status.conditions[-1].message


def test_metastore_down_breaks_a_pass_off() -> None:
    """The partitions not visited yet are not tried against a metastore that is down."""
    going = Pass().after(cleanup().spec.partitions, Trouble("MetastoreUnavailable", "refused"))
    decision = step(readers_gone(), CleanupObservation(deletion=going))
    assert summary(decision) == ("Unknown", "MetastoreUnavailable", "Deleting")
    assert (decision.failed, decision.action) == (True, CleanupAction.NONE)


def test_table_dropped_or_created_again() -> None:
    """It ends without deleting anything."""
    dropped = PartitionDeletion("", reason="TableDropped", skipped="table sales.orders was dropped", final=True)
    decision = delete(dropped)
    assert [event.reason for event in decision.events] == ["DeletionRefused", "TableDropped"]
    assert summary(decision) == ("False", "TableDropped", "Failed")
    assert decision.status.conditions[-1].message == "nothing was deleted: table sales.orders was dropped"
    assert decision.status.directories_deleted == 0


def test_partition_dropped_among_others() -> None:
    entries = [entry_json("prt=p1"), entry_json("prt=p2")]
    states = {"prt=p1": PUBLISHED, "prt=p2": NOTHING}
    status = step(None, CleanupObservation(settled=settlement(states, baseline())), entries=entries).status
    status = step(status, CleanupObservation(look=Look()), entries=entries).status
    results = (
        PartitionDeletion("prt=p1", skipped="partition prt=p1 was dropped", final=True),
        PartitionDeletion("prt=p2", deleted=DELTAS, bytes_deleted=30, final=True),
    )
    going = Pass().after(cleanup(entries=entries).spec.partitions, results)
    decision = step(status, CleanupObservation(deletion=going), entries=entries)
    assert summary(decision) == ("True", "Deleted", "Succeeded")
    assert "kept: prt=p1: partition prt=p1 was dropped" in decision.status.conditions[-1].message


def test_nothing_recorded() -> None:
    """A journal whose compaction made nothing obsolete ends at once."""
    decision = step(
        None, CleanupObservation(settled=settlement({"": PUBLISHED}, baseline(12))), entries=[entry_json(obsolete=[])]
    )
    assert summary(decision) == ("True", "NothingToDelete", "Succeeded")


def test_an_ended_cleanup_is_never_touched_again() -> None:
    status = delete(PartitionDeletion("", deleted=DELTAS, final=True)).status
    for observed in (
        CleanupObservation(),
        CleanupObservation(settled=settlement({"": MISSING}, baseline())),
        CleanupObservation(look=Look((blocker(),))),
    ):
        decision = step(status, observed, suspend=True)
        assert (decision.status, decision.action, decision.events) == (status, CleanupAction.NONE, ())


def test_deciding_again_on_what_was_written_changes_nothing() -> None:
    """A crash after any write: the same observation gives the same status and the same action."""
    sights = [
        CleanupObservation(job=view(JobState.ACTIVE)),
        CleanupObservation(settled=Trouble("StorageError", "x")),
        CleanupObservation(look=Look((blocker(),))),
        CleanupObservation(look=Look()),
    ]
    status: CompactionCleanupStatus | None = None
    for observed in sights:
        if observed.look is not None:
            status = settled()
        written = step(status, observed)
        again = step(written.status, observed, now=NOON + timedelta(minutes=1))
        assert (again.status, again.action) == (written.status, written.action)
