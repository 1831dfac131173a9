"""The plain reader that demo and cluster tests compare with sees what Hive's own reader sees."""

import json
from pathlib import Path
from typing import Any

import pytest
from sandbox.harness import rows

FIXTURES = Path(__file__).parents[2] / "fixtures"
# NB: nanoseconds (types) and files from before ACID (original) are not for this reader.
ALL_COMMITTED = "9223372036854775807:9223372036854775807::"
CASES = ["try_it", "table_txn_001", "bucketed", "aborted", "merge", "overwrite"]
STATES = {"before": "minor-before", "after-minor": "minor-after", "after-major": "major-after"}


def printed(lines: str) -> list[Any]:
    """Return what rows.py prints, or Hive's reader, sorted; a table's directory has no partition."""
    found = [json.loads(line) for line in lines.splitlines()]
    partitions = [row.get("partition", "") if "=" in row.get("partition", "") else "" for row in found]
    return sorted(
        [partition, row["writeid"], row["bucket"], row["rowid"], json.dumps(row["row"])]
        for partition, row in zip(partitions, found, strict=True)
    )


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("hive", ["3.1.3", "4.0.1"])
def test_the_same_rows_as_hives_reader(hive: str, case: str, state: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before, after Hive's minor and after its major compaction, with every ROW__ID."""
    folder = FIXTURES / f"hive-{hive}" / case
    write_ids = (folder / f"writeids-{STATES[state]}.txt").read_text().strip()
    partitions = [str(path) for path in (folder / state).iterdir() if "=" in path.name]
    rows.main(ALL_COMMITTED, write_ids, *(partitions or [str(folder / state)]))
    assert printed(capsys.readouterr().out) == printed((folder / f"oracle4-{state}.jsonl").read_text())


def test_a_delta_that_another_covers_is_not_read() -> None:
    """The widest comes first; with a base only what lies above it."""
    names = ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "delta_0000001_0000002"]
    sees = rows.visible("db.t:3:9223372036854775807::")
    assert rows.current(names, sees) == ["delta_0000001_0000002"]
    assert rows.current([*names, "base_0000002", "delta_0000003_0000003_0000"], sees) == [
        "base_0000002",
        "delta_0000003_0000003_0000",
    ]


def test_a_row_that_comes_twice_is_an_error(tmp_path: Path) -> None:
    """Two directories with one row are what two overlapping compactions would leave."""
    source = FIXTURES / "hive-3.1.3" / "table_txn_001" / "before" / "delta_0000001_0000001_0000" / "bucket_00000"
    for name in ("delta_0000001_0000001_0000", "delta_0000001_0000001_0001"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bucket_00000").write_bytes(source.read_bytes())
    with pytest.raises(ValueError, match="twice"):
        rows.rows(tmp_path, rows.every, rows.visible("db.t:1:9223372036854775807::"))


def test_a_directory_counts_once_its_transaction_has_committed() -> None:
    """So Hive 4's readers see nothing of a compaction that is being published, or that was given up."""
    txns = rows.visible("9:7:7:8")
    assert [txn for txn in range(5, 11) if rows.committed(f"base_0000003_v000000{txn}", txns)] == [5, 6, 9]
    assert rows.committed("base_0000003", txns)
