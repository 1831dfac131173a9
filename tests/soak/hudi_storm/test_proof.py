"""What a storm must have come to before it counts, and that what happened is seen as what it was."""

import threading
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from compaction_operator.api.hudi import HudiStatus
from compaction_operator.hudi.merging import PAYLOADS
from tests.soak.hudi_storm.compactor import Work, counted
from tests.soak.hudi_storm.killer import Killer, Moment, has_reached, moment_of
from tests.soak.hudi_storm.season import acting, what_lacks
from tests.soak.hudi_storm.table import KINDS, kind_of
from tests.soak.hudi_storm.timeline import STATES, Service, pending_services, services

KILLED = Counter[str](dict.fromkeys(Moment, 5))
DONE = Counter[str](dict.fromkeys(Work, 1))


def test_a_storm_of_all_that_there_is_lacks_nothing() -> None:
    assert what_lacks(KILLED.total(), killed=KILLED, done=DONE) == []


def test_too_few_kills_are_not_enough() -> None:
    assert what_lacks(21, killed=KILLED, done=DONE) == ["drivers killed (20 of 21)"]


@pytest.mark.parametrize("moment", Moment)
def test_a_storm_without_a_kill_at_one_of_the_moments_is_not_enough(moment: Moment) -> None:
    killed = Counter[str](dict.fromkeys(set(Moment) - {moment}, 20))
    assert what_lacks(20, killed=killed, done=DONE) == [f"drivers killed {moment}"]


@pytest.mark.parametrize("work", Work)
def test_a_storm_without_one_kind_of_work_is_not_enough(work: Work) -> None:
    done = Counter[str](dict.fromkeys(set(Work) - {work}, 9))
    assert what_lacks(20, killed=KILLED, done=done) == [work]


@pytest.mark.parametrize("version", KINDS)
def test_a_storm_has_a_table_of_each_kind_that_is_admitted(version: str) -> None:
    """docs/hudi.md, "Which record wins": each merge mode, by its default and by a payload class that is named."""
    serves = {6, 8} if version == "1.0.2" else {9}
    assert {(kind.mode.value, kind.version) for kind in KINDS[version]} == set(product(PAYLOADS, serves))
    assert {kind.by_name for kind in KINDS["1.2.0"]} == {False, True}
    assert all(kind_of(Path(kind.name)) == kind for kind in KINDS[version])


def test_a_storm_without_a_log_compaction_of_one_of_the_tables_is_not_enough() -> None:
    lacks = what_lacks(20, killed=KILLED, done=DONE, unmerged=[Path("tables/event_time_8")])
    assert lacks == ["log compactions of event_time_8"]


def _own(*states: str) -> list[Service]:
    return [Service(f"2026010100000000{number}", "compaction", state) for number, state in enumerate(states)]


@pytest.mark.parametrize(
    ("states", "moment"),
    [
        ([], Moment.BEFORE),
        (["requested"], Moment.PLANNED),
        (["inflight"], Moment.EXECUTING),
        (["completed"], Moment.COMMITTED),
        (["completed", "inflight"], Moment.EXECUTING),
    ],
)
def test_the_moment_follows_from_what_the_driver_itself_has_begun(states: list[str], moment: Moment) -> None:
    assert moment_of(_own(*states)) is moment


def test_a_moment_that_went_by_unseen_is_reached() -> None:
    """Otherwise the killer would wait for a driver that is past it."""
    assert [has_reached(Moment.EXECUTING, _own(state)) for state in STATES] == [False, True, True]
    assert not any(has_reached(moment, []) for moment in Moment)


def test_log_compactions_of_the_metadata_table_are_none_of_the_table() -> None:
    status = HudiStatus(instant="1", action="logcompaction", state="Completed")
    assert +counted(status, of_metadata_table=True) == {Work.METADATA: 1}
    assert +counted(status, of_metadata_table=False) == {Work.LOG_COMPACTION: 1}


def test_what_was_only_planned_or_found_nothing_does_not_count() -> None:
    status = HudiStatus(instant="1", action="compaction", state="Requested", cleaned="nothing to clean")
    assert not +counted(status, of_metadata_table=False)


def test_cleans_and_rollbacks_count() -> None:
    status = HudiStatus(cleaned="3: 4 files", rolled_back=("1", "2"))
    assert +counted(status, of_metadata_table=False) == {Work.CLEAN: 1, Work.ROLLBACK: 2}


def test_a_killer_that_fails_ends_the_storm() -> None:
    """Otherwise the storm would wait for kills until its time is over."""

    class Failing(Killer):
        def run(self, _calm: threading.Event) -> None:
            raise FileNotFoundError("a timeline")

    with pytest.raises(FileNotFoundError, match="a timeline"), acting(Failing.__new__(Failing)):
        pass


def test_services_are_recognized_by_the_names_of_a_timeline(tmp_path: Path) -> None:
    """The compactions that writers make of the metadata table do not count."""
    table, metadata = tmp_path / ".hoodie" / "timeline", tmp_path / ".hoodie" / "metadata" / ".hoodie" / "timeline"
    planned, running, done, merged, not_ours = (f"2026010100000000{number}" for number in range(5))
    for folder, name in (
        (table, f"{planned}.logcompaction.requested"),
        (table, f"{running}.compaction.requested"),
        (table, f"{running}.compaction.inflight"),
        (table, f"{done}.compaction.requested"),
        (table, f"{done}.compaction.inflight"),
        (table, f"{done}_20260101000000009.commit"),
        (metadata, f"{merged}.logcompaction.requested"),
        (metadata, f"{not_ours}.compaction.requested"),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    pending = {
        Service(planned, "logcompaction", "requested"),
        Service(running, "compaction", "inflight"),
        Service(merged, "logcompaction", "requested"),
    }
    assert pending_services(tmp_path) == pending
    assert services(tmp_path) == pending | {Service(done, "compaction", "completed")}


def test_services_of_tables_of_version_6_are_recognized(tmp_path: Path) -> None:
    """Their timeline has no folder of its own, a completed instant has one time, and there is no metadata table."""
    written, merged, compacted, running = (f"2026010100000000{number}" for number in range(4))
    (tmp_path / ".hoodie").mkdir()
    for name in (
        f"{written}.deltacommit.requested",
        f"{written}.deltacommit",
        f"{merged}.logcompaction.requested",
        f"{merged}.logcompaction.inflight",
        f"{merged}.deltacommit",
        f"{compacted}.compaction.requested",
        f"{compacted}.commit",
        f"{running}.logcompaction.requested",
        f"{running}.logcompaction.inflight",
    ):
        (tmp_path / ".hoodie" / name).touch()
    pending = {Service(running, "logcompaction", "inflight")}
    done = {Service(merged, "logcompaction", "completed"), Service(compacted, "compaction", "completed")}
    assert pending_services(tmp_path) == pending
    assert services(tmp_path) == pending | done
