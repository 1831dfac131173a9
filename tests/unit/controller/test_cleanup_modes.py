"""What a cleanup's options make of its way: approval, leaving in place, the deadline, the quarantine, and its end."""

from datetime import timedelta
from typing import Any

import pytest

from compaction_operator.api.cleanup import (
    Blocker,
    BlockerHealth,
    BlockerKind,
    CompactionCleanupStatus,
    PublishedState,
)
from compaction_operator.api.conditions import Condition, find_condition
from compaction_operator.api.config import CleanupSettings
from compaction_operator.cleanup.deletion import PartitionDeletion
from compaction_operator.cleanup.identity import Change
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.cleanup.decide import CHUNK, CleanupDecision, decide
from compaction_operator.controller.cleanup.observation import CleanupAction, CleanupObservation
from compaction_operator.controller.cleanup.partitions import Pass
from compaction_operator.controller.cleanup.reader_watch import Look
from tests.unit.controller.sandbox import DELTAS, NOON, baseline, cleanup, entry_json, settlement

Fields = dict[str, Any]

HIVE4 = [entry_json(txnId=9, queueId=5)]
GONE = CleanupObservation(look=Look())


def step(
    status: CompactionCleanupStatus | None = None,
    observed: CleanupObservation | None = None,
    *,
    after: float = 0.0,
    **fields: Any,
) -> CleanupDecision:
    """Decide so many seconds after the baseline."""
    settings = CleanupSettings(suspend=fields.pop("suspended", False), ttl=fields.pop("ttl", 3600.0))
    one = cleanup(status=status.to_json() if status else {}, **fields)
    return decide(one, observed or CleanupObservation(), settings=settings, now=NOON + timedelta(seconds=after))


def settled(
    state: PublishedState = PublishedState.PUBLISHED, *, gone: Change | None = None, **fields: Any
) -> CleanupDecision:
    """Settle a journal of one partition."""
    changes = {"": gone} if gone else {}
    return step(None, CleanupObservation(settled=settlement({"": state}, baseline(12), gone=changes)), **fields)


def passed(result: PartitionDeletion, **fields: Any) -> CleanupObservation:
    return CleanupObservation(deletion=Pass().after(cleanup(**fields).spec.partitions, (result,)))


def condition(status: CompactionCleanupStatus, type_: str = "Succeeded") -> Condition:
    found = find_condition(status.conditions, type_)
    assert found is not None
    return found


def told(decision: CleanupDecision) -> list[str]:
    return [event.reason for event in decision.events]


# --- mode Plan

PLAN: Fields = {"mode": "Plan"}
APPROVED: Fields = {"mode": "Plan", "approved": True}
PLANNED = (PartitionDeletion("", remaining=dict.fromkeys(DELTAS[:2], "merged")),)


def test_plan_lists_before_it_asks() -> None:
    status = settled(**PLAN).status
    assert step(status, GONE, **PLAN).action is CleanupAction.PLAN
    decision = step(status, CleanupObservation(look=Look(), planned=PLANNED), **PLAN)
    assert decision.action is CleanupAction.NONE
    assert decision.status.phase == "WaitingForApproval"
    assert decision.status.partitions[0].planned == DELTAS[:2]
    assert condition(decision.status).reason == "WaitingForApproval"
    assert condition(decision.status, "Approved").status == "False"
    assert condition(decision.status, "Approved").message == (
        "2 paths (directories and original files) would be deleted; approve with: kubectl patch ccl nightly-1-0 "
        '-n default --type=merge -p \'{"spec":{"approved":true}}\''
    )
    assert told(decision) == ["ReadersGone", "WaitingForApproval"]


def test_plan_waits_as_it_is_until_it_is_approved() -> None:
    """The cleanup asks and lists once. It writes nothing until a user answers."""
    waiting = step(settled(**PLAN).status, CleanupObservation(look=Look(), planned=PLANNED), **PLAN).status
    later = step(waiting, after=86400, **PLAN)
    assert (later.status, later.action, later.requeue_after, told(later)) == (waiting, CleanupAction.NONE, None, [])
    approved = step(waiting, after=86400, **APPROVED)
    assert approved.action is CleanupAction.DELETE
    assert condition(approved.status, "Approved").status == "True"
    assert told(approved) == ["Approved", "Deleting"]


