"""The laws notice what they are there for."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.acid.snapshot import Obsolete
from compaction_operator.api.compaction import CompactionType
from compaction_operator.driver.offline import Compacted, compact_directory
from tests.integration.oracle import laws
from tests.integration.oracle.hive import HiveOracle
from tests.integration.oracle.laws import Broken, Case, View, check, check_deletion

ROW_TYPE = "struct<a:int>"


def _case(hive: HiveOracle, directory: Path, kind: CompactionType) -> Case:
    """Two writes of two rows."""
    for write_id in (1, 2):
        events = [("insert", write_id, [number]) for number in (1, 2)]
        hive.write(directory, events, row_type=ROW_TYPE, write_id=write_id)
    current = View("d.t:2:9223372036854775807::")
    return Case(hive=hive, directory=directory, row_type=ROW_TYPE, current=current, older=[], type=kind)


def _spoiled(spoil: Callable[[Path], None]) -> Callable[..., Compacted]:
    def compact(location: str, **options: Any) -> Compacted:
        done = compact_directory(location, **options)
        spoil(Path(location))
        return done

    return compact


def test_a_lost_row_is_noticed(hive3: HiveOracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = _case(hive3, tmp_path, CompactionType.MAJOR)
    monkeypatch.setattr(
        laws, "compact_directory", _spoiled(lambda path: (path / "base_0000002" / "bucket_00000").unlink())
    )
    with pytest.raises(Broken, match="0 rows instead of 4"):
        check(case, guarded=False)


def test_a_doubled_row_is_noticed(hive3: HiveOracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def double(path: Path) -> None:
        delta = path / "delta_0000001_0000002"
        shutil.copy(delta / "bucket_00000", delta / "bucket_00001")

    case = _case(hive3, tmp_path, CompactionType.MINOR)
    monkeypatch.setattr(laws, "compact_directory", _spoiled(double))
    with pytest.raises(Broken, match="some of 4 rows more than once"):
        check(case, guarded=False)


def test_a_deletion_of_what_is_needed_is_noticed(hive3: HiveOracle, tmp_path: Path) -> None:
    case = _case(hive3, tmp_path, CompactionType.MINOR)
    plan = check(case, guarded=False)
    too_much = replace(plan, obsolete=(*plan.obsolete, Obsolete("delta_0000001_0000002", "none")))
    with pytest.raises(Broken, match="after the deletion"):
        check_deletion(case, too_much)
