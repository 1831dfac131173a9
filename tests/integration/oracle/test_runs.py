"""Columns that were renamed, dropped or changed: deltas merged in runs of one row type read as before."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from compaction_operator.acid.names import INT64_MAX
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from tests.integration.oracle.hive import HiveOracle, Row
from tests.integration.oracle.laws import Case, Refused, View, check, check_deletion

TABLE = "struct<a:int,b:double,c:string>"
FORMER = ["struct<a:int,b:float,c:string>", "struct<a:int,b:double,old:string>", "struct<a:smallint,b:double>", TABLE]
"""The row types of the files: with another type of a column, another name, fewer and smaller columns, and today's."""

WRITES = 9


def values(rng: Random, row_type: str) -> list[Any]:
    """A row; 0.1 as a float is another double to Hive 4 than to Hive 3."""
    row = [rng.choice([None, 1, 7, -5]), rng.choice([None, 0.1, 1.5, -0.25]), rng.choice([None, "x", "y"])]
    return row[: row_type.count(":")]


def history(hive: HiveOracle, directory: Path, rng: Random) -> set[int]:
    """Let Hive write; the row type changes now and then. Return the write ids that were aborted."""
    row_type, aborted, there = FORMER[0], set[int](), list[Row]()
    for write_id in range(1, WRITES + 1):
        row_type = rng.choice(FORMER) if rng.random() < 0.35 else row_type
        for statement in range(rng.choice([1, 1, 2])):
            changed = sorted({row[:3] for row in rng.sample(there, min(2, len(there)))})
            there = [row for row in there if row[:3] not in changed]
            events: list[tuple[Any, ...]] = [("insert", write_id, values(rng, row_type)) for _ in range(2)]
            events += [("delete", write_id, key) for key in changed if rng.random() < 0.8]
            hive.write(directory, events, row_type=row_type, write_id=write_id, statement=statement)
        if rng.random() < 0.15:
            aborted.add(write_id)
        there = hive.read(directory, write_ids=str(ids(write_id, aborted)), row_type=TABLE)
    return aborted


def ids(last: int, aborted: set[int], *open_: int) -> ValidWriteIdList:
    """The write ids of a snapshot."""
    gone = frozenset(write_id for write_id in aborted if write_id <= last) - {*open_}
    return ValidWriteIdList(last, frozenset(open_), gone, min(open_, default=None), table="d.t")


@pytest.mark.parametrize(("seed", "declared"), [(0, True), (2, False)])
@pytest.mark.parametrize("version", [3, 4])
def test_rows_of_every_row_type_read_as_before_by_every_snapshot(
    version: int, seed: int, declared: bool, oracles: dict[int, HiveOracle], tmp_path: Path
) -> None:
    rng = Random(seed)
    aborted = history(oracles[version], tmp_path, rng)
    older = [View(str(ids(last, aborted)), f"8:{INT64_MAX}::") for last in range(2, WRITES, 3)]
    older += [View(str(ids(WRITES, aborted, open_)), f"8:{INT64_MAX}::") for open_ in (5,)]
    case = Case(
        hive=oracles[version],
        directory=tmp_path,
        row_type=TABLE,
        current=View(str(ids(WRITES, aborted, *([WRITES] if declared else ())))),
        older=older,
        type=CompactionType.MINOR,
        txn=9 if version == 4 else None,
        declared=declared,
    )
    assert not [seen for seen in case.see_all([case.current, *older]).values() if isinstance(seen, str)]
    plan = check(case, guarded=False)
    assert len([output for output in plan.outputs if output.name.startswith("delta")]) > 1
    check_deletion(case, plan)


@pytest.mark.parametrize("version", [3, 4])
def test_a_major_says_what_to_do_and_writes_nothing(
    version: int, oracles: dict[int, HiveOracle], tmp_path: Path
) -> None:
    for write_id, row_type in enumerate(FORMER[:2], 1):
        row = values(Random(1), row_type)
        oracles[version].write(tmp_path, [("insert", write_id, row)], row_type=row_type, write_id=write_id)
    before = sorted(tmp_path.rglob("*"))
    case = Case(
        hive=oracles[version],
        directory=tmp_path,
        row_type=TABLE,
        current=View(str(ids(2, set()))),
        older=(),
        type=CompactionType.MAJOR,
        txn=9 if version == 4 else None,
        declared=True,
    )
    with pytest.raises(Refused, match="Minor merges the deltas in runs"):
        check(case, guarded=False)
    assert sorted(tmp_path.rglob("*")) == before
