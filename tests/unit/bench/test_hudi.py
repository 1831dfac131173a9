"""The Hudi benchmark's arithmetic: what wrote which file, write amplification, targets, and the plot."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.arms import Arm, Outcome
from bench.hudi import drawn, judged
from bench.written import By, Commit, commits, log_file_sizes

LOAD, UPSERT, MERGED, FULL, FAILED = (f"2026010100000000{number}" for number in range(5))


def _file(location: Path, name: str, size: int = 0) -> None:
    path = location / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for name in (
        f"{LOAD}_{LOAD}.deltacommit",
        f"{UPSERT}.deltacommit.requested",
        f"{UPSERT}_{UPSERT}.deltacommit",
        f"{MERGED}.logcompaction.requested",
        f"{MERGED}_{MERGED}.deltacommit",
        f"{FULL}.compaction.requested",
        f"{FULL}_{FULL}.commit",
        f"{FAILED}.deltacommit.requested",
    ):
        _file(tmp_path, f".hoodie/timeline/{name}")
    _file(tmp_path, f"f1-0_0-1-2_{LOAD}.parquet", 1000)
    _file(tmp_path, f".f1-0_{UPSERT}.log.1_0-3-4", 10)
    _file(tmp_path, f".f2-0_{UPSERT}.log.1_0-3-4", 20)
    _file(tmp_path, f".f1-0_{MERGED}.log.1_0-5-6", 40)
    _file(tmp_path, f"f1-0_0-7-8_{FULL}.parquet", 500)
    _file(tmp_path, f".f1-0_{FAILED}.log.1_0-9-9", 5)
    return tmp_path


def test_each_file_counts_for_the_completed_instant_that_wrote_it(table: Path) -> None:
    assert commits(table) == [
        Commit(LOAD, By.LOAD, 1000),
        Commit(UPSERT, By.UPSERTS, 30),
        Commit(MERGED, By.LOG_COMPACTION, 40),
        Commit(FULL, By.COMPACTION, 500),
    ]
    assert sorted(log_file_sizes(table)) == [5, 10, 20, 40]


def test_write_amplification_is_all_that_was_written_for_each_byte_of_the_upserts(table: Path) -> None:
    outcome = Outcome(tuple(commits(table)), check=(1, 1), seconds=1.0)
    assert outcome.write_amplification == pytest.approx((30 + 40 + 500) / 30)
    assert outcome.cumulative() == [pytest.approx(19.0)]


def _outcome(arm: Arm, more: int, *, check: int = 7, compacted: int = 1) -> Outcome:
    by = By.COMPACTION if arm is Arm.FULL else By.LOG_COMPACTION
    by_upserts = [Commit(str(number), By.UPSERTS, 10) for number in range(2)]
    merges = [Commit("8", by, 0)] * compacted
    return Outcome((*by_upserts, *merges, Commit("9", By.COMPACTION, more)), check=(1, check), seconds=1.0)


@pytest.mark.parametrize(
    ("full", "own", "small", "check", "ok"),
    [
        pytest.param(180, 80, 40, 7, True, id="both-targets-met"),
        pytest.param(150, 80, 40, 7, False, id="less-than-3-times-less"),
        pytest.param(180, 50, 40, 7, False, id="less-than-20-percent-less"),
        pytest.param(180, 80, 40, 8, False, id="other-rows"),
    ],
)
def test_a_missed_target_and_other_rows_fail(full: int, own: int, small: int, check: int, ok: bool) -> None:
    outcomes = {arm: _outcome(arm, more) for arm, more in ((Arm.FULL, full), (Arm.OWN, own))}
    outcomes[Arm.SMALL] = _outcome(Arm.SMALL, small, check=check)
    result = judged("1.2.0", outcomes, compacted=1)
    assert result["ok"] is ok
    labels = [text.text or "" for text in ElementTree.fromstring(drawn("1.2.0", result)).iter() if "text" in text.tag]
    assert any(label.startswith(f"{(20 + full) / 20:.1f}") and Arm.FULL.value in label for label in labels)


@pytest.mark.parametrize("lazy", list(Arm))
def test_an_arm_that_does_not_compact_fails_however_little_it_writes(lazy: Arm) -> None:
    bytes_of = {Arm.FULL: 180, Arm.OWN: 80, Arm.SMALL: 40}
    outcomes = {arm: _outcome(arm, more, compacted=int(arm is not lazy)) for arm, more in bytes_of.items()}
    assert judged("1.2.0", outcomes, compacted=1)["ok"] is False
