"""Where a batch is merged: decided by its load, the compaction's executors, and the profile's limit."""

import pytest

from compaction_operator.acid.names import parse_directory
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import AUTO, ExecutorResources
from compaction_operator.driver.merge.buckets import COPIED_FROM, Bucket, BucketSource, Cutting, bucket_work
from compaction_operator.driver.merge.load import (
    REMOTE_SECONDS,
    REWRITTEN_PER_SECOND,
    ROWS_PER_SECOND,
    Load,
)
from compaction_operator.driver.merge.placement import (
    EXECUTOR_SECONDS,
    LOCAL_SECONDS,
    PATIENCE_SECONDS,
    Limits,
    Past,
    Placement,
    place,
    place_rest,
)
from compaction_operator.orc import InputFile, OriginalRows

SECOND = Load(rewritten=REWRITTEN_PER_SECOND)
"""The work of one core in a second."""


def work(seconds: float) -> Load:
    return SECOND.scaled(seconds)


def placed(load: Load, instances: object = AUTO, *, most: int = 4, tasks: int = 100, spent: float = 0.0) -> Placement:
    executors = ExecutorResources.model_validate({"instances": instances, "cores": 2})
    return place(load, Limits(executors, most=most), tasks=tasks, past=Past(spent))


@pytest.mark.parametrize("instances", [AUTO, 0])
def test_small_work_is_done_in_the_driver_and_larger_work_is_not(instances: object) -> None:
    assert placed(work(LOCAL_SECONDS), instances).executors is None
    assert placed(work(LOCAL_SECONDS + 0.1), instances).executors is not None


@pytest.mark.parametrize("load", [Load(), work(1), work(10_000)])
def test_a_number_of_executors_is_what_the_compaction_gets(load: Load) -> None:
    """However small the work is, and beyond the limit for Auto: the demo shows executors by it."""
    assert placed(load, 7, most=1).executors == 7


def test_with_0_no_work_is_large_enough_for_executors() -> None:
    assert placed(work(10_000), 0).executors == 0


@pytest.mark.parametrize(
    ("minutes", "most", "tasks", "executors"),
    [
        (0.3, 4, 100, 1),
        (2, 4, 100, 1),
        (6, 4, 100, 3),
        (600, 4, 100, 4),
        (600, 9, 5, 3),
        (600, 0, 100, 0),
    ],
)
def test_auto_gives_each_core_a_minute_of_work(minutes: float, most: int, tasks: int, executors: int) -> None:
    """An executor has two cores. There are never more than tasks or the profile's limit."""
    assert placed(work(minutes * EXECUTOR_SECONDS), most=most, tasks=tasks).executors == executors


def test_a_table_of_100_gb_gets_executors_without_being_asked() -> None:
    assert placed(Load(files=1000, copied=100 * 10**9)).executors == 2
    assert placed(Load(files=1000, rewritten=100 * 10**9)).executors == 4


def test_auto_takes_the_first_batch_for_a_sample_of_all() -> None:
    """Else a table of many partitions would keep the executor that its first batch was worth."""
    executors = ExecutorResources(cores=1)
    batches = [
        place(work(60), Limits(executors, most=9, batches=count), tasks=32, past=Past()) for count in (1, 5, 100)
    ]
    assert [one.executors for one in batches] == [1, 5, 9]


def test_earlier_batches_count() -> None:
    """Many small batches are large work."""
    assert placed(work(4), spent=5).executors is None
    assert placed(work(4), spent=7).executors is not None


@pytest.mark.parametrize(
    ("load", "instances", "spent", "why"),
    [
        (
            Load(files=3, copied=12_000_000, rewritten=6_000_000),
            AUTO,
            0.0,
            "12 MB to copy, 6.0 MB to rewrite: about 0.3 s on one core; done in the driver",
        ),
        (
            Load(rewritten=2_400_000_000, events=40_000),
            AUTO,
            0.0,
            "0 to copy, 2.4 GB to rewrite, 40000 delete events: about 100 s on one core; done by Spark on 1 executor",
        ),
        (Load(), 2, 0.0, "0 to copy, 0 to rewrite: about 0.0 s on one core; done by Spark on 2 executors, as asked"),
        (
            work(9),
            0,
            1.5,
            "0 to copy, 216 MB to rewrite: about 9.0 s on one core, after 1.5 s for earlier batches; "
            "done by Spark in the driver's pod",
        ),
    ],
)
def test_a_line_says_where_and_why(load: Load, instances: object, spent: float, why: str) -> None:
    assert placed(load, instances, spent=spent).why == why


