"""TRUNCATE and DROP PARTITION of Hive 4, in tables and partitions: committed, rolled back, and under way.

Each is one empty base, written here by the metastore's own code. It counts by its own write id.
"""

from pathlib import Path

import pytest

from compaction_operator.acid.snapshot import Snapshot, snapshot
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import HIVE_TYPES, CompactionType
from compaction_operator.storage import LocalStorage
from tests.integration.oracle.hive import HiveOracle, OracleError
from tests.integration.oracle.laws import ALL_TXNS, NO_END, Case, View, check, check_deletion

ROW_TYPE = "struct<a:int>"
TRUNCATION = 3
COMMITTED, ABORTED, OPEN = View(f"d.t:4:{NO_END}::"), View(f"d.t:4:{NO_END}::3"), View("d.t:4:3:3:")
ROWS = {COMMITTED: [4], ABORTED: [1, 2, 4]}
"""Which rows there are once the truncation has ended; each holds the write id that wrote it."""

FORMATS = ("truncated", "dropped")
STATES = pytest.mark.parametrize("now", [COMMITTED, ABORTED, OPEN], ids=["committed", "aborted", "open"])


def _truncated(hive4: HiveOracle, directory: Path, data_format: str) -> Path:
    """Insert, insert, truncate, insert."""
    directory.mkdir(parents=True)
    for write_id in (1, 2, 4):
        hive4.write(directory, [("insert", write_id, [write_id])], row_type=ROW_TYPE, write_id=write_id)
    hive4.truncate(directory, write_id=TRUNCATION, data_format=data_format)
    return directory


@pytest.fixture(params=["t", "t/prt=p1"], ids=["table", "partition"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where the directory of a table is, or of a partition."""
    found: Path = tmp_path / request.param
    return found


@pytest.fixture(params=FORMATS)
def truncated(request: pytest.FixtureRequest, hive4: HiveOracle, place: Path) -> Path:
    """A directory that was truncated, or dropped."""
    return _truncated(hive4, place, request.param)


def _case(hive4: HiveOracle, directory: Path, now: View, kind: CompactionType) -> Case:
    ends = [*ROWS] if now == OPEN else [now]
    return Case(hive=hive4, directory=directory, row_type=ROW_TYPE, current=now, older=ends, type=kind, txn=9)


def _ours(directory: Path, view: View) -> Snapshot:
    listing = LocalStorage().list_partition(str(directory))
    return snapshot(listing, ValidWriteIdList.parse(view.write_ids), valid_txns=ValidTxnList.parse(view.txns))


@pytest.mark.parametrize("now", [COMMITTED, ABORTED], ids=["committed", "aborted"])
def test_hive_4_uses_what_we_do(hive4: HiveOracle, truncated: Path, now: View) -> None:
    theirs, ours = hive4.state(truncated, write_ids=now.write_ids, txns=now.txns), _ours(truncated, now)
    assert (ours.base and ours.base.name) == theirs.base
    assert [delta.name for delta in ours.deltas] == theirs.current
    assert {entry.name for entry in ours.obsolete} == {*theirs.obsolete, *theirs.aborted} != set()


@STATES
@pytest.mark.parametrize("kind", HIVE_TYPES)
def test_a_compaction_beside_a_truncation_costs_no_row(
    hive4: HiveOracle, truncated: Path, now: View, kind: CompactionType
) -> None:
    """However the truncation ends, Hive then reads what it would have read without the compaction and its cleanup.

    NB: while it is under way Hive 4.0.1 takes its base for valid where no lower write id is open (isValidBase).
    """
    case = _case(hive4, truncated, now, kind)
    plan = check(case, guarded=False)
    assert plan.obsolete != ()
    check_deletion(case, plan)
    for end in case.older:
        for vectorized in (False, True):
            seen = case.see(end, vectorized=vectorized)
            assert not isinstance(seen, str), seen
            assert [row.values for row in seen] == [[number] for number in ROWS[end]]


@pytest.mark.parametrize("data_format", FORMATS)
@STATES
def test_hive_3_reads_no_table_that_hive_4_has_truncated(
    hive3: HiveOracle, hive4: HiveOracle, tmp_path: Path, data_format: str, now: View
) -> None:
    """Whatever became of the truncation: so it makes no difference how Hive 3 would count it."""
    directory = _truncated(hive4, tmp_path / "t", data_format)
    with pytest.raises(OracleError, match=f"Unexpected value for dataFormat: {data_format}"):
        hive3.state(directory, write_ids=now.write_ids, txns=ALL_TXNS)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"thisFileVersion":"0","dataFormat":"merged"}'])
def test_hive_reads_no_table_with_a_base_whose_metadata_we_refuse(
    oracles: dict[int, HiveOracle], tmp_path: Path, content: str
) -> None:
    directory = _truncated(oracles[4], tmp_path / "t", "truncated")
    (directory / "base_0000003" / "_metadata_acid").write_text(content)
    for hive in oracles.values():
        with pytest.raises(OracleError):
            hive.state(directory, write_ids=COMMITTED.write_ids, txns=ALL_TXNS)
