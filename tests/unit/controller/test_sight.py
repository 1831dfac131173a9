"""Which part of what was seen still counts."""

from compaction_operator.api.cleanup import PublishedState
from compaction_operator.cleanup.deletion import PartitionDeletion
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.cleanup.observation import CleanupObservation
from compaction_operator.controller.cleanup.partitions import Pass
from compaction_operator.controller.cleanup.reader_watch import Look
from compaction_operator.controller.kube.job import JobState, JobView
from tests.unit.controller.sandbox import DELTAS, baseline, cleanup, settlement

RUNS = JobView(namespace="default", name="job-1", resource_version=1, compaction="nightly", state=JobState.ACTIVE)
DONE = Pass().after(cleanup().spec.partitions, (PartitionDeletion("", deleted=DELTAS, bytes_deleted=30, final=True),))


def test_what_was_seen_before_the_baseline_says_nothing_of_those_who_are_in_it() -> None:
    before = CleanupObservation(look=Look(), planned=(), deletion=DONE, finished=True, left=True, failures=3)
    assert before.since_baseline() == CleanupObservation(left=True, failures=3)


def test_what_is_in_the_status_by_then_counts_once() -> None:
    """Of a pass that goes on, who was visited, and what was in the way, still do."""
    seen = CleanupObservation(settled=settlement({"": PublishedState.PUBLISHED}, baseline()), planned=(), deletion=DONE)
    after = seen.answered(left=False)
    assert (after.settled, after.planned) == (None, None)
    assert after.deletion == Pass(visited=frozenset({""}))


def test_an_answer_does_not_end_what_was_answered_before() -> None:
    """The queue's entries are ended before the locks are given back."""
    assert CleanupObservation(left=True).answered(finished=True).answered(left=False) == CleanupObservation(
        finished=True
    )
    trouble = Trouble("MetastoreUnavailable", "refused")
    assert CleanupObservation(finished=True, left=True).answered(left=trouble) == CleanupObservation(
        finished=True, left=trouble
    )
