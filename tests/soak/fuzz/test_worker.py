"""What must not be is noticed: the fuzzer itself is tried on cases that crash, hang, take too much or are wrong."""

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from compaction_operator.orc import MergeResult, MergeTask, OrcError
from compaction_operator.orc.merge import engine
from tests.soak.fuzz.cases import sound_case
from tests.soak.fuzz.examine import End, Verdict, examine
from tests.soak.fuzz.seeds import Seed, make_seeds
from tests.soak.fuzz.worker import MEMORY, Worker


def misbehave(case: str, folder: Path) -> Verdict:
    match case:
        case "crash":
            os.abort()
        case "hang":
            threading.Event().wait()
        case "memory":
            try:
                bytearray(2 * MEMORY)
            except MemoryError:
                return Verdict(End.FINDING, "too much memory")
    return Verdict(End.RIGHT)


def test_a_crash_a_hang_and_too_much_memory_are_findings_and_the_next_case_is_examined(tmp_path: Path):
    with Worker(tmp_path, misbehave, wall_seconds=20) as worker:
        crash, memory = worker.examine("crash"), worker.examine("memory")
        assert (crash.end, crash.text) == (End.FINDING, "crash\nthe process ends with -6")
        assert (memory.end, memory.text) == (End.FINDING, "too much memory")
    with Worker(tmp_path, misbehave, wall_seconds=1) as worker:
        assert worker.examine("hang").text == "hang\nhangs"
        assert worker.examine("nothing").end is End.RIGHT


@pytest.fixture
def seed(tmp_path: Path) -> Seed:
    """A file of rows."""
    return next(seed for seed in make_seeds(tmp_path, every=1000) if seed.name.endswith("nest.orc"))


def misled(raised: Exception) -> Callable[[MergeTask], MergeResult]:
    def merge(task: MergeTask) -> MergeResult:
        raise raised

    return merge


@pytest.mark.parametrize(
    "raised",
    [RecursionError("too deep"), ValueError("no"), OrcError("/another/file", "is damaged")],
    ids=["recursion", "not an OrcError", "of another file"],
)
def test_another_error_than_one_that_names_the_file_is_a_finding(
    seed: Seed, raised: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    case = sound_case(Random(1), seed)
    assert examine(case, tmp_path).end is End.RIGHT
    monkeypatch.setattr("tests.soak.fuzz.examine.merge_bucket", misled(raised))
    verdict = examine(case, tmp_path)
    assert verdict.end is End.FINDING
    assert str(raised) in verdict.text


def test_a_row_that_is_lost_is_a_finding(seed: Seed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also when the counts add up."""
    monkeypatch.setattr(engine, "hit_by", lambda rows, deletes: rows.row_id == 0)
    case = replace(sound_case(Random(1), seed), with_twin=True, copied=False)
    assert "events expected" in examine(case, tmp_path).text
