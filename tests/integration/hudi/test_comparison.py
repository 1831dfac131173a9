"""A merged log block that is not what its originals are is not committed. What Hudi merges right is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sandbox.hudi.look import log_files, timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering

from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.driver.hudi import setup
from compaction_operator.hudi import HudiError
from compaction_operator.hudi.jvm import writes
from compaction_operator.hudi.log_format import AVRO, DELETE, read_blocks
from tests.integration.hudi.conftest import NEWEST
from tests.integration.hudi.job import LOG_COMPACTION, Jobs
from tests.soak.hudi_matrix.history import Commit, How, Model
from tests.soak.hudi_matrix.table import MatrixTable

OPTIONS = {"hoodie.log.compaction.blocks.threshold": "2"}
BASE = Commit(range(100), 10)
FIRST = (Commit(range(40), 30), Commit(range(20, 60), 20), Commit(range(5), 60, How.FLAG), Commit(range(3, 30), 50))
LAST = (Commit(range(2, 50), 55), Commit(range(8), 70, How.FLAG), Commit(range(6, 9), 80))
"""Late rows, deletes, and late rows of deleted keys, which by event time 1.0.2 leaves alone."""

ROWS_ALONE = (Commit(range(40), 30), Commit(range(20, 60), 20), Commit(range(5), 60))


@pytest.fixture
def run(jobs: Jobs) -> Callable[[MatrixTable], DriverResult]:
    return lambda table: jobs.run(table, LOG_COMPACTION, options=OPTIONS)  # type: ignore[arg-type]


Run = Callable[[MatrixTable], DriverResult]


@pytest.mark.parametrize("ordering", Ordering)
def test_what_is_merged_is_compared_with_its_originals(
    hudi: HudiSession, tmp_path: Path, run: Run, ordering: Ordering
) -> None:
    """So is a merge of a merged block. The matrix has each version with each ordering, and metadata tables."""
    with_deletes = hudi.version != "1.0.2" or ordering is Ordering.COMMIT_TIME
    # Each version and each ordering is here once.
    version = NEWEST[hudi.version] if ordering is Ordering.EVENT_TIME else "8"
    table, commits = MatrixTable(tmp_path / "table", version, ordering, listed=False), [BASE]
    for more, keys in ((FIRST, 60), (LAST, 60)) if with_deletes else ((ROWS_ALONE, 60), (ROWS_ALONE[1:], 60)):
        new = ([BASE] if len(commits) == 1 else []) + list(more)
        table.write(hudi.spark, new)
        commits += more
        result = run(table)
        assert result.reason is Reason.COMPACTED
        assert result.message.endswith(f"; 1 of 1 file group ({keys} keys) compared with the originals")
        assert table.read(hudi.spark) == Model(ordering, commits).rows()


def test_a_row_that_changed_keeps_the_block_from_being_committed(
    hudi: HudiSession, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, rows = _written(hudi, tmp_path, (BASE, *ROWS_ALONE))
    _damage(monkeypatch, table, lambda content: content.replace(b"4-60", b"4-61"))
    with pytest.raises(HudiError, match=r"file group .*: key '4' has a row \w+ of ordering 60 instead of a row"):
        run(table)
    assert _log_compactions(table) == []
    assert table.read(hudi.spark) == table.read_without_a_jvm() == rows


@pytest.mark.only("1.2.0")
def test_a_delete_that_is_lost_keeps_the_block_from_being_committed(
    hudi: HudiSession, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, rows = _written(hudi, tmp_path, (BASE, *FIRST))
    _damage(monkeypatch, table, lambda content: content.replace(b"\x02\x024\x02\x00", b"\x02\x02x\x02\x00"))
    with pytest.raises(HudiError, match="key '4' has nothing instead of a delete of ordering 60"):
        run(table)
    assert _log_compactions(table) == []
    assert table.read(hudi.spark) == table.read_without_a_jvm() == rows


@pytest.mark.only("1.0.2")
def test_a_delete_that_hudi_1_0_itself_loses_is_seen(
    hudi: HudiSession, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator does not plan such a merge. Here it does: what Hudi wrote is as it is."""
    monkeypatch.setattr(setup, "keeps_deletes", lambda *_: True)
    table, rows = _written(hudi, tmp_path, (BASE, Commit(range(2), 100, How.FLAG), Commit(range(3), 50)))
    with pytest.raises(HudiError, match=r"key '0' has .* instead of a delete of ordering 100"):
        run(table)
    assert _log_compactions(table) == []
    assert table.read(hudi.spark) == table.read_without_a_jvm() == rows


def _written(hudi: HudiSession, folder: Path, commits: tuple[Commit, ...]) -> tuple[MatrixTable, list[Any]]:
    table = MatrixTable(folder / "table", NEWEST[hudi.version], Ordering.EVENT_TIME, listed=False)
    table.write(hudi.spark, commits)
    return table, Model(Ordering.EVENT_TIME, commits).rows()


def _log_compactions(table: MatrixTable) -> list[str]:
    """Return what the timeline has of log compactions: a completed one has begun under their name."""
    return [name for name in timeline(table.location) if "logcompaction" in name]


def _damage(monkeypatch: pytest.MonkeyPatch, table: MatrixTable, change: Callable[[bytes], bytes]) -> None:
    """Change the content of what Hudi wrote, right after it did."""
    before, checked = set(log_files(table.location)), writes.require_all_written

    def written(*arguments: Any) -> Any:
        found = checked(*arguments)
        (new,) = set(log_files(table.location)) - before
        with new.open("rb") as file:
            blocks = [block for block in read_blocks(file) if block.kind in (AVRO, DELETE)]
        data = new.read_bytes()
        for block in blocks:
            end = block.position + block.length
            data = data[: block.position] + change(data[block.position : end]) + data[end:]
        assert data != new.read_bytes()
        new.write_bytes(data)
        return found

    monkeypatch.setattr(writes, "require_all_written", written)