def test_a_plan_that_cannot_be_listed_is_listed_later() -> None:
    decision = step(
        settled(**PLAN).status,
        CleanupObservation(look=Look(), planned=Trouble("MetastoreUnavailable", "refused")),
        **PLAN,
    )
    assert (decision.action, decision.failed) == (CleanupAction.NONE, True)
    assert condition(decision.status).reason == "MetastoreUnavailable"
    assert step(decision.status, **PLAN).action is CleanupAction.PLAN


def test_approval_may_come_before_the_readers_are_gone() -> None:
    """It counts then, and the cleanup still waits for them."""
    decision = step(settled(**PLAN).status, **APPROVED)
    assert decision.action is CleanupAction.WATCH
    assert told(decision) == ["Approved"]
    assert step(decision.status, GONE, **APPROVED).action is CleanupAction.DELETE


def test_an_approval_that_was_taken_back_holds() -> None:
    """Also in the middle of the deletion."""
    deleting = step(settled(**APPROVED).status, GONE, **APPROVED).status
    again = step(deleting, **PLAN)
    assert again.action is CleanupAction.PLAN
    assert condition(again.status, "Approved").status == "False"


def test_a_table_that_was_dropped_meanwhile_needs_no_approval() -> None:
    gone = PartitionDeletion("", reason="TableDropped", skipped="table sales.orders was dropped", final=True)
    decision = step(settled(**PLAN).status, CleanupObservation(look=Look(), planned=(gone,)), **PLAN)
    assert condition(decision.status).reason == "TableDropped"
    assert decision.status.completion_time


# --- mode Never


@pytest.mark.parametrize(("entries", "words"), [(None, "left in place"), (HIVE4, "until Hive's own Cleaner")])
def test_never_ends_at_once_and_leaves_everything(entries: Any, words: str) -> None:
    """It waits for no reader, deletes nothing and leaves the queue entries open: Hive's Cleaner ends them."""
    decision = settled(mode="Never", entries=entries)
    assert (decision.action, decision.status.phase) == (CleanupAction.NONE, "Succeeded")
    assert (condition(decision.status).status, condition(decision.status).reason) == ("True", "LeftInPlace")
    assert words in condition(decision.status).message
    assert decision.status.partitions[0].remaining == DELTAS


def test_never_of_what_was_not_published() -> None:
    assert condition(settled(PublishedState.NOT_PUBLISHED, mode="Never").status).reason == "NotPublished"


# --- What became of the table before the baseline


def test_a_table_that_was_dropped_before_the_baseline_is_named() -> None:
    change = Change("PartitionDropped", "partition prt=p1 was dropped")
    decision = settled(PublishedState.NOT_PUBLISHED, gone=change)
    assert (condition(decision.status).status, condition(decision.status).reason) == ("False", "PartitionDropped")
    assert condition(decision.status).message == "nothing was deleted: partition prt=p1 was dropped"


# --- The deadline

LEAKED = Blocker(kind=BlockerKind.LOCK, id=12, user="alice", host="desk", health=BlockerHealth.LIKELY_LEAKED)
DEADLINE: Fields = {"deadline": "1h"}


def waiting(**fields: Any) -> CompactionCleanupStatus:
    return step(settled(**fields).status, CleanupObservation(look=Look((LEAKED,))), **fields).status


def test_the_deadline_is_reported_once_and_deletes_nothing() -> None:
    before = step(waiting(**DEADLINE), CleanupObservation(look=Look((LEAKED,))), after=3599, **DEADLINE)
    assert before.requeue_after == 1.0
    assert find_condition(before.status.conditions, "Overdue") is None
    late = step(before.status, CleanupObservation(look=Look((LEAKED,))), after=3600, **DEADLINE)
    assert (late.action, told(late)) == (CleanupAction.WATCH, ["Overdue"])
    assert late.events[0].type == "Warning"
    assert condition(late.status, "Overdue").status == "True"
    assert condition(late.status, "Overdue").message == (
        "not finished 3600s after 2026-01-01T12:00:00Z: lock 12 of alice@desk (likely leaked)"
    )
    later = step(late.status, CleanupObservation(look=Look((LEAKED,))), after=7200, **DEADLINE)
    assert (later.status, later.requeue_after, told(later)) == (late.status, None, [])


