"""The moment of publication: what any reader sees before, between and after each file operation."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from compaction_operator.acid.plan import with_guard
from compaction_operator.acid.snapshot import NotEnoughHistory, snapshot
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.cleanup.fence import fence
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.publish import publish
from compaction_operator.driver.merge.partition import Prepared, assemble
from compaction_operator.storage import LocalStorage
from tests.unit.driver.tables import MAJOR, MINOR, STORAGE, merged, prepared

GUARD = "base_-9223372036854775808"


class Killed(BaseException):
    """The process ends here."""


def ready(place: Path, fixture: str, kind: CompactionType, *, guarded: bool = False) -> Prepared:
    """Complete directories in staging."""
    work = prepared(place, fixture, kind)
    assemble(merged(work))
    return replace(work, plan=with_guard(work.plan)) if guarded else work


def published(work: Prepared) -> None:
    publish(work, guard=lambda: None)


def watch(monkeypatch: pytest.MonkeyPatch, after: Callable[[str], None]) -> None:
    """Call something after each rename into a final name."""
    rename = LocalStorage.rename

    def watched(self: LocalStorage, source: str, target: str) -> None:
        rename(self, source, target)
        after(target)

    monkeypatch.setattr(LocalStorage, "rename", watched)


def readable(work: Prepared) -> list[bool]:
    """Whether the snapshot of each write id, from before the first to the last, can still be read."""

    def can_read(write_id: int) -> bool:
        try:
            snapshot(
                STORAGE.list_partition(work.target.location), ValidWriteIdList.parse(f"d.t:{write_id}:{2**63 - 1}::")
            )
        except NotEnoughHistory:
            return False
        return True

    return [can_read(write_id) for write_id in range(4)]


def test_a_first_base_breaks_older_snapshots(tmp_path: Path) -> None:
    """H24, as Hive 3.1.3 does it: why there is a guard at all."""
    work = ready(tmp_path, "table_txn_001", MAJOR)
    assert work.plan.breaks_older_snapshots
    published(work)
    assert readable(work) == [False, False, False, True]


def test_with_a_guard_every_snapshot_can_be_read_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H24: the guard comes first; it holds nothing but its two side files."""
    work = ready(tmp_path, "table_txn_001", MAJOR, guarded=True)
    seen: list[tuple[str, list[bool]]] = []
    watch(monkeypatch, lambda target: seen.append((Path(target).name, readable(work))))
    published(work)
    assert seen == [(GUARD, [True] * 4), ("base_0000003", [True] * 4)]
    guard = tmp_path / "table" / GUARD
    assert sorted(path.name for path in guard.iterdir()) == ["_metadata_acid", "_orc_acid_version"]
    assert GUARD in [entry.name for entry in work.plan.obsolete]


def test_a_guard_that_another_attempt_left_will_do(tmp_path: Path) -> None:
    work = ready(tmp_path, "table_txn_001", MAJOR, guarded=True)
    (tmp_path / "table" / GUARD).mkdir()
    published(work)
    assert (tmp_path / "table/base_0000003").is_dir()


def test_a_base_of_the_guards_name_that_holds_rows_is_no_guard(tmp_path: Path) -> None:
    work = ready(tmp_path, "table_txn_001", MAJOR, guarded=True)
    guard = tmp_path / "table" / GUARD
    guard.mkdir()
    (guard / "bucket_00000").write_bytes(b"ORC")
    with pytest.raises(JobError, match="appeared after the plan was made"):
        published(work)


@pytest.mark.parametrize("first", ["delta_0000001_0000005", "delete_delta_0000001_0000005"])
def test_a_half_published_pair_is_completed_by_the_next_fence(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3: the process ends right after either rename. No plan and no deletion starts before the fence has run."""
    work = ready(tmp_path, "bucketed", MINOR)

    def killed(target: str) -> None:
        if Path(target).name == first:
            raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        watch(patched, killed)
        published(work)
    fence(STORAGE, work.target.location, keep=None)
    names = {path.name for path in (tmp_path / "table").iterdir()}
    assert {"delta_0000001_0000005", "delete_delta_0000001_0000005"} <= names
    assert not [name for name in names if name.startswith("_compaction")]


@pytest.mark.parametrize(
    "appeared", ["base_0000002", "delta_0000001_0000002", "delete_delta_0000003_0000003", "delta_0000003_0000004"]
)
def test_what_overlaps_and_came_after_the_plan_stops_the_publication(appeared: str, tmp_path: Path) -> None:
    """H23: two correct compactions that overlap double rows."""
    work = ready(tmp_path, "table_txn_001", MINOR)
    (tmp_path / "table" / appeared).mkdir()
    with pytest.raises(JobError, match=appeared) as stopped:
        published(work)
    assert stopped.value.reason is Reason.TABLE_CHANGED
    assert not (tmp_path / "table/delta_0000001_0000003").exists()


def test_what_came_above_the_output_does_not_matter(tmp_path: Path) -> None:
    """Writers never pause."""
    work = ready(tmp_path, "table_txn_001", MINOR)
    (tmp_path / "table/delta_0000004_0000004_0000").mkdir()
    published(work)
    assert (tmp_path / "table/delta_0000001_0000003").is_dir()
