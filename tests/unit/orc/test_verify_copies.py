"""Stripes that are copied are not decoded: their bytes are compared with what was read, their keys are checked."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sandbox.harness.orctail import rewrite_tail, write_tail

from compaction_operator.orc import (
    InputFile,
    KeyRange,
    MergeResult,
    MergeTask,
    OrcError,
    merge_bucket,
    stitch_parts,
    verify_output,
    verify_stitched,
)
from compaction_operator.orc.file import read_tail
from compaction_operator.orc.merge import engine
from compaction_operator.orc.merge.bucket_metadata import acid_metadata
from compaction_operator.orc.spec import Compression, parse_type, physical_type
from compaction_operator.orc.spec.schema import ROW_ID, acid_tree
from tests.unit.orc.build import BUCKET_0, insert_task
from tests.unit.orc.columns import layout, write

TYPES = acid_tree(parse_type("struct<id:int>"))
ROWS = 3000

Damage = Callable[[bytearray, Sequence[tuple[int, int]]], None]


@pytest.fixture(autouse=True)
def copying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stripes of any size are worth copying."""
    monkeypatch.setattr(engine, "COPY_ROWS", 1)


def delta(path: Path, write_id: int, row_ids: Sequence[int] = range(ROWS)) -> InputFile:
    """A file of one stripe with these row ids, in this order, whose tail claims that they ascend."""
    same = pa.array(np.full(len(row_ids), write_id))
    ids = pa.array(row_ids, pa.int64())
    columns = {
        1: pa.array(np.zeros(len(row_ids), np.int64)),
        2: same,
        3: pa.array(np.full(len(row_ids), BUCKET_0)),
        4: ids,
        5: same,
        6: pa.StructArray.from_arrays([ids], fields=list(physical_type(TYPES, ROW_ID))),
    }
    write(path, layout(TYPES, compression=Compression.NONE), columns)
    metadata = acid_metadata([(write_id, BUCKET_0, max(row_ids))], inserts=len(row_ids), deletes=0)
    rewrite_tail(str(path), types=TYPES, user_metadata=metadata, calendar=0)
    return InputFile(str(path))


@pytest.fixture
def task(tmp_path: Path) -> MergeTask:
    """Three deltas whose stripes have the same size."""
    return insert_task(tmp_path / "out", [delta(tmp_path / f"{write_id}", write_id) for write_id in (11, 12, 13)])


@pytest.fixture
def result(task: MergeTask) -> MergeResult:
    """Their stripes, copied."""
    result = merge_bucket(task)
    assert list(result.copied.values()) == [file.path for file in task.inputs]
    verify_output(task, result)
    return result


def flipped(stripe: int, place: float) -> Damage:
    """One bit at some place of a stripe."""

    def damage(content: bytearray, extents: Sequence[tuple[int, int]]) -> None:
        offset, length = extents[stripe]
        content[offset + int(place * (length - 1))] ^= 4

    return damage


def swapped(content: bytearray, extents: Sequence[tuple[int, int]]) -> None:
    (one, length), (other, _), _ = extents
    content[one : one + length], content[other : other + length] = (
        content[other : other + length],
        content[one : one + length],
    )


def twice(content: bytearray, extents: Sequence[tuple[int, int]]) -> None:
    (one, length), (other, _), _ = extents
    content[other : other + length] = content[one : one + length]