def test_the_deadline_counts_from_the_creation_before_there_is_a_baseline() -> None:
    late = step(None, CleanupObservation(settled=Trouble("MetastoreUnavailable", "refused")), after=3600, **DEADLINE)
    assert condition(late.status, "Overdue").message.endswith(": refused")


def test_what_was_overdue_and_ends_is_overdue_no_more() -> None:
    late = step(waiting(**DEADLINE), after=3600, **DEADLINE).status
    going = step(late, GONE, after=3601, **DEADLINE).status
    done = PartitionDeletion("", deleted=DELTAS, final=True)
    ended = step(going, passed(done), after=3602, **DEADLINE).status
    assert (condition(ended, "Overdue").status, condition(ended).status) == ("False", "True")


def test_without_a_deadline_nothing_is_overdue() -> None:
    late = step(waiting(), CleanupObservation(look=Look((LEAKED,))), after=10**9)
    assert find_condition(late.status.conditions, "Overdue") is None
    assert condition(late.status).message == "waiting for lock 12 of alice@desk (likely leaked)"


def test_a_blocker_whose_health_changes_is_news() -> None:
    alive = LEAKED.model_copy(update={"health": BlockerHealth.ALIVE})
    assert not Look((alive,)).same_as(Look((LEAKED,)))
    assert step(waiting(), CleanupObservation(look=Look((alive,)))).status.blockers == (alive,)


# --- The quarantine

QUARANTINE: Fields = {"quarantine": "24h"}
DAY = 86400.0
HIDDEN = PartitionDeletion("", quarantined=DELTAS, final=True)


def quarantined() -> CleanupDecision:
    status = step(settled(**QUARANTINE).status, GONE, **QUARANTINE).status
    return step(status, passed(HIDDEN, **QUARANTINE), **QUARANTINE)


@pytest.mark.parametrize(
    ("options", "after", "words"),
    [
        ({}, 0.0, "deleting 3 paths (directories and original files)"),
        (QUARANTINE, 0.0, "moving 3 paths (directories and original files) into the quarantine"),
        (QUARANTINE, DAY, "deleting 3 paths (directories and original files) from the quarantine"),
    ],
)
def test_an_event_says_what_is_about_to_happen(options: Fields, after: float, words: str) -> None:
    status = quarantined().status if after else settled(**options).status
    (event,) = (event for event in step(status, GONE, after=after, **options).events if event.reason == "Deleting")
    assert event.message == words


def test_what_is_obsolete_is_kept_for_a_while() -> None:
    decision = quarantined()
    assert (decision.status.phase, decision.action, decision.requeue_after) == ("Quarantined", CleanupAction.NONE, DAY)
    assert decision.status.quarantined_until == "2026-01-02T12:00:00Z"
    assert decision.status.partitions[0].quarantined == DELTAS
    assert (decision.status.directories_deleted, decision.status.completion_time) == (0, None)
    assert told(decision) == ["Quarantined"]


def test_and_deleted_from_there_afterwards() -> None:
    status = quarantined().status
    assert step(status, after=DAY - 1, **QUARANTINE).action is CleanupAction.NONE
    due = step(status, after=DAY, **QUARANTINE)
    assert (due.action, told(due)) == (CleanupAction.PURGE, ["Deleting"])
    gone = PartitionDeletion("", deleted=DELTAS, bytes_deleted=30, final=True)
    ended = step(due.status, passed(gone, **QUARANTINE), after=DAY, **QUARANTINE).status
    assert condition(ended).message == "deleted 3 paths (directories and original files), 30 bytes"
    assert ended.partitions[0].quarantined == ()


def test_a_suspension_holds_the_purge() -> None:
    assert step(quarantined().status, after=2 * DAY, suspend=True, **QUARANTINE).action is CleanupAction.NONE
    assert step(quarantined().status, after=2 * DAY, suspended=True, **QUARANTINE).action is CleanupAction.NONE


