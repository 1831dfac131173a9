"""Clocks: what the timeline's files say about those of its writers."""

import pytest

from compaction_operator.hudi.clocks import instant_seconds, writers_offset

NOON = instant_seconds("20261124120000000")


def changed(after: float) -> int:
    """Return a time of change in milliseconds, so many seconds after noon."""
    return round((NOON + after) * 1000)


def test_a_writer_in_another_time_zone_is_seen() -> None:
    requested = ("20261124120000000.deltacommit.requested", changed(-3600))
    assert writers_offset([requested, ("hoodie.properties", changed(0))]) == pytest.approx(3600)


def test_a_log_compaction_long_after_the_last_write_says_nothing() -> None:
    """Its instant follows the newest one by a millisecond, however late it is."""
    files = [
        ("20261124120000000.deltacommit.requested", changed(0.1)),
        ("20261124120000001.logcompaction.requested", changed(641)),
        ("20261124120000001.logcompaction.inflight", changed(642)),
    ]
    assert writers_offset(files) == pytest.approx(-0.1)


def test_a_writer_that_takes_its_instant_long_before_its_query_ends_is_not_behind() -> None:
    slow = ("20261124120000000.deltacommit.requested", changed(900))
    assert writers_offset([slow, ("20261124121000000.deltacommit.requested", changed(601))]) == pytest.approx(-1)
    assert writers_offset([slow, ("20261124120000000_20261124121501000.deltacommit", changed(901))]) == pytest.approx(0)


def test_files_from_before_a_correction_do_not_count() -> None:
    old = [(f"2026112310{minute:02}00000.deltacommit.requested", changed(-86400)) for minute in range(20)]
    new = [(f"2026112412{minute:02}00000.deltacommit.requested", changed(60 * minute)) for minute in range(10)]
    assert writers_offset([*old, *new]) == pytest.approx(0)


def test_a_timeline_without_writes_says_nothing() -> None:
    assert writers_offset([("history", changed(0))]) is None


def test_instants_may_lack_milliseconds() -> None:
    assert instant_seconds("20261124120001") == NOON + 1
