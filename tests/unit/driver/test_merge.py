"""A bucket that is cut is written as if it had not been; and what one partition's failure does to the others."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from compaction_operator import orc
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.merge.execute import merge
from compaction_operator.driver.merge.row_counts import verify
from compaction_operator.driver.merge.runner import Done, LocalRunner, Outcome
from compaction_operator.driver.merge.tasks import SizedTask, StitchTask
from compaction_operator.orc import MergeForecast, MergeResult, stitch_parts
from compaction_operator.orc.file import read_tail
from tests.unit.driver.tables import MAJOR, MINOR, events, merged, prepared, results

TINY = 2048
"""The memory of a task that can read about one file of the fixtures."""


def counts(result: MergeResult) -> MergeResult:
    """What a result says of events; a cut may go through a stripe that is copied otherwise."""
    same = replace(result, output="", forecast=MergeForecast(), cpu_seconds=0)
    return replace(same, bytes_in=0, bytes_out=0, bytes_copied=0, copied={}, checksums=())


@pytest.mark.parametrize("kind", [MINOR, MAJOR])
@pytest.mark.parametrize("fixture", ["bucketed", "original", "merge", "aborted", "types"])
def test_a_bucket_that_is_cut_holds_what_it_would_without_a_cut(
    fixture: str, kind: CompactionType, tmp_path: Path
) -> None:
    whole, cut = prepared(tmp_path / "a", fixture, kind), prepared(tmp_path / "b", fixture, kind, task_memory=TINY)
    assert [len(bucket.parts) for bucket in whole.buckets] == [1] * len(whole.buckets)
    assert max(len(bucket.parts) for bucket in cut.buckets) > 1
    for one, other in zip(results(merged(whole)), results(merged(cut)), strict=True):
        assert events(one.output) == events(other.output)
        assert counts(one) == counts(other)
        stats = [read_tail(result.output).user_metadata["hive.acid.stats"] for result in (one, other)]
        assert stats[0] == stats[1]


@pytest.mark.parametrize("kind", [MINOR, MAJOR])
def test_what_was_cut_adds_up(kind: CompactionType, tmp_path: Path) -> None:
    verify(merged(prepared(tmp_path, "bucketed", kind, task_memory=TINY)))


class Forgetful:
    """Forgets the last outcome."""

    def run(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
        return LocalRunner().run(work, done)[:-1]


def test_a_missing_outcome_is_a_failure(tmp_path: Path) -> None:
    (failed,) = merge([prepared(tmp_path, "bucketed", MAJOR)], Forgetful())
    assert failed.error is not None
    assert failed.error.reason is Reason.VERIFICATION_FAILED
    assert "4 tasks gave 3 results" in str(failed.error)


def test_one_partitions_failure_is_its_own(tmp_path: Path) -> None:
    """The outcomes of the others are still theirs, cut or not."""
    before, broken, after = (
        prepared(tmp_path / name, "bucketed", MAJOR, task_memory=memory)
        for name, memory in (("1", TINY), ("2", 2**20), ("3", 2**20))
    )
    damaged = tmp_path / "2/table/delta_0000001_0000001_0000/bucket_00002"
    damaged.write_bytes(b"ORC")
    done = merge([before, broken, after], LocalRunner())
    assert [one.prepared for one in done] == [before, broken, after]
    assert "bucket_00002" in str(done[1].error)
    for sound in (done[0], done[2]):
        assert sound.error is None
        verify(sound)


def test_parts_that_cannot_be_put_together_are_a_failure(tmp_path: Path) -> None:
    """Two parts that hold the same keys are not one file."""

    class Twice(LocalRunner):
        def run(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
            outcomes = super().run(work, done)
            if len(outcomes) > 4:
                outcomes[1] = replace(outcomes[0], output=outcomes[1].output)
            return outcomes

    (failed,) = merge([prepared(tmp_path, "bucketed", MAJOR, task_memory=TINY)], Twice())
    assert "bucket_00000" in str(failed.error)


def test_a_range_of_keys_that_no_part_covers_is_missed(tmp_path: Path) -> None:
    """H18: each part is right by itself; together they have fewer rows than the inputs' footers tell of."""
    work = prepared(tmp_path, "bucketed", MAJOR, task_memory=TINY)
    bucket = next(bucket for bucket in work.buckets if len(bucket.parts) > 1)
    parts = [outcome.result for outcome in LocalRunner().run(bucket.parts, lambda _: None) if outcome.result]
    (outcome,) = LocalRunner().run([bucket.stitching(parts[1:])], lambda _: None)
    assert "were read" in (outcome.error or "")


def test_a_part_that_was_left_out_in_the_end_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H18: the results are whole, the file is not."""
    monkeypatch.setattr(orc, "stitch_parts", lambda parts, output, **_: stitch_parts(parts[1:], output))
    (failed,) = merge([prepared(tmp_path, "bucketed", MAJOR, task_memory=TINY)], LocalRunner())
    assert "bucket_00000" in str(failed.error)


def test_the_end_that_is_asked_for_while_parts_are_put_together_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of many gigabytes take minutes to copy, and Kubernetes waits for one."""

    class Told(LocalRunner):
        def run(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
            if any(isinstance(piece.task, StitchTask) for piece in work):
                monkeypatch.setattr(interruption._Asked, "yes", True)
            return super().run(work, done)

    with pytest.raises(JobError) as told:
        merge([prepared(tmp_path, "bucketed", MAJOR, task_memory=TINY)], Told())
    assert told.value.reason is Reason.INTERRUPTED