def test_what_a_user_moved_back_stays_and_is_reported() -> None:
    due = step(quarantined().status, after=DAY, **QUARANTINE).status
    back = PartitionDeletion("", deleted=DELTAS[:1], restored=DELTAS[1:], bytes_deleted=10, final=True)
    decision = step(due, passed(back, **QUARANTINE), after=DAY, **QUARANTINE)
    assert decision.status.partitions[0].reason == "Restored"
    assert condition(decision.status).message == (
        "deleted 1 path (directories and original files), 10 bytes; kept: table: "
        f"{DELTAS[1]}, {DELTAS[2]} moved back from the quarantine by a user"
    )
    assert told(decision) == ["DeletionRefused", "Deleted"]
    assert step(decision.status, after=10 * DAY, **QUARANTINE).action is CleanupAction.NONE


def test_what_cannot_be_purged_yet_is_tried_again() -> None:
    due = step(quarantined().status, after=DAY, **QUARANTINE).status
    held = PartitionDeletion("", quarantined=DELTAS, remaining={DELTAS[0]: "came back"})
    decision = step(due, passed(held, **QUARANTINE), after=DAY, **QUARANTINE)
    assert (decision.failed, condition(decision.status).reason) == (True, "NotDeletedYet")
    assert decision.status.partitions[0].remaining == ()
    assert step(decision.status, after=DAY + 1, **QUARANTINE).action is CleanupAction.PURGE


def test_the_deadline_does_not_count_the_time_in_quarantine() -> None:
    fields: Fields = {**QUARANTINE, **DEADLINE}
    late = step(waiting(**fields), after=3600, **fields).status
    moving = step(late, GONE, after=3600, **fields).status
    kept = step(moving, passed(HIDDEN, **fields), after=3600, **fields)
    assert condition(kept.status, "Overdue").status == "False"
    assert "Overdue" not in told(step(kept.status, after=7200, **fields))


# --- A status of the version before this one, which had conditions and no times


def older(status: CompactionCleanupStatus) -> CompactionCleanupStatus:
    new = ("driver_lost_time", "readers_gone_time", "listed_time", "deletion_start_time")
    return status.model_copy(update=dict.fromkeys(new))


def test_readers_are_asked_for_again_in_the_middle_of_a_deletion() -> None:
    """Its condition ReadersGone is True. No later reader is added, so the next look finds them gone."""
    status = older(step(settled().status, GONE).status)
    assert condition(status, "ReadersGone").status == "True"
    assert step(status).action is CleanupAction.WATCH
    assert step(status, CleanupObservation(look=Look((LEAKED,)))).action is CleanupAction.WATCH
    assert step(status, GONE).action is CleanupAction.DELETE


def test_what_would_be_deleted_is_listed_again() -> None:
    status = older(step(settled(**PLAN).status, CleanupObservation(look=Look(), planned=PLANNED), **PLAN).status)
    assert condition(status, "Approved").reason == "WaitingForApproval"
    assert step(status, GONE, **PLAN).action is CleanupAction.PLAN
    assert step(status, GONE, **APPROVED).action is CleanupAction.DELETE


def test_a_quarantine_lasts_as_long_as_it_was_to() -> None:
    status = older(quarantined().status)
    assert step(status, GONE, after=DAY - 1, **QUARANTINE).action is CleanupAction.NONE
    assert step(status, after=DAY, **QUARANTINE).action is CleanupAction.WATCH
    assert step(status, GONE, after=DAY, **QUARANTINE).action is CleanupAction.PURGE


# --- Refusals


def test_a_refused_deletion_is_reported_once_for_each_change() -> None:
    left = PartitionDeletion("", deleted=DELTAS[:2], remaining={DELTAS[2]: "it is in use"})
    first = step(step(settled().status, GONE).status, passed(left))
    assert told(first) == ["DeletionRefused"]
    again = step(first.status)
    assert (again.action, condition(again.status, "Deleted").reason) == (CleanupAction.DELETE, "NotDeletedYet")
    assert told(step(again.status, passed(left))) == []
    other = PartitionDeletion("", deleted=DELTAS[:2], remaining={DELTAS[2]: "came back"})
    assert told(step(again.status, passed(other))) == ["DeletionRefused"]


def test_each_pass_writes_its_status_first() -> None:
    """Else a suspension that the watch has not brought yet would be no conflict."""
    left = PartitionDeletion("", remaining={DELTAS[2]: "came back"})
    refused = step(step(settled().status, GONE).status, passed(left)).status
    again = step(refused)
    assert again.action is CleanupAction.DELETE
    assert again.status != refused