def lost_page(content: bytearray, extents: Sequence[tuple[int, int]]) -> None:
    offset, length = extents[2]
    content[offset + length // 2 : offset + length] = bytes(length - length // 2)


DAMAGES = {
    "the first bit of the index": flipped(0, 0),
    "a bit of a column": flipped(1, 0.7),
    "a bit of the footer": flipped(2, 1),
    "swapped": swapped,
    "twice": twice,
    "a lost page": lost_page,
}


def damage_file(path: str, damage: Damage) -> None:
    tail, content = read_tail(path), bytearray(Path(path).read_bytes())
    extents = [tail.extent(index) for index in range(3)]
    assert len({length for _, length in extents}) == 1
    damage(content, extents)
    Path(path).write_bytes(content)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_bytes_that_differ_from_what_was_read_are_found(task: MergeTask, result: MergeResult, damage: Damage):
    damage_file(result.output, damage)
    with pytest.raises(OrcError, match=r"its stripe \d has other bytes than were read or written for it") as raised:
        verify_output(task, result)
    assert raised.value.path == result.output


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_stitched_bytes_that_differ_from_their_parts_are_found(result: MergeResult, tmp_path: Path, damage: Damage):
    output = str(tmp_path / "stitched")
    stitch_parts([result], output)
    verify_stitched(output, [result])
    damage_file(output, damage)
    with pytest.raises(OrcError, match=r"its stripe \d has other bytes") as raised:
        verify_stitched(output, [result])
    assert raised.value.path == output


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_part_that_lost_bytes_before_it_is_joined_is_found(result: MergeResult, tmp_path: Path, damage: Damage):
    """It was not flushed to disk: the machine of its task may have failed meanwhile."""
    damage_file(result.output, damage)
    with pytest.raises(OrcError):
        stitched_and_verified([result], tmp_path / "stitched")


def test_a_rewritten_stripe_that_lost_bytes_before_it_is_joined_is_found(task: MergeTask, tmp_path: Path):
    """Its keys and its footer are as they were."""
    part = merge_bucket(replace(task, keys=KeyRange(to=(11, BUCKET_0, ROWS // 2))))
    assert not part.copied
    offset, length = read_tail(part.output).extent(0)
    content = bytearray(Path(part.output).read_bytes())
    content[offset + length // 2] ^= 4
    Path(part.output).write_bytes(content)
    with pytest.raises(OrcError, match="its stripe 0 has other bytes"):
        stitched_and_verified([part], tmp_path / "stitched")


def test_a_part_with_other_stripes_than_its_task_wrote_is_found(result: MergeResult, tmp_path: Path):
    with pytest.raises(OrcError, match="it has 3 stripes, not 2"):
        stitched_and_verified([replace(result, checksums=result.checksums[1:])], tmp_path / "stitched")


def test_a_part_whose_statistics_lost_bytes_before_it_is_joined_is_found(result: MergeResult, tmp_path: Path):
    """The joined file takes them over, and readers skip stripes by them."""
    content, tail = Path(result.output).read_bytes(), read_tail(result.output)
    statistics = tail.stripe_statistics[1]
    before = statistics.SerializeToString()
    statistics.column_stats[4].int_statistics.minimum += 1
    damaged = tail.metadata.replace(before, statistics.SerializeToString())
    assert len(damaged) == len(tail.metadata)
    assert damaged != tail.metadata
    Path(result.output).write_bytes(content.replace(tail.metadata, damaged))
    with pytest.raises(OrcError, match="its tail has other bytes") as raised:
        stitched_and_verified([result], tmp_path / "stitched")
    assert raised.value.path == result.output


def stitched_and_verified(parts: Sequence[MergeResult], output: Path) -> None:
    stitch_parts(parts, str(output))
    verify_stitched(str(output), parts)


def test_a_stripe_that_is_not_there_is_found(task: MergeTask, result: MergeResult):
    tail = read_tail(result.output)
    del tail.footer.stripes[2:]
    tail.footer.number_of_rows -= ROWS
    write_tail(tail)
    with pytest.raises(OrcError, match="it lacks stripe 2"):
        verify_output(task, result)


def test_a_footer_with_another_number_of_rows_is_found(task: MergeTask, result: MergeResult):
    tail = read_tail(result.output)
    tail.footer.stripes[1].number_of_rows -= 1
    tail.footer.number_of_rows -= 1
    write_tail(tail)
    with pytest.raises(OrcError, match="stream of more than 2999 values"):
        verify_output(task, result)


@pytest.mark.parametrize("name", ["rows_out_by_write_id", "rows_in_by_write_id"])
def test_counts_by_write_id_that_are_not_those_of_the_keys_are_found(task: MergeTask, result: MergeResult, name: str):
    claim: dict[str, Any] = {name: {11: 2 * ROWS, 13: ROWS}}
    with pytest.raises(OrcError, match="write id"):
        verify_output(task, replace(result, **claim))


@pytest.mark.parametrize(
    "row_ids",
    [
        [*range(1000), 1001, 1000, *range(1002, ROWS)],
        [*range(1000), 999, *range(1000, ROWS)],
        [0] * ROWS,
        [*range(1500, ROWS), *range(1500)],
        [*range(512), *range(511, ROWS)],
        range(ROWS)[::-1],
    ],
    ids=["swapped", "twice", "all the same", "halves swapped", "at the end of a run", "descending"],
)
def test_a_source_whose_keys_do_not_ascend_is_found(tmp_path: Path, row_ids: Sequence[int]):
    """Its tail claims that they do, so its stripe is copied."""
    source = delta(tmp_path / "source", 1, row_ids)
    task = insert_task(tmp_path / "out", [source])
    result = merge_bucket(task)
    assert result.copied
    with pytest.raises(OrcError, match=r"keys are not strictly ascending|does not end with the key"):
        verify_output(task, result)
