"""The tour (`make try`) runs as a newcomer runs it, and fails when the table is not what it says."""

from pathlib import Path

import pytest
from sandbox.demo import tour


def test_the_tour_plans_compacts_and_reads_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output shows both compactions and ends with what to try next. What an earlier tour left is gone."""
    (tmp_path / "bucketed" / "base_0000009").mkdir(parents=True)
    assert tour.main(tmp_path) == 0
    out = capsys.readouterr().out
    assert "base_0000009" not in out
    assert "▸ base_0000005 " in out
    assert "a reader opens 1 of " in out
    assert out.count("ok: 49 rows, as Hive's own reader sees them") == 3
    assert out.index("base_0000005") < out.index("make demo") < out.index("try: PASS")


def test_lost_rows_fail_the_tour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows are compared with those of Hive's reader, not with themselves."""
    hive = tour.rows_of_hive()
    monkeypatch.setattr(tour, "rows_of_hive", lambda: [*hive, "one row more"])
    assert tour.main(tmp_path) == 1
    assert "try: FAIL: 50 rows, as Hive's own reader sees them: expected" in capsys.readouterr().out


def test_a_failing_verb_ends_the_tour_with_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line carries the verb's standard error."""
    monkeypatch.setattr(tour, "WRITE_IDS", "ma.bucketed:5:rubbish::")
    assert tour.main(tmp_path) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("try: FAIL: compaction-operator: ")
    assert "rubbish" in last
