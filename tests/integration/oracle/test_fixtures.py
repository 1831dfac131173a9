"""Tables that Hive wrote, compacted here: named as Hive names them, and read by Hive's own readers as before."""

import re
import shutil
from pathlib import Path

import pytest

from compaction_operator.api.compaction import HIVE_TYPES, CompactionType
from compaction_operator.orc import count_rows
from tests.integration.oracle.hive import HiveOracle
from tests.integration.oracle.laws import Case, View, check, check_deletion

FIXTURES = Path(__file__).parents[2] / "fixtures"
VERSIONS = {3: "hive-3.1.3", 4: "hive-4.0.1"}
CASES = [
    (hive, version, case.name)
    for hive, version in (("hive3", 3), ("hive4", 4), ("hive42", 4))
    for case in sorted((FIXTURES / VERSIONS[version]).iterdir())
]
COMPACTION_TXN = 1000


def _partitions(table: Path) -> list[Path]:
    """The partitions' directories, or the table's own."""
    return sorted(table.glob("*=*")) or [table]


def _names(directory: Path) -> set[str]:
    """The ACID directories without transactions, and without delete deltas that hold no event."""
    kept = (path for path in directory.iterdir() if path.is_dir() and not _holds_no_delete(path))
    return {re.sub(r"_v\d+$", "", path.name) for path in kept}


def _holds_no_delete(path: Path) -> bool:
    files = path.glob("bucket_*")
    return path.name.startswith("delete_delta_") and not sum(count_rows(str(file)) for file in files)


def _older(write_ids: str) -> list[View]:
    """Snapshots of readers from before the last writes; on Hive 4 the compaction's transaction is open for them."""
    table, watermark, *_, aborted = write_ids.split(":")
    ids = [int(number) for number in aborted.split(",") if number]
    lowest = max(0, int(watermark) - 6)
    return [
        View(
            f"{table}:{mark}:{2**63 - 1}::{','.join(str(number) for number in ids if number <= mark)}",
            f"{COMPACTION_TXN - 1}:{COMPACTION_TXN}::",
        )
        for mark in range(lowest, int(watermark) + 1)
    ]


@pytest.mark.parametrize("kind", HIVE_TYPES)
@pytest.mark.parametrize(("oracle", "version", "name"), CASES, indirect=["oracle"])
def test_hive_sees_the_same_before_after_and_after_the_deletion(
    oracle: HiveOracle, version: int, name: str, kind: CompactionType, tmp_path: Path
) -> None:
    fixture = FIXTURES / VERSIONS[version] / name
    shutil.copytree(fixture / "before", tmp_path / name)
    write_ids = (fixture / f"writeids-{kind.value.lower()}-before.txt").read_text().strip()
    for partition in _partitions(tmp_path / name):
        case = Case(
            hive=oracle,
            directory=partition,
            row_type=None,
            current=View(write_ids),
            older=_older(write_ids),
            type=kind,
            txn=COMPACTION_TXN if version == 4 else None,
        )
        plan = check(case, guarded=True)
        expected = fixture / f"after-{kind.value.lower()}" / partition.relative_to(tmp_path / name)
        assert _names(partition) - {"base_-9223372036854775808"} == _names(expected)
        check_deletion(case, plan)
