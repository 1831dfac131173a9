"""Types Clean and Archive: what they delete and move, and what keeps them from it. The metadata table is on."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hudi import HudiTableBuilder
from sandbox.hudi.look import actions, base_files, log_files, meta_client, timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering, SmallTable

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.hudi import HudiError, State, WaitingForInstantError
from compaction_operator.hudi.errors import HudiLockError
from compaction_operator.hudi.jvm import HudiClient
from compaction_operator.hudi.jvm.java import items
from tests.integration.hudi.conftest import NEWEST, MakeOtherClient, MakeTable, Shared
from tests.integration.hudi.dying import writer_dies
from tests.integration.hudi.job import COMPACTION, Jobs
from tests.integration.hudi.other_client import LATEST_ONLY, SHARED, OtherClient
from tests.integration.hudi.test_locks import client_of

CLEAN, ARCHIVE = CompactionType.CLEAN, CompactionType.ARCHIVE
BY_METADATA = {"hoodie.metadata.enable": "true"}
EACH_TIME = {"hoodie.compact.inline.max.delta.commits": "1"}
LAST_COMMIT = {"hoodie.clean.policy": "KEEP_LATEST_COMMITS", "hoodie.clean.commits.retained": "1"}
KEEP_FEW = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}


class Killed(BaseException):
    """Ends a driver in the middle of its work."""


class MakeCompacted:
    """Makes tables of a base file and three log files below a full compaction, which readers find by metadata."""

    def __init__(self, hudi: HudiSession, shared: Shared, jobs: Jobs, folder: Path) -> None:
        self._hudi, self._shared, self._jobs, self._folder = hudi, shared, jobs, folder

    def __call__(self, ordering: Ordering = Ordering.EVENT_TIME, version: str | None = None) -> SmallTable:
        chosen = version or NEWEST[self._hudi.version]
        options = BY_METADATA | {"hoodie.write.table.version": chosen}

        def write(location: Path) -> SmallTable:
            table = SmallTable(self._hudi.spark, location, ordering=ordering, options=options)
            for ids, ts in ((range(60), 10), (range(20), 20), (range(10, 30), 30), (range(5, 15), 15)):
                table.upsert(ids, ts)
            self._jobs.done(table, COMPACTION, options=EACH_TIME)
            return table

        return self._shared(f"compacted-{ordering}-{chosen}", write).copy_to(self._folder / "table", options)


@pytest.fixture
def make_compacted(hudi: HudiSession, shared: Shared, jobs: Jobs, tmp_path: Path) -> MakeCompacted:
    return MakeCompacted(hudi, shared, jobs, tmp_path)


@pytest.fixture
def compacted(make_compacted: MakeCompacted) -> SmallTable:
    return make_compacted()


def read_without_a_jvm(table: SmallTable) -> list[tuple[int, int, str]]:
    batches = HudiTableBuilder.from_base_uri(table.uri).build().read()
    columns = [[value for batch in batches for value in batch[name].to_pylist()] for name in ("id", "ts", "v")]
    return sorted(zip(*columns, strict=True))


def check(table: SmallTable, when: str) -> None:
    table.check(when, **BY_METADATA)
    assert read_without_a_jvm(table) == sorted((key, *row) for key, row in table.expected.items()), when


def cleans(table: SmallTable) -> list[list[str]]:
    """Return what the timeline has of each clean."""
    instants = sorted(
        {name.partition(".")[0].partition("_")[0] for name in timeline(table.location) if "clean" in name}
    )
    return [actions(table.location, instant) for instant in instants]


def files(table: SmallTable) -> set[Path]:
    return {*base_files(table.location), *log_files(table.location)}


def lose_the_lease_at_the_commit(jobs: Jobs, table: SmallTable, **fields: Any) -> None:
    """Clean, and lose the lease once all files are deleted: the clean stays inflight."""
    with pytest.raises(JobError) as lost:
        jobs.run(table, CLEAN, options=LATEST_ONLY, lost=lambda: len(files(table)) == 1, **fields)
    assert lost.value.reason is Reason.LOCK_LOST
    assert [("clean.inflight" in one, "clean" in one) for one in cleans(table)] == [(True, False)]


@pytest.mark.parametrize(
    ("ordering", "version"), [(Ordering.COMMIT_TIME, "6"), (Ordering.EVENT_TIME, None)], ids=["version 6", "newest"]
)
def test_a_clean_deletes_what_the_compaction_replaced_and_no_row(
    make_compacted: MakeCompacted, jobs: Jobs, ordering: Ordering, version: str | None
) -> None:
    table = make_compacted(ordering, version)
    before = files(table)
    check(table, "before the clean")
    result = jobs.run(table, CLEAN, options=LATEST_ONLY)
    assert result.reason is Reason.CLEANED
    assert result.hudi is not None
    assert result.hudi.files_deleted == len(before) - len(files(table)) == 4
    assert result.message.endswith("Completed: 4 files deleted")
    check(table, "after the clean")
    table.upsert(range(10), 50)
    check(table, "after a commit on top")
    again = jobs.run(table, CLEAN, options=LATEST_ONLY)
    assert (again.reason, again.message) == (Reason.CLEANED, "nothing to clean")
    assert len(files(table)) == 2


def lock_is_free(hudi: HudiSession, table: SmallTable, locks: dict[str, str]) -> bool:
    try:
        with client_of(hudi, table, locks) as other, other.locked():
            return True
    except HudiLockError:
        return False


def test_the_lease_is_confirmed_under_the_lock_before_the_plan_the_deletion_and_the_commit(
    hudi: HudiSession, compacted: SmallTable, locks: dict[str, str], jobs: Jobs
) -> None:
    free: list[tuple[bool, str]] = []

    def lost() -> bool:
        free.append((lock_is_free(hudi, compacted, locks), cleans(compacted)[0][-1] if cleans(compacted) else ""))
        return False

    jobs.run(compacted, CLEAN, options=LATEST_ONLY, lost=lost)
    assert [state for is_free, state in free if not is_free] == ["", "clean.requested", "clean.requested"]
    assert free[-1] == (False, "clean.requested")
    assert lock_is_free(hudi, compacted, locks)
    check(compacted, "after it")


def test_a_clean_whose_driver_lost_its_lease_is_finished_by_the_next_one(compacted: SmallTable, jobs: Jobs) -> None:
    """Its files are gone, and the metadata table must learn of it."""
    lose_the_lease_at_the_commit(jobs, compacted)
    result = jobs.run(compacted, CLEAN, options=LATEST_ONLY, uid="another")
    assert result.reason is Reason.CLEANED
    assert cleans(compacted) == [["clean", "clean.inflight", "clean.requested"]]
    check(compacted, "after the second driver")


def test_a_late_driver_does_not_commit_what_another_committed_meanwhile(
    compacted: SmallTable, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second commit of one clean would stand on the timeline twice."""
    require = HudiClient._require_state

    def late(client: HudiClient, clean: Any, state: State) -> None:
        if state is State.INFLIGHT:
            table = client._table()
            client._hudi.table.action.clean.CleanActionExecutor(client._context, client._config, table, "0").execute()
        require(client, clean, state)

    monkeypatch.setattr(HudiClient, "_require_state", late)
    with pytest.raises(WaitingForInstantError, match="not this driver's any more"):
        jobs.run(compacted, CLEAN, options=LATEST_ONLY)
    assert cleans(compacted) == [["clean", "clean.inflight", "clean.requested"]]
    check(compacted, "after the other's commit")


