"""What the oracle itself must be able to do, else nothing that it says about compactions counts."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.oracle.hive import HiveOracle, OracleError, Row

FIXTURES = Path(__file__).parents[2] / "fixtures"
BUCKET = 536870912
EVERY_TYPE: dict[str, list[Any]] = {
    "boolean": [True, False, None],
    "tinyint": [-128, 127, None],
    "smallint": [-32768, 32767],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1, None],
    "float": [1.5, "-0.0", "NaN", "Infinity", 1.401298464324817e-45],
    "double": [0.1, "-0.0", "NaN", "-Infinity", 5e-324, 1.7976931348623157e308],
    "decimal(38,10)": ["-1.5", "9999999999999999999999999999.9999999999", "0"],
    "string": ["", "Grüße 🙂 \u0000", {"bytes": "/w=="}, None],
    "varchar(5)": ["ab", "ab  "],
    "binary": ["AP8=", "", None],
    "date": ["0001-01-01", "1582-10-04", "9999-12-31"],
    "timestamp": ["0001-01-01T00:00", "9999-12-31T23:59:59.999999999", "1969-12-31T23:59:58.500"],
    "array<int>": [[], [1, None], None],
    "map<string,int>": [[["k", 1]], [], None],
    "struct<x:int,y:string>": [[1, None], None],
    "uniontype<int,string>": [{"tag": 0, "value": 1}, {"tag": 1, "value": "s"}, {"tag": 1, "value": None}, None],
}


@pytest.fixture(params=[3, 4])
def hive(request: pytest.FixtureRequest, hive3: HiveOracle, hive4: HiveOracle) -> HiveOracle:
    """Each version in turn."""
    return hive3 if request.param == 3 else hive4


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_value_of_every_type_comes_back_as_it_was_given(hive: HiveOracle, tmp_path: Path, vectorized: bool) -> None:
    row_type = "struct<" + ",".join(f"c{i}:{name}" for i, name in enumerate(EVERY_TYPE)) + ">"
    columns = list(EVERY_TYPE.values())
    rows = [[column[i % len(column)] for column in columns] for i in range(6)]
    hive.write(tmp_path, [("insert", 1, row) for row in rows], row_type=row_type, write_id=1)
    seen = hive.read(tmp_path, row_type=row_type, vectorized=vectorized)
    assert seen == [Row(1, BUCKET, i, row) for i, row in enumerate(rows)]


@pytest.mark.parametrize("vectorized", [False, True])
def test_updates_and_deletes_hide_what_they_replace(hive: HiveOracle, tmp_path: Path, vectorized: bool) -> None:
    row_type = "struct<a:int>"
    hive.write(
        tmp_path,
        [("insert", 1, [1]), ("insert", 1, [2]), ("flush",), ("insert", 1, [3])],
        row_type=row_type,
        write_id=1,
    )
    hive.write(
        tmp_path, [("update", 2, (1, BUCKET, 0), [9]), ("delete", 2, (1, BUCKET, 1))], row_type=row_type, write_id=2
    )
    assert hive.read(tmp_path, vectorized=vectorized) == [Row(1, BUCKET, 2, [3]), Row(2, BUCKET, 0, [9])]
    before = hive.read(tmp_path, vectorized=vectorized, write_ids="d.t:1:9223372036854775807::")
    assert [row.values for row in before] == [[1], [2], [3]]


def test_hives_own_merge_gives_what_its_compactor_publishes(hive: HiveOracle, tmp_path: Path) -> None:
    """On Hive 4 of files that bear the number of the attempt which wrote them, too."""
    deltas = [tmp_path / f"delta_000000{write_id}_000000{write_id}_0000" for write_id in (1, 2)]
    for write_id in (1, 2):
        attempt = write_id - 1 if hive.version == 4 else None
        rows = [("insert", write_id, [write_id])]
        hive.write(tmp_path, rows, row_type="struct<a:int>", write_id=write_id, attempt=attempt)
    hive.compact(deltas, tmp_path, major=True, bucket=0, row_type="struct<a:int>", min_write_id=1, max_write_id=2)
    (tmp_path / "base_0000002" / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
    assert hive.state(tmp_path).base == "base_0000002"
    assert sorted(hive.state(tmp_path).obsolete) == sorted(delta.name for delta in deltas)
    assert [row.values for row in hive.read(tmp_path)] == [[1], [2]]


def test_a_search_reads_only_row_groups_that_may_match(hive: HiveOracle, tmp_path: Path) -> None:
    settings = {"orc.row.index.stride": "1000"}
    hive.write_file(tmp_path / "f", [[i] for i in range(5000)], row_type="struct<a:int>", settings=settings)
    leaf: dict[str, Any] = {"test": "equals", "column": "a", "kind": "long", "values": [2500]}
    assert hive.search(tmp_path / "f", leaf) == [(i, [i]) for i in range(2000, 3000)]
    assert len(hive.search(tmp_path / "f")) == 5000


def test_hives_own_error_is_reported(hive: HiveOracle, tmp_path: Path) -> None:
    (tmp_path / "delta_0000001_0000001_0000").mkdir()
    (tmp_path / "delta_0000001_0000001_0000" / "bucket_00000").write_text("no ORC at all, but some bytes")
    with pytest.raises(OracleError, match="Malformed ORC file"):
        hive.read(tmp_path, row_type="struct<a:int>")
