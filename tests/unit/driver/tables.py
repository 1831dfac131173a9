"""Copies of the fixtures' tables, prepared for a compaction, and what is in the files that one writes."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.orc as po

from compaction_operator.acid.plan import Layout
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.driver.merge.execute import merge
from compaction_operator.driver.merge.partition import Merged, OpenTarget, Prepared, Request, make_staging, prepare
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.orc import MergeResult, MergeTask
from compaction_operator.storage import LocalStorage

FIXTURES = Path(__file__).parents[2] / "fixtures"
STORAGE = LocalStorage()
STAGING = "_compaction_0f8c-1-pod"
MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
NOTHING_OPEN = f"{2**63 - 1}::"


def copied(place: Path, fixture: str) -> Path:
    """A copy of a table that real Hive 3.1.3 wrote."""
    shutil.copytree(FIXTURES / "hive-3.1.3" / fixture / "before", place)
    return place


def planned(table: Path, write_ids: str, kind: CompactionType, **more: Any) -> Prepared:
    """A table's directory, planned and cut."""
    target = OpenTarget("", str(table), 0, STAGING)
    make_staging(target)
    request = Request(kind, **{"layout": Layout.HIVE3} | more)
    seen = target.storage.list_partition(str(table))
    return prepare(target, seen, write_ids=ValidWriteIdList.parse(write_ids), request=request)


def prepared(place: Path, fixture: str, kind: CompactionType, **more: Any) -> Prepared:
    """A copy of a fixture's table, planned and cut as of the fixture's own write ids."""
    write_ids = (FIXTURES / "hive-3.1.3" / fixture / f"writeids-{kind.lower()}-before.txt").read_text().strip()
    return planned(copied(place / "table", fixture), write_ids, kind, **more)


def merged(work: Prepared) -> Merged:
    """The partition with the results of all buckets."""
    (found,) = merge([work], LocalRunner())
    assert found.error is None, found.error
    return found


def results(found: Merged) -> list[MergeResult]:
    """The results of all buckets."""
    return [one.result for one in found.buckets]


def falsified(found: Merged, number: int, **changes: Any) -> Merged:
    """The partition with other counts in one bucket's result."""
    buckets = list(found.buckets)
    buckets[number] = replace(buckets[number], result=replace(buckets[number].result, **changes))
    return replace(found, buckets=tuple(buckets))


def tasks(work: Prepared) -> list[MergeTask]:
    """The whole task of each bucket."""
    return [bucket.whole for bucket in work.buckets]


def events(path: str) -> list[str]:
    """What another reader of ORC sees in a file, column by column, as text: NaN is like NaN there."""
    columns = po.ORCFile(path).read().combine_chunks().columns
    return [column.to_string(window=10_000, container_window=10_000) for column in columns]