def test_a_plan_that_has_not_begun_is_made_again(
    compacted: SmallTable, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HudiClient, "run_clean", lambda *_, **__: (_ for _ in ()).throw(Killed))
    with pytest.raises(Killed):
        jobs.run(compacted, CLEAN, options=LATEST_ONLY)
    monkeypatch.undo()
    assert cleans(compacted) == [["clean.requested"]]
    (old,) = [name for name in timeline(compacted.location) if "clean" in name]
    assert jobs.run(compacted, CLEAN, options=LATEST_ONLY).reason is Reason.CLEANED
    assert old not in timeline(compacted.location)
    check(compacted, "after it")


def test_what_a_driver_left_that_died_writing_a_plan_or_a_commit_is_repaired(
    hudi: HudiSession, compacted: SmallTable, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi creates such a file and fills it afterwards. Planning reads the last clean, and fails on an empty one.

    A writer of 1.0.2 does not need the table's lock for it, so the plan may be just being written.
    """
    monkeypatch.setattr(HudiClient, "run_clean", lambda *_, **__: (_ for _ in ()).throw(Killed))
    with pytest.raises(Killed):
        jobs.run(compacted, CLEAN, options=LATEST_ONLY)
    monkeypatch.undo()
    (plan,) = compacted.location.rglob("*.clean.requested")
    plan.write_bytes(b"")
    if NEWEST[hudi.version] == "8":
        with pytest.raises(WaitingForInstantError, match=r"clean\.requested has no content.*10 minutes old"):
            jobs.run(compacted, CLEAN, options=LATEST_ONLY, all_instants=True)
        os.utime(plan, (0, 0))
    result = jobs.run(compacted, CLEAN, options=LATEST_ONLY)
    assert result.hudi is not None
    assert (result.hudi.removed, result.hudi.files_deleted) == ((plan.name.partition(".")[0],), 4)
    (commit,) = (path for path in compacted.location.rglob("*.clean") if "metadata" not in path.parts)
    commit.write_bytes(b"")
    assert jobs.run(compacted, CLEAN, options=LATEST_ONLY).reason is Reason.CLEANED
    assert cleans(compacted) == [["clean", "clean.inflight", "clean.requested"]]
    assert all(path.stat().st_size for path in compacted.location.rglob("*.clean"))
    check(compacted, "after the repairs")


def test_a_pending_clean_of_another_client_is_left_alone_unless_asked_for(compacted: SmallTable, jobs: Jobs) -> None:
    lose_the_lease_at_the_commit(jobs, compacted)
    with pytest.raises(WaitingForInstantError, match=r"clean\.inflight of another client is pending"):
        jobs.run(compacted, CLEAN, options=LATEST_ONLY, namespace="other")
    beside = jobs.run(compacted, COMPACTION, options=LATEST_ONLY | EACH_TIME, namespace="other", clean=True)
    assert beside.reason is Reason.WAITING_FOR_INSTANT
    assert "clean.inflight of another client is pending" in beside.message
    assert cleans(compacted) == [["clean.inflight", "clean.requested"]]
    taken = jobs.run(compacted, CLEAN, options=LATEST_ONLY, namespace="other", all_instants=True)
    assert taken.reason is Reason.CLEANED
    check(compacted, "after it")


def first_commit(table: SmallTable) -> str:
    (first, *_) = [name for name in timeline(table.location) if name.endswith(".deltacommit")]
    return first.partition(".")[0].partition("_")[0]


def test_a_plan_is_not_saved_if_a_savepoint_came_while_it_was_made(
    compacted: SmallTable, jobs: Jobs, other_client: MakeOtherClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would delete the savepoint's files."""
    draft, before, instant = HudiClient._draft_clean, files(compacted), first_commit(compacted)

    def draft_slowly(client: HudiClient, table: Any) -> Any:
        found = draft(client, table)
        other_client(compacted, SHARED).client.savepoint(instant, "user", "while a clean is planned")
        return found

    monkeypatch.setattr(HudiClient, "_draft_clean", draft_slowly)
    with pytest.raises(WaitingForInstantError, match=rf"{instant}\.savepoint came while the clean was planned"):
        jobs.run(compacted, CLEAN, options=LATEST_ONLY)
    monkeypatch.undo()
    assert (cleans(compacted), files(compacted)) == ([], before)
    jobs.run(compacted, CLEAN, options=LATEST_ONLY)
    assert {path for path in before if instant in path.name} <= files(compacted)
    check(compacted, "after a clean that knows the savepoint")


def die_once_begun(
    jobs: Jobs, table: SmallTable, monkeypatch: pytest.MonkeyPatch, options: dict[str, str] = LATEST_ONLY
) -> None:
    """Begin a clean, and die before any file is deleted."""
    begin = HudiClient._begin_clean

    def begin_and_die(client: HudiClient, *asked: Any) -> None:
        begin(client, *asked)
        raise Killed

    monkeypatch.setattr(HudiClient, "_begin_clean", begin_and_die)
    with pytest.raises(Killed):
        jobs.run(table, CLEAN, options=options)
    monkeypatch.undo()
    assert cleans(table) == [["clean.inflight", "clean.requested"]]


def save_unseen(table: SmallTable, client: OtherClient, instant: str) -> None:
    """Make a savepoint that Hudi would refuse if it saw the pending clean, as the clean deletes what it keeps."""
    files_of_the_clean = sorted((table.location / ".hoodie" / "timeline").glob("*.clean.*"))
    hidden = [path.rename(table.location / path.name) for path in files_of_the_clean]
    client.client.savepoint(instant, "user", "before the clean")
    for path, place in zip(hidden, files_of_the_clean, strict=True):
        path.rename(place)


def test_a_begun_clean_is_finished_beside_a_later_savepoint_that_keeps_none_of_its_files(
    compacted: SmallTable, jobs: Jobs, other_client: MakeOtherClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NB: beside a pending clean that keeps versions, not commits, Hudi itself fails to make any savepoint."""
    compacted.upsert(range(10), 50)
    die_once_begun(jobs, compacted, monkeypatch, LAST_COMMIT)
    newest = [name for name in timeline(compacted.location) if name.endswith(".deltacommit")][-1].partition("_")[0]
    other_client(compacted, SHARED).client.savepoint(newest, "user", "after the clean was planned")
    assert f"{newest}.savepoint" in {re.sub("_[0-9]+", "", name) for name in timeline(compacted.location)}
    assert jobs.run(compacted, CLEAN, options=LAST_COMMIT).message.endswith("Completed: 4 files deleted")
    check(compacted, "after it")


@pytest.mark.parametrize("remedy", ["delete the savepoint", "give the clean up"])
def test_a_begun_clean_that_deletes_what_a_savepoint_keeps_says_how_a_person_ends_that(
    compacted: SmallTable, jobs: Jobs, other_client: MakeOtherClient, monkeypatch: pytest.MonkeyPatch, remedy: str
) -> None:
    before, instant, other = files(compacted), first_commit(compacted), other_client(compacted, SHARED)
    die_once_begun(jobs, compacted, monkeypatch)
    save_unseen(compacted, other, instant)
    with pytest.raises(HudiError, match=rf"which {instant}\.savepoint keeps: no more is deleted") as refused:
        jobs.run(compacted, CLEAN, options=LATEST_ONLY)
    assert files(compacted) == before
    if remedy == "delete the savepoint":
        assert f"delete_savepoint(table => ..., instant_time => '{instant}')" in str(refused.value)
        other.client.deleteSavepoint(instant)
    else:
        for name in re.findall(r"[0-9]+\.clean\.[a-z]+(?= (?:and|from))", str(refused.value).partition("remove")[2]):
            (compacted.location / ".hoodie" / "timeline" / name).unlink()
        assert cleans(compacted) == []
    jobs.run(compacted, CLEAN, options=LATEST_ONLY)
    kept = {path for path in before if instant in path.name}
    assert (kept <= files(compacted)) is (remedy != "delete the savepoint")
    check(compacted, "after the clean")


def test_a_begun_clean_that_has_deleted_what_a_savepoint_keeps_names_the_files(
    compacted: SmallTable, jobs: Jobs, other_client: MakeOtherClient
) -> None:
    """The savepoint came after its driver died, and took the files from the metadata table."""
    before, instant, other = files(compacted), first_commit(compacted), other_client(compacted, SHARED)
    lose_the_lease_at_the_commit(jobs, compacted)
    lost = sorted(path.name for path in before - files(compacted))
    save_unseen(compacted, other, instant)
    named = re.escape(f" has deleted {', '.join(lost)}, which {instant}.savepoint keeps")
    with pytest.raises(HudiError, match=named):
        jobs.run(compacted, CLEAN, options=LATEST_ONLY)
    other.client.deleteSavepoint(instant)
    assert jobs.run(compacted, CLEAN, options=LATEST_ONLY).reason is Reason.CLEANED
    check(compacted, "after the clean")


def test_nothing_is_cleaned_beside_a_savepoint_without_content(
    compacted: SmallTable, jobs: Jobs, other_client: MakeOtherClient
) -> None:
    """Its client died writing it, or is at it: what it keeps is not known."""
    before, instant = files(compacted), first_commit(compacted)
    other_client(compacted, SHARED).client.savepoint(instant, "user", "cut short")
    (savepoint,) = (compacted.location / ".hoodie" / "timeline").glob("*.savepoint")
    savepoint.write_bytes(b"")
    with pytest.raises(WaitingForInstantError, match=rf"{instant}\.savepoint has no content"):
        jobs.run(compacted, CLEAN, options=LATEST_ONLY)
    assert (files(compacted), cleans(compacted)) == (before, [])


def test_nothing_is_planned_or_deleted_while_a_restore_is_in_progress(
    compacted: SmallTable, jobs: Jobs, other_client: MakeOtherClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, (newest,) = other_client(compacted, SHARED), compactions(compacted)
    other.client.savepoint(newest, "user", "before it")
    die_once_begun(jobs, compacted, monkeypatch)
    compacted.upsert(range(10), 50)
    other.client.restoreToSavepoint(newest)
    (restore,) = (compacted.location / ".hoodie" / "timeline").glob("*.restore")
    restore.unlink()
    before = files(compacted)
    for _ in range(2):
        with pytest.raises(WaitingForInstantError, match=r"restore [0-9]+ is in progress"):
            jobs.run(compacted, CLEAN, options=LATEST_ONLY)
        assert files(compacted) == before
        for path in (compacted.location / ".hoodie" / "timeline").glob("*.clean.*"):
            path.unlink()


def compactions(table: SmallTable) -> list[str]:
    """Return the instants of the completed compactions."""
    return [name.partition("_")[0] for name in timeline(table.location) if name.endswith(".commit")]


def test_a_file_that_a_rollback_by_hand_made_the_newest_again_is_not_deleted(
    compacted: SmallTable, jobs: Jobs, other_client: MakeOtherClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of the table lie in what the begun clean deletes, once the compaction is gone."""
    die_once_begun(jobs, compacted, monkeypatch)
    assert other_client(compacted, SHARED).client.rollback(*compactions(compacted))
    before = files(compacted)
    with pytest.raises(HudiError, match=r"which is in use again since a rollback or restore: no more is deleted"):
        jobs.run(compacted, CLEAN, options=LATEST_ONLY)
    assert files(compacted) == before
    check(compacted, "after it")


def test_what_a_writer_puts_into_a_deleted_partition_meanwhile_stays(
    hudi: HudiSession, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi's own clean deletes such a directory with all that lies there."""
    table = SmallTable(hudi.spark, tmp_path / "table", partitioned=True, options=BY_METADATA)
    table.upsert(range(20), 10, part="a")
    table.upsert(range(20, 40), 10, part="b")
    drop_partition(table, "a")
    table.expected = {number: row for number, row in table.expected.items() if number >= 20}
    begin, limit, planned = HudiClient._begin_clean, HudiClient._of_files_alone, list[str]()

    def begin_late(client: HudiClient, *asked: Any) -> Any:
        table.upsert(range(5), 50, part="a")
        return begin(client, *asked)

    def limited(client: HudiClient, plan: Any) -> Any:
        planned.extend(items(plan.getPartitionsToBeDeleted()))
        return limit(client, plan)

    monkeypatch.setattr(HudiClient, "_begin_clean", begin_late)
    monkeypatch.setattr(HudiClient, "_of_files_alone", limited)
    assert jobs.run(table, CLEAN, options=LATEST_ONLY).message.endswith("Completed: 1 file deleted")
    check(table, "after the clean")
    assert set(planned) == {"a"}


def drop_partition(table: SmallTable, part: str) -> None:
    """Commit a `delete_partition`."""
    options = table.options | {
        "hoodie.datasource.write.operation": "delete_partition",
        "hoodie.datasource.write.partitions.to.delete": part,
    }
    rows = table.rows(range(1), 0).selectExpr("*", f"'{part}' part")
    rows.write.format("hudi").options(**options).mode("append").save(table.uri)


def test_an_archive_moves_old_instants_and_no_row(hudi: HudiSession, compacted: SmallTable, jobs: Jobs) -> None:
    jobs.run(compacted, CLEAN, options=LATEST_ONLY)
    for ts in (50, 60, 70):
        compacted.upsert(range(ts), ts)
    before = {name.partition(".")[0].partition("_")[0] for name in timeline(compacted.location)}
    result = jobs.run(compacted, ARCHIVE, options=KEEP_FEW | LATEST_ONLY)
    gone = before - {name.partition(".")[0].partition("_")[0] for name in timeline(compacted.location)}
    assert gone
    assert (result.reason, result.message) == (Reason.ARCHIVED, f"{len(gone)} instants archived")
    assert result.hudi is not None
    assert result.hudi.archived == len(gone)
    archived = meta_client(hudi, compacted.location).getArchivedTimeline()
    assert all(archived.containsInstant(instant) for instant in gone if instant < max(before))
    check(compacted, "after archiving")
    assert jobs.run(compacted, ARCHIVE, options=KEEP_FEW | LATEST_ONLY).message == "nothing to archive"


def test_an_archive_needs_the_lease_under_the_lock(
    hudi: HudiSession, compacted: SmallTable, locks: dict[str, str], jobs: Jobs
) -> None:
    before = timeline(compacted.location)
    with pytest.raises(JobError) as refused:
        jobs.run(
            compacted, ARCHIVE, options=KEEP_FEW | LATEST_ONLY, lost=lambda: not lock_is_free(hudi, compacted, locks)
        )
    assert refused.value.reason is Reason.LOCK_LOST
    assert timeline(compacted.location) == before


def test_dead_writers_are_rolled_back_one_by_one_and_a_writer_at_work_is_left_alone(
    make_table: MakeTable, jobs: Jobs, other_client: MakeOtherClient
) -> None:
    """It has a heartbeat. The lease may be lost between two of them."""
    table = make_table(options=SHARED)
    at_work = str(other_client(table, SHARED).client.startCommit())
    older, newer = (writer_dies(table, range(30), ts) for ts in (50, 60))
    by_files = LATEST_ONLY | {"hoodie.rollback.using.markers": "false"}
    with pytest.raises(JobError) as lost:
        jobs.run(table, CLEAN, options=by_files, lost=lambda: not actions(table.location, newer))
    assert lost.value.reason is Reason.LOCK_LOST
    assert actions(table.location, older)
    assert jobs.run(table, CLEAN, options=by_files).reason is Reason.CLEANED
    assert not actions(table.location, older)
    assert actions(table.location, at_work)
    table.check("beside the writer at work")
