"""A written file that is not what the engine says is never published: each kind of damage is found."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sandbox.harness.orctail import frame_plain, rewrite_tail, write_tail

from compaction_operator.orc import InputFile, MergeResult, MergeTask, OrcError, merge_bucket, verify_output
from compaction_operator.orc.encoding import decompress
from compaction_operator.orc.file import read_tail
from compaction_operator.orc.merge import engine
from compaction_operator.orc.spec.messages import Metadata
from tests.unit.orc.build import FIXTURES, Event, delete, delete_task, insert, insert_task, metadata_of, write_acid

ROWS = [insert(1, 0), insert(1, 1), insert(2, 0), insert(3, 0)]


@pytest.fixture
def task(tmp_path: Path) -> MergeTask:
    """Four rows. One of them is deleted."""
    inputs = [write_acid(tmp_path / "a", ROWS)]
    deletes = [write_acid(tmp_path / "d", [delete(1, 1, by=4)])]
    return insert_task(tmp_path / "out", inputs, deletes)


@pytest.fixture
def result(task: MergeTask) -> MergeResult:
    """A good merge of them."""
    return merge_bucket(task)


def replaced(result: MergeResult, rows: list[Event]) -> str:
    """Put other events, with user metadata that fits them, in the place of the output."""
    Path(result.output).unlink()
    return write_acid(Path(result.output), rows).path


def test_a_good_output_passes(task: MergeTask, result: MergeResult):
    verify_output(task, result)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([insert(1, 0), insert(2, 0)], "it holds 2 events, not 3"),
        ([insert(1, 0), insert(2, 0), insert(3, 0), insert(3, 1)], "it holds 4 events"),
        ([insert(1, 0), insert(2, 0), insert(2, 1)], "rows by write id differ from those that were written"),
        ([insert(1, 0), insert(3, 0), insert(2, 0)], "its keys contradict"),
        ([insert(1, 0), insert(2, 0), delete(3, 0, by=4)], "column operation is 2"),
    ],
    ids=["lost", "doubled", "of another write id", "out of order", "a delete event"],
)
def test_a_damaged_output_is_found(task: MergeTask, result: MergeResult, rows: list[Event], reason: str):
    path = replaced(result, rows)
    with pytest.raises(OrcError, match=reason) as caught:
        verify_output(task, result)
    assert str(caught.value).startswith(path)


def test_a_damaged_stripe_that_was_copied_is_put_down_to_the_file_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What is copied is not decoded before. Here the streams are overwritten; the tail is whole."""
    monkeypatch.setattr(engine, "COPY_ROWS", 0)
    path = copy_of_hives_file(tmp_path)
    stripe = read_tail(str(path)).footer.stripes[0]
    with path.open("r+b") as file:
        file.seek(stripe.offset + stripe.index_length)
        file.write(b"\xff" * stripe.data_length)
    task = insert_task(tmp_path / "out", [InputFile(str(path))])
    result = merge_bucket(task)
    assert list(result.copied.values()) == [str(path)]
    with pytest.raises(OrcError, match=f"^{path}: has a wrong stripe, which was copied into {result.output}: "):
        verify_output(task, result)


def test_a_stripe_that_was_copied_ends_with_the_key_of_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engine, "COPY_ROWS", 0)
    path = copy_of_hives_file(tmp_path)
    tail = read_tail(str(path))
    index = {"hive.acid.key.index": b"1,536870912,77;"}
    rewrite_tail(str(path), types=tail.types, user_metadata=tail.user_metadata | index, calendar=0)
    task = insert_task(tmp_path / "out", [InputFile(str(path))])
    with pytest.raises(OrcError, match=f"^{path}: has a wrong stripe.* does not end with the key"):
        verify_output(task, merge_bucket(task))


