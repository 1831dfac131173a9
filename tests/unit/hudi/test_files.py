"""What the names of a table's files say, without Hudi: its delta commits, and the log files of its newest slices."""

from pathlib import Path

import pytest

from compaction_operator.hudi import HudiTable, LogSizes, commits_of, read_table, sizes_of, timeline_folder
from compaction_operator.storage import LocalStorage

FIXTURE = Path(__file__).parents[2] / "fixtures/hudi-0.15.0/commit_time"


def time(number: int) -> str:
    return f"202611241515{number:02d}000"


def commit(number: int, *, completed: int | None = None, action: str = "deltacommit", begun: str = "") -> list[str]:
    """The files of a completed instant: in the second layout with the time of its completion."""
    start, end = time(number), f"_{time(completed)}" if completed else ""
    pending = [f"{start}.{begun or action}.{state}" for state in ("requested", "inflight")]
    return [*pending, f"{start}{end}.{action}"]


def table(version: int) -> HudiTable:
    return HudiTable("/t", "t", version, is_merge_on_read=True)


def counts(*names: str) -> tuple[int, int]:
    found = commits_of(names)
    return found.since_compaction, found.since_merge


def test_a_table_that_hudi_wrote() -> None:
    """Five delta commits: the first made the base file, and the others a log file each."""
    storage = LocalStorage()
    real = read_table(storage, str(FIXTURE))
    found = commits_of(entry.name for entry in storage.list(timeline_folder(real)))
    assert (found.since_compaction, found.since_merge, found.pending) == (5, 5, frozenset())
    files = [("", entry.name, entry.size) for entry in storage.list(str(FIXTURE))]
    sizes = sizes_of(files, real, pending=(), limit=None)
    logs = [size for _, name, size in files if ".log." in name]
    assert sizes.logs == sizes.small == LogSizes(1, 4, sum(logs))
    assert [sizes.base_bytes] == [size for _, name, size in files if name.endswith(".parquet")]


@pytest.mark.parametrize("completed", [0, 1])
def test_delta_commits_count_since_the_last_compaction_and_since_the_last_log_compaction(completed: int) -> None:
    """A compaction is a commit when it has completed, a log compaction a delta commit."""

    def done(number: int, action: str = "deltacommit", begun: str = "") -> list[str]:
        return commit(number, completed=number + 1 if completed else None, action=action, begun=begun)

    names = [*done(10), *done(20, "commit", "compaction"), *done(30), *done(40)]
    assert counts(*names) == (2, 2)
    merged = [*names, *done(45, begun="logcompaction"), *done(50)]
    assert counts(*merged) == (3, 1)
    assert counts(*done(10), *done(20)) == (2, 2)
    assert counts() == (0, 0)


def test_what_has_not_completed_counts_neither_as_a_commit_nor_as_a_compaction() -> None:
    pending = [
        f"{time(30)}.compaction.requested",
        f"{time(40)}.logcompaction.inflight",
        f"{time(50)}.deltacommit.inflight",
    ]
    found = commits_of([*commit(10), *commit(20), *pending])
    assert (found.since_compaction, found.since_merge) == (2, 2)
    assert found.pending == {time(30), time(40), time(50)}


def test_a_commit_counts_by_the_time_at_which_it_began() -> None:
    """As Hudi counts: with less than its threshold by that count it would plan nothing."""
    compaction = commit(20, completed=50, action="commit", begun="compaction")
    assert counts(*commit(10, completed=30), *compaction) == (0, 0)
    assert counts(*commit(25, completed=30), *compaction) == (1, 1)


def test_a_log_compaction_has_the_instant_after_the_newest_commit_that_it_merges() -> None:
    """That commit completed after this instant."""
    merged = commit(11, completed=40, begun="logcompaction")
    assert counts(*commit(10, completed=30), *merged) == (1, 0)
    assert counts(*commit(10, completed=30), *merged, *commit(12, completed=50)) == (2, 1)


def test_only_what_changes_rows_changes_the_version() -> None:
    names = commit(10)
    begun = f"{time(30)}.deltacommit.inflight"
    cleaned = [*names, begun, f"{time(20)}.clean", "hoodie.properties", "metadata", "20261124.x"]
    assert commits_of(reversed(names)).version == commits_of(cleaned).version != commits_of(commit(11)).version


def base(group: str, number: int, size: int = 1000) -> tuple[str, str, int]:
    return ("p", f"{group}-0_0-14-10_{time(number)}.parquet", size)


def log(group: str, number: int, size: int, file: int = 1) -> tuple[str, str, int]:
    return ("p", f".{group}-0_{time(number)}.log.{file}_0-35-23", size)


def test_before_version_8_log_files_have_the_instant_of_their_slice() -> None:
    files = [base("a", 10), log("a", 10, 1), log("a", 10, 2, 2), base("a", 20), log("a", 20, 4), log("b", 30, 8)]
    found = sizes_of(files, table(6), pending=(), limit=None)
    assert (found.logs, found.base_bytes) == (LogSizes(2, 2, 12), 1000)


def test_from_version_8_on_log_files_have_the_instant_of_their_commit() -> None:
    files = [base("a", 10), log("a", 15, 1), base("a", 20), log("a", 21, 4), log("a", 22, 8), log("a", 23, 16)]
    found = sizes_of(files, table(8), pending={time(23)}, limit=5)
    assert (found.logs, found.small) == (LogSizes(1, 2, 12), LogSizes(1, 1, 4))


@pytest.mark.parametrize("version", [6, 9])
def test_a_base_file_of_a_compaction_that_has_not_completed_is_none(version: int) -> None:
    slices = [base("a", 10), log("a", 10 if version == 6 else 15, 4), base("a", 20, 7)]
    found = sizes_of(slices, table(version), pending={time(20)}, limit=None)
    assert (found.logs, found.base_bytes) == (LogSizes(1, 1, 4), 1000)


def test_base_files_without_logs_and_other_files_are_no_work() -> None:
    others = [("p", ".hoodie_partition_metadata", 5), ("p", f".a-0_{time(20)}.log.1_0-1-0-cdc", 5)]
    assert sizes_of([base("a", 10), *others], table(8), pending=(), limit=None).logs == LogSizes()
    assert sizes_of([base("a", 10), *others], table(8), pending=(), limit=None).base_bytes == 0