def test_each_chunk_writes_its_status_first() -> None:
    """Although nothing came of the one before it."""
    entries = [entry_json(f"prt={number}") for number in range(CHUNK + 1)]
    states = {entry["partition"]: PublishedState.PUBLISHED for entry in entries}
    stored = step(None, CleanupObservation(settled=settlement(states, baseline(12))), entries=entries).status
    first = step(stored, GONE, entries=entries)
    busy = tuple(PartitionDeletion(one.partition, reason="ReadersBusy", skipped="busy") for one in first.partitions)
    observed = CleanupObservation(look=Look(), deletion=Pass().after(first.partitions, busy))
    second = step(first.status, observed, entries=entries)
    assert (second.action, len(second.partitions)) == (CleanupAction.DELETE, 1)
    assert second.status != first.status


# --- The metastore's queue

DONE = PartitionDeletion("", deleted=DELTAS, bytes_deleted=30, final=True)


def test_on_hive_4_the_queues_entries_are_ended_before_the_cleanup_is() -> None:
    going = step(settled(entries=HIVE4).status, GONE, entries=HIVE4).status
    deleted = step(going, passed(DONE), entries=HIVE4)
    assert deleted.action is CleanupAction.FINISH
    assert condition(deleted.status, "Deleted").status == "True"
    assert deleted.status.completion_time is None
    ended = step(deleted.status, CleanupObservation(finished=True), entries=HIVE4)
    assert (condition(ended.status).reason, told(ended)) == ("Deleted", ["Deleted"])


def test_ending_the_queue_entries_is_retried_for_ever() -> None:
    going = step(settled(entries=HIVE4).status, GONE, entries=HIVE4).status
    deleted = step(going, passed(DONE), entries=HIVE4).status
    trouble = Trouble("MetastoreUnavailable", "refused")
    decision = step(deleted, CleanupObservation(finished=trouble, failures=100), entries=HIVE4)
    assert (decision.failed, decision.requeue_after, decision.status.completion_time) == (True, 15.0, None)
    assert condition(decision.status).reason == "MetastoreUnavailable"
    assert step(decision.status, entries=HIVE4).action is CleanupAction.FINISH


def test_what_was_not_published_has_no_entry_to_end() -> None:
    assert settled(PublishedState.NOT_PUBLISHED, entries=HIVE4).status.completion_time


# --- The end


def ended(**fields: Any) -> CompactionCleanupStatus:
    going = step(settled(**fields).status, GONE, **fields).status
    return step(going, passed(DONE), **fields).status


def test_an_ended_cleanup_goes_after_its_time() -> None:
    status = ended()
    assert step(status, after=3599).requeue_after == 1.0
    assert step(status, after=3600) == CleanupDecision(status, CleanupAction.DISCARD)


def test_what_its_compaction_still_counts_with_stays() -> None:
    """Its totals, and what was published already, are computed from all journals of its attempts."""
    decision = step(ended(), CleanupObservation(needed=True), after=10**6)
    assert decision.action is CleanupAction.NONE
    assert decision.requeue_after


STAYS = [
    PartitionDeletion("", reason="TableRecreated", skipped="the table was dropped and created again", final=True),
    PartitionDeletion("", deleted=DELTAS[:1], restored=DELTAS[1:], final=True),
]


@pytest.mark.parametrize("result", STAYS)
def test_what_failed_or_kept_something_stays(result: PartitionDeletion) -> None:
    status = step(step(settled().status, GONE).status, passed(result)).status
    assert status.completion_time
    assert step(status, after=10**9) == CleanupDecision(status)


def test_a_cleanup_that_has_not_ended_never_goes() -> None:
    assert step(waiting(), CleanupObservation(look=Look((LEAKED,))), after=10**9).action is CleanupAction.WATCH


def test_what_could_not_be_deleted_is_never_ended() -> None:
    left = PartitionDeletion("", remaining={DELTAS[2]: "not obsolete"})
    decision = step(step(settled().status, GONE).status, passed(left), after=10**9)
    assert (decision.status.completion_time, decision.action) == (None, CleanupAction.NONE)
