"""Deleted keys whose rows come again, late or not, in the blocks that a log compaction merges: by event time."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest
from sandbox.hudi.look import log_files
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering

from compaction_operator.api.request import Reason
from tests.integration.hudi.conftest import NEWEST
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.soak.hudi_matrix.history import Commit, How, Model, Row
from tests.soak.hudi_matrix.table import MatrixTable

OPTIONS = {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.compact.inline.max.delta.commits": "1"}
BASE = Commit(range(100), 10)

Write = Callable[[Iterable[Commit]], tuple[MatrixTable, list[Row]]]


@pytest.fixture
def write(hudi: HudiSession, tmp_path: Path) -> Write:
    """Write a table of the bundle's newest version, and return it with the model's rows."""

    def written(commits: Iterable[Commit]) -> tuple[MatrixTable, list[Row]]:
        table = MatrixTable(tmp_path / "table", NEWEST[hudi.version], Ordering.EVENT_TIME, listed=False)
        table.write(hudi.spark, commits)
        return table, Model(Ordering.EVENT_TIME, commits).rows()

    return written


@pytest.fixture
def compacted(hudi: HudiSession, jobs: Jobs) -> Callable[..., int]:
    """Merge and compact a table, see that its rows stay these, and return how many blocks were merged."""

    def check(table: MatrixTable, rows: list[Row], limit: int | None = None) -> int:
        run = partial(jobs.run, table, options=OPTIONS)  # type: ignore[arg-type]
        assert table.read_without_a_jvm() == table.read(hudi.spark) == rows
        result = run(LOG_COMPACTION, max_log_file_size_to_merge=limit)
        assert result.reason in (Reason.COMPACTED, Reason.NOTHING_TO_COMPACT)
        assert table.read_without_a_jvm() == table.read(hudi.spark) == rows
        assert run(COMPACTION).reason is Reason.COMPACTED
        assert table.read_without_a_jvm() == table.read(hudi.spark) == rows
        assert result.hudi is not None
        return (result.hudi.blocks_in or 0) if result.reason is Reason.COMPACTED else 0

    return check


def test_a_key_that_a_flag_deleted_stays_deleted_if_a_row_of_smaller_ordering_comes(
    hudi: HudiSession, write: Write, compacted: Callable[..., int]
) -> None:
    """1.0.2 would lose the delete, so it merges no such block."""
    table, rows = write((BASE, Commit(range(2), 100, How.FLAG), Commit(range(3), 50)))
    assert [row.id for row in rows[:2]] == [2, 3]
    assert compacted(table, rows) == (0 if hudi.version == "1.0.2" else 2)


@pytest.mark.only("1.2.0")
def test_a_delete_by_operation_is_merged_with_the_rows_below_and_above_it(
    write: Write, compacted: Callable[..., int]
) -> None:
    """It has no ordering value, so a later row of its key comes back, whatever its own."""
    table, rows = write((BASE, Commit(range(4), 200), Commit(range(2), 300, How.DELETE), Commit(range(1), 50)))
    assert [(row.id, row.ts) for row in rows[:2]] == [(0, 50), (2, 200)]
    assert compacted(table, rows) == 3


@pytest.mark.only("1.2.0")
def test_a_delete_by_operation_is_not_merged_with_newer_rows_above_a_block_that_is_left_alone(
    write: Write, compacted: Callable[..., int]
) -> None:
    """Without the delete between the two, the older row of the block below would win by its ordering, for good."""
    late = Commit(range(1), 50)
    table, rows = write(
        (BASE, Commit(range(100), 200), Commit(range(2), 0, How.DELETE), late, Commit(range(50, 52), 300))
    )
    large, *others = (path.stat().st_size for path in log_files(table.location))
    assert large > max(others)
    assert [(row.id, row.ts) for row in rows[:2]] == [(0, 50), (2, 200)]
    assert compacted(table, rows, max(others)) == 2