def test_many_rows_in_few_bytes_are_large_work() -> None:
    """Columns with few values take almost no bytes."""
    assert placed(Load(rewritten=100, rows=int(LOCAL_SECONDS * ROWS_PER_SECOND))).executors is None
    assert placed(Load(rewritten=100, rows=2 * int(LOCAL_SECONDS * ROWS_PER_SECOND))).executors is not None


def test_many_files_of_a_store_over_the_network_are_large_work() -> None:
    """Each takes a few requests, one after the other."""
    files = int(LOCAL_SECONDS / REMOTE_SECONDS) + 1
    assert placed(Load(files=files)).executors is None
    assert placed(Load(files=files, remote=files)).executors is not None


@pytest.mark.parametrize(("instances", "executors"), [(AUTO, 1), (0, 0)])
def test_work_that_is_not_known_counts_as_large(instances: object, executors: int) -> None:
    limits = Limits(ExecutorResources.model_validate({"instances": instances}), most=4)
    doubtful = place(Load(), limits, tasks=3, past=Past(), doubt="its events are unknown: f: no answer")
    assert doubtful.executors == executors
    assert ": about 0.0 s on one core, but its events are unknown: f: no answer; done by Spark " in doubtful.why


@pytest.mark.parametrize(
    ("past", "left", "executors"),
    [
        (Past(40, estimated=4), 2, 1),
        (Past(40, estimated=4), 1, None),
        (Past(40, estimated=4), 24, 2),
        (Past(40, estimated=0), 11, 1),
        (Past(40, estimated=80), 11, 1),
    ],
)
def test_what_is_left_is_placed_by_the_pace_so_far(past: Past, left: float, executors: int | None) -> None:
    """What took ten times its estimate goes on like that. No pace is faster than the estimate."""
    limits = Limits(ExecutorResources(cores=2), most=4)
    assert place_rest(left, limits, tasks=100, past=past).executors == executors


def test_a_line_says_why_what_is_left_is_handed_over() -> None:
    past = Past().and_then(work(4), 40.0)
    assert place_rest(5, Limits(ExecutorResources(), most=4), tasks=7, past=past).why == (
        "40 s went by in the driver; the 7 tasks left would take about 50 s more; done by Spark on 1 executor"
    )


@pytest.mark.parametrize(("seconds", "long"), [(PATIENCE_SECONDS, False), (PATIENCE_SECONDS + 0.1, True)])
def test_the_driver_is_patient_with_its_estimate(seconds: float, long: bool) -> None:
    assert Past(seconds).is_long is long


LARGE, SMALL = COPIED_FROM, COPIED_FROM - 1


def source(size: int, *, rows: int = 0, place: str = "/t") -> BucketSource:
    original = OriginalRows(bucket_property=0, first_row_id=0) if rows else None
    return BucketSource(InputFile(f"{place}/{size}", original), size, highest_write_id=1, rows=rows)


def bucket(*inputs: BucketSource, deletes: tuple[BucketSource, ...] = (), name: str = "base_0000005") -> Bucket:
    directory = parse_directory(name)
    assert directory is not None
    return Bucket(directory, 0, inputs, deletes)


REMOTE = Load(files=2, remote=2, rewritten=LARGE)


@pytest.mark.parametrize(
    ("merged", "load"),
    [
        (bucket(source(LARGE), source(LARGE)), Load(files=2, copied=2 * LARGE)),
        (bucket(source(LARGE), source(SMALL)), Load(files=2, copied=LARGE, rewritten=SMALL)),
        (bucket(source(LARGE, rows=5), source(SMALL, rows=6)), Load(files=2, rewritten=LARGE + SMALL, rows=11)),
        (bucket(source(LARGE, place="s3a://b"), deletes=(source(7, place="hdfs://n"),)), REMOTE),
        (bucket(source(LARGE), deletes=(source(7),)), Load(files=2, rewritten=LARGE)),
        (bucket(source(LARGE), source(9), name="delete_delta_0000001_0000005"), Load(files=2)),
    ],
)
def test_a_buckets_load(merged: Bucket, load: Load) -> None:
    """Large files are copied; what is small, has no keys, or may have deleted rows is rewritten."""
    assert merged.load == load


def test_the_parts_of_a_cut_bucket_have_its_load_but_open_its_files_each() -> None:
    cutting = Cutting(ValidWriteIdList.parse(f"d.t:9:{2**63 - 1}::"), row_type=None, memory=2 * LARGE, scratch="/t")
    inputs = [BucketSource(InputFile(f"/t/{number}"), LARGE, highest_write_id=number) for number in (1, 2)]
    merged = bucket(*inputs, deletes=(source(6),))
    parts = bucket_work(merged, cutting, sketches={}).parts
    assert [part.load for part in parts] == [Load(files=3, rewritten=LARGE)] * 2