def test_a_stripe_that_was_copied_has_the_write_ids_of_its_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """They are what its rows are counted by."""
    monkeypatch.setattr(engine, "COPY_ROWS", 0)
    path = copy_of_hives_file(tmp_path)
    tail = read_tail(str(path))
    metadata = Metadata.FromString(decompress(tail.metadata, codec=tail.compression, block_size=tail.block_size))
    write_ids = metadata.stripe_stats[0].column_stats[2].int_statistics
    write_ids.minimum = write_ids.maximum = 0
    changed = frame_plain(metadata.SerializeToString(), codec=tail.compression, block_size=tail.block_size)
    write_tail(replace(tail, metadata=changed))
    task = insert_task(tmp_path / "out", [InputFile(str(path))])
    with pytest.raises(OrcError, match=f"^{path}: has a wrong stripe.* has write ids outside its statistics"):
        verify_output(task, merge_bucket(task))


def copy_of_hives_file(folder: Path) -> Path:
    """A file of one insert event by Hive 3.1."""
    found = FIXTURES / "hive-3.1.3" / "try_it" / "before"
    return Path(shutil.copy(next(found.glob("**/delta_0000001_0000001_0000/bucket_00000")), folder / "bucket_00000"))


def test_a_key_that_comes_twice_is_found(tmp_path: Path):
    rows = [insert(1, 0), insert(1, 0)]
    path = write_acid(tmp_path / "out", rows).path
    by_write_id = {1: 2}
    claimed = MergeResult(
        output=path, rows_in=2, rows_out=2, rows_in_by_write_id=by_write_id, rows_out_by_write_id=by_write_id
    )
    with pytest.raises(OrcError, match="not strictly ascending"):
        verify_output(insert_task(Path(path), []), claimed)


@pytest.mark.parametrize(
    "claim",
    [
        {"rows_in": 5},
        {"rows_deleted": 0},
        {"rows_in": 3, "rows_deleted": 0},
        {"rows_in_by_write_id": {1: 2, 2: 2}, "rows_out_by_write_id": {1: 1, 2: 1, 3: 1}},
    ],
)
def test_counts_that_do_not_add_up_are_found(task: MergeTask, result: MergeResult, claim: dict[str, Any]):
    with pytest.raises(OrcError, match="rows"):
        verify_output(task, replace(result, **claim))


@pytest.mark.parametrize("write_ids", ["d.t:2:9223372036854775807::", "d.t:4:3:3:", "d.t:4:9223372036854775807::3"])
def test_an_event_of_a_write_id_that_is_not_valid_is_found(task: MergeTask, result: MergeResult, write_ids: str):
    """Hazard H8: above the mark, open, aborted. In a compacted file it would come to life."""
    with pytest.raises(OrcError, match=r"its event of \(3, .*\) has the write id 3, which is not valid"):
        verify_output(replace(task, write_ids=write_ids), result)


@pytest.mark.parametrize("name", ["hive.acid.key.index", "hive.acid.stats", "hive.acid.version"])
def test_user_metadata_that_is_not_of_the_rows_is_found(task: MergeTask, result: MergeResult, name: str):
    tail = read_tail(result.output)
    metadata = metadata_of([insert(1, 0), insert(2, 0), insert(3, 0)], tail.stripe_rows)
    assert tail.user_metadata == metadata
    rewrite_tail(result.output, types=tail.types, user_metadata=metadata | {name: b"9"}, calendar=0)
    with pytest.raises(OrcError, match=f"user metadata {name}"):
        verify_output(task, result)


def test_a_lost_delete_event_is_found(tmp_path: Path):
    inputs = [write_acid(tmp_path / "d", [delete(1, 0, by=3), delete(1, 1, by=3)])]
    task = delete_task(tmp_path / "out", inputs)
    result = merge_bucket(task)
    verify_output(task, result)
    replaced(result, [delete(1, 0, by=3)])
    with pytest.raises(OrcError, match="it holds 1 events, not 2"):
        verify_output(task, result)


def test_a_cut_off_output_is_found(task: MergeTask, result: MergeResult):
    content = Path(result.output).read_bytes()
    Path(result.output).write_bytes(content[:-20])
    with pytest.raises(OrcError, match="not a readable ORC file"):
        verify_output(task, result)
