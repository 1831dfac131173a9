"""A column that became wider: merged or not, rows from before have the values that Hive gives them."""

from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.compaction import HIVE_TYPES, CompactionType
from tests.integration.oracle.hive import HiveOracle
from tests.integration.oracle.laws import Case, View, check, check_deletion

WIDENED: list[tuple[str, str, list[Any]]] = [
    ("tinyint", "smallint", [-128, 127, None]),
    ("smallint", "int", [-32768, 32767, None]),
    ("int", "bigint", [-(2**31), 2**31 - 1, None]),
    ("smallint", "float", [-32768, 32767, None]),
    ("int", "double", [-(2**31), 2**31 - 1, None]),
    ("bigint", "string", [-(2**63), 2**63 - 1, 0, None]),
    ("varchar(3)", "string", ["ab ", "abc", "", None]),
    ("char(3)", "char(6)", ["ab", "abc", "", None]),
    ("varchar(3)", "varchar(6)", ["ab ", "abc", "", None]),
    ("decimal(5,2)", "decimal(8,2)", ["1.25", "-999.99", None]),
    ("decimal(5,2)", "decimal(8,4)", ["1.25", "-999.99", None]),
    ("decimal(17,2)", "decimal(38,20)", ["999999999999999.99", "-0.01", None]),
]


@pytest.mark.parametrize("kind", HIVE_TYPES)
@pytest.mark.parametrize("version", [3, 4])
def test_values_of_the_narrow_type_read_as_before(
    version: int, kind: CompactionType, oracles: dict[int, HiveOracle], tmp_path: Path
) -> None:
    hive = oracles[version]
    rows = [[values[i % len(values)] for _, _, values in WIDENED] for i in range(14)]
    for write_id, side in ((1, 0), (2, 1)):
        row_type = "struct<" + ",".join(f"c{i}:{column[side]}" for i, column in enumerate(WIDENED)) + ">"
        hive.write(tmp_path, [("insert", write_id, row) for row in rows], row_type=row_type, write_id=write_id)
    case = Case(
        hive=hive,
        directory=tmp_path,
        row_type=row_type,
        current=View("d.t:2:9223372036854775807::"),
        older=[View("d.t:1:9223372036854775807::", "8:9223372036854775807::")],
        type=kind,
        txn=9 if version == 4 else None,
    )
    check_deletion(case, check(case, guarded=True))
