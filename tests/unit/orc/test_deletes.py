"""Delete events are read in ranges that fit into memory, each event once, whatever a stripe holds."""

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pytest

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc import DEFAULT_TASK_MEMORY, InputFile, KeyRange, OrcError
from compaction_operator.orc.file import OrcWriter
from compaction_operator.orc.merge import deletes, output
from compaction_operator.orc.merge.deletes import delete_windows
from compaction_operator.orc.merge.keys import Keys
from compaction_operator.orc.merge.output import DeleteFile
from compaction_operator.orc.merge.source import open_source
from compaction_operator.orc.spec import parse_type
from compaction_operator.orc.spec.schema import acid_tree
from tests.unit.orc.build import ALL_VALID, BUCKET_0, SCHEMA, delete, write_acid
from tests.unit.orc.columns import layout

TYPES = acid_tree(parse_type("struct<id:int>"))
EVENTS = int(os.environ.get("DELETE_EVENTS", "400000"))
"""The long form sets 20000000: that many events with the default memory of a task."""

MEMORY = DEFAULT_TASK_MEMORY * EVENTS // 20_000_000


def events_of(by: int, count: int, *, rows_each: int) -> Keys:
    """Events that delete every third to fifth row, of several write ids."""
    numbers = np.cumsum(np.random.default_rng(by).integers(3, 6, count))
    return Keys(numbers // rows_each + 1, np.full(count, BUCKET_0), numbers % rows_each, np.full(count, by))


def delete_file(path: Path, keys: Keys) -> InputFile:
    """A delete delta's file with all events in one stripe."""
    with OrcWriter(str(path), layout(TYPES)) as writer:
        file = DeleteFile(writer, TYPES)
        file.add(keys)
        file.finish()
    return InputFile(str(path))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[InputFile]:
    """Two delete deltas whose keys interleave; each has one large stripe."""
    monkeypatch.setattr(output, "DELETES_PER_STRIPE", EVENTS)
    return [delete_file(tmp_path / f"{by}", events_of(by, EVENTS // 2, rows_each=EVENTS // 3)) for by in (1000, 999)]


def windows(files: list[InputFile], memory: int) -> Iterator[tuple[KeyRange, Keys]]:
    sources = [open_source(file) for file in files]
    for range_, events in delete_windows(sources, KeyRange(), ValidWriteIdList.parse(ALL_VALID), memory=memory):
        yield range_, events.all()


def test_memory_does_not_grow_with_the_events_of_a_stripe(files: list[InputFile]):
    """Each event comes once and in order, and all memory that numpy takes is within the limit."""
    found, last = 0, None
    tracemalloc.start()
    try:
        for _, keys in windows(files, MEMORY):
            ends = Keys.concatenate([last, keys[:1]]) if last else keys[:1]
            assert ends.first_not_ascending() is keys.first_not_ascending() is None
            found, last = found + len(keys), keys[-1:]
            del keys
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == EVENTS // 2 * 2
    assert peak < MEMORY


@pytest.mark.parametrize("block", [1, 7, 1000, 10**6])
def test_the_events_are_the_same_whatever_is_decoded_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
):
    keys = events_of(5, 2000, rows_each=700)
    file = delete_file(tmp_path / "d", keys)
    monkeypatch.setattr(deletes, "_BLOCK", block)
    for memory in (300_000, 10**9):
        parts = [events for _, events in windows([file], memory)]
        assert (len(parts) > 1) == (memory == 300_000)
        both = zip(Keys.concatenate(parts).columns, keys.columns, strict=True)
        assert all(np.array_equal(one, other) for one, other in both)


def test_events_of_one_row_stay_together_and_once(tmp_path: Path):
    one = write_acid(tmp_path / "a", [delete(1, row, by=by) for row in range(300) for by in (9, 8)])
    two = write_acid(tmp_path / "b", [delete(1, row, by=8) for row in range(300)])
    ranges = [(range_, {*keys.row_id.tolist()}, len(keys)) for range_, keys in windows([one, two], 10_000)]
    assert len(ranges) > 2
    assert sum(count for *_, count in ranges) == 600
    assert sum(len(rows) for _, rows, _ in ranges) == 300


def test_a_file_of_other_events_is_refused(tmp_path: Path):
    file = write_acid(tmp_path / "a", [(2, 1, BUCKET_0, 0, 5, None), (0, 1, BUCKET_0, 1, 1, {"id": 1, "s": "x"})])
    with pytest.raises(OrcError, match=r"a: column operation is 0, expected 2"):
        list(windows([file], 10**9))


def test_a_file_with_nulls_in_its_keys_is_refused(tmp_path: Path):
    event = dict(zip(SCHEMA.names, [2, 1, BUCKET_0, None, 5, None], strict=True))
    po.write_table(pa.Table.from_pylist([event], schema=SCHEMA), str(tmp_path / "a"))
    with pytest.raises(OrcError, match="a: stripe 0: column rowId: it has nulls"):
        list(windows([InputFile(str(tmp_path / "a"))], 10**9))
