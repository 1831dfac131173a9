"""Which files a large bucket is cut by, and what becomes of those that were not opened. Pure."""

from pathlib import Path

from compaction_operator.acid.names import AcidDirectory
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.driver.merge.buckets import (
    SKETCHED_FILES,
    Bucket,
    BucketSource,
    Cutting,
    bucket_work,
    files_to_sketch,
)
from compaction_operator.orc import FileSketch, InputFile, KeyRange, MergeTask, StripeSketch

CUTTING = Cutting(ValidWriteIdList.parse(f"d.t:200:{2**63 - 1}::"), row_type=None, memory=2000, scratch="/s")
DELTA, DELETES = AcidDirectory.delta(1, 200), AcidDirectory.delete_delta(1, 200)
BUCKET = 536870912


def source(write_id: int, size: int) -> BucketSource:
    return BucketSource(InputFile(f"/t/delta_{write_id}/bucket_00000"), size, write_id)


def parts(bucket: Bucket, sketches: dict[str, FileSketch]) -> list[tuple[KeyRange, int, str]]:
    work = bucket_work(bucket, CUTTING, sketches=sketches).parts
    tasks = [(piece.task, piece.bytes) for piece in work]
    return [(task.keys, size, Path(task.output).name) for task, size in tasks if isinstance(task, MergeTask)]


def test_of_a_large_bucket_the_largest_files_are_opened_and_no_more() -> None:
    bucket = Bucket(DELTA, 0, tuple(source(number, number) for number in range(1, 201)))
    found = files_to_sketch(bucket, CUTTING)
    assert len(found) == SKETCHED_FILES
    assert set(found) == {f"/t/delta_{number}/bucket_00000" for number in range(201 - SKETCHED_FILES, 201)}


def test_of_a_bucket_that_fits_none_is_opened() -> None:
    assert files_to_sketch(Bucket(DELTA, 0, (source(1, 1000),)), CUTTING) == []


def test_files_that_were_not_opened_end_with_their_write_ids() -> None:
    bucket = Bucket(DELTA, 0, (source(1, 900), source(2, 900), source(3, 900)))
    first = (1, 2**31 - 1, 2**63 - 1)
    second = (2, 2**31 - 1, 2**63 - 1)
    assert parts(bucket, {}) == [
        (KeyRange(None, first), 900, "delta_0000001_0000200-bucket_00000.part0"),
        (KeyRange(first, second), 900, "delta_0000001_0000200-bucket_00000.part1"),
        (KeyRange(second, None), 900, "delta_0000001_0000200-bucket_00000.part2"),
    ]


def test_a_file_is_cut_where_its_stripes_end() -> None:
    stripes = tuple(StripeSketch(10, 500, (1, BUCKET, row)) for row in (9, 19, 29, 39))
    bucket = Bucket(DELTA, 0, (source(1, 2000),), (source(5, 100),))
    sketches = {"/t/delta_1/bucket_00000": FileSketch(40, 2000, stripes)}
    middle = (1, BUCKET, 19)
    assert parts(bucket, sketches) == [
        (KeyRange(None, middle), 1050, "delta_0000001_0000200-bucket_00000.part0"),
        (KeyRange(middle, None), 1050, "delta_0000001_0000200-bucket_00000.part1"),
    ]


def test_delete_events_that_do_not_say_where_they_end_are_not_cut() -> None:
    """A delete delta's write ids are those of the deleters, not of the keys."""
    files = tuple(BucketSource(InputFile(f"/t/{number}"), 900) for number in range(3))
    assert parts(Bucket(DELETES, 0, files), {}) == [(KeyRange(), 2700, "delete_delta_0000001_0000200-bucket_00000")]


def test_every_part_reads_all_files() -> None:
    """None is left out by what its name says: a row would be lost silently where it is wrong."""
    bucket = Bucket(DELTA, 0, (source(1, 900), source(2, 900)))
    work = bucket_work(bucket, CUTTING, sketches={})
    inputs = {piece.task.inputs for piece in work.parts if isinstance(piece.task, MergeTask)}
    assert inputs == {tuple(one.file for one in bucket.inputs)}
