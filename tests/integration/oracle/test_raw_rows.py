"""Rows of files that are not ACID ones have the identity that Hive's readers give them; the guard base serves all."""

from pathlib import Path

import pytest

from compaction_operator.acid.inputs import original_inputs
from compaction_operator.acid.names import GUARD_BASE, METADATA_ACID, METADATA_ACID_CONTENT, ORC_ACID_VERSION
from compaction_operator.acid.plan import Layout, plan_compaction
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from tests.integration.oracle.hive import HiveOracle, OracleError
from tests.unit.acid.listings import read_listing

ROW_TYPE = "struct<a:string>"
LAYOUTS = {
    "originals": ["000000_0", "000000_0_copy_1", "000000_0_copy_10", "000000_0_copy_2", "000001_0"],
    "union": [
        *("000000_0", "HIVE_UNION_SUBDIR_1/000000_0", "HIVE_UNION_SUBDIR_10/000000_0"),
        *("HIVE_UNION_SUBDIR_2/000000_0", "HIVE_UNION_SUBDIR_2/000001_0"),
    ],
    "nested union": ["HIVE_UNION_SUBDIR_2/HIVE_UNION_SUBDIR_1/000000_0", "HIVE_UNION_SUBDIR_2/000000_0"],
    "loaded": [
        *("delta_0000002_0000002_0000/000000_0", "delta_0000002_0000002_0000/000000_0_copy_10"),
        *("delta_0000002_0000002_0000/000000_0_copy_2", "delta_0000002_0000002_0003/000000_0"),
        *("delta_0000003_0000003_0000/000001_0", "000000_0", "000001_0"),
    ],
    "loaded over": [
        *("base_0000002/000000_0", "base_0000002/000000_0_copy_1"),
        *("delta_0000003_0000003_0000/000000_0", "000000_0"),
    ],
    "beyond the padding": ["base_12345678/000000_0", "delta_12345679_12345679_0001/000002_0"],
}


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("files", LAYOUTS.values(), ids=LAYOUTS)
def test_rows_without_an_identity_get_hives(
    version: int, files: list[str], hive3: HiveOracle, hive4: HiveOracle, tmp_path: Path
) -> None:
    hive = hive3 if version == 3 else hive4
    for number, file in enumerate(files):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        hive.write_file(tmp_path / file, [[f"{file}:{row}"] for row in range(number + 1)], row_type=ROW_TYPE)
    ours = _rows(tmp_path, {file: number + 1 for number, file in enumerate(files)})
    theirs = [(*row[:3], row.values[0]) for row in hive.read(tmp_path, row_type=ROW_TYPE)]
    assert ours == sorted(theirs)


def _rows(path: Path, counts: dict[str, int]) -> list[tuple[int, int, int, str]]:
    listing = read_listing(path)
    ids = ValidWriteIdList("d.t", 20_000_000, frozenset(), frozenset(), None)
    plan = plan_compaction(listing, ids, type=CompactionType.MAJOR, layout=Layout.HIVE3)
    rows, ends = [], dict[tuple[int, int], int]()
    for files in original_inputs(plan, listing).values():
        for file in files:
            key = file.write_id, file.bucket_property
            first = ends.get(key, 0)
            ends[key] = first + counts[file.path]
            rows += [(*key, first + row, f"{file.path}:{row}") for row in range(counts[file.path])]
    return sorted(rows)


def test_a_first_base_breaks_older_snapshots_of_hive_3_but_not_over_the_guard(
    hive3: HiveOracle, tmp_path: Path
) -> None:
    """H24: what the guard is for, and that it hides nothing while it is alone."""
    for write_id in (1, 2):
        hive3.write(tmp_path, [("insert", write_id, [str(write_id)])], row_type=ROW_TYPE, write_id=write_id)
    older = "d.t:1:9223372036854775807::"
    before = hive3.read(tmp_path, write_ids=older, row_type=ROW_TYPE)
    base = tmp_path / "base_0000002"
    hive3.write(tmp_path, [("insert", i, [str(i)]) for i in (1, 2)], row_type=ROW_TYPE, write_id=2, base=True)
    (base / METADATA_ACID).write_bytes(METADATA_ACID_CONTENT)
    with pytest.raises(OracleError, match="Not enough history"):
        hive3.read(tmp_path, write_ids=older, row_type=ROW_TYPE)
    guard = tmp_path / GUARD_BASE.name
    guard.mkdir()
    (guard / METADATA_ACID).write_bytes(METADATA_ACID_CONTENT)
    (guard / ORC_ACID_VERSION).write_bytes(b"2")
    assert hive3.read(tmp_path, write_ids=older, row_type=ROW_TYPE) == before
    base.rename(tmp_path / "_base")
    assert [row.values for row in hive3.read(tmp_path, row_type=ROW_TYPE)] == [["1"], ["2"]]
