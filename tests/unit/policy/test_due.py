"""What is due, by the numbers of a directory and Hive's thresholds."""

from datetime import UTC, datetime, timedelta

import pytest

from compaction_operator.acid.listing import Directory, File, Listing
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.policy import Partitions, Thresholds
from compaction_operator.policy.candidates import candidates_of
from compaction_operator.policy.measure import Measure, measure
from compaction_operator.policy.memory import PartitionState, TableState
from compaction_operator.policy.thresholds import ThresholdError, checks, due, overridden
from compaction_operator.policy.timeline import TimelineMeasure
from tests.unit.acid.listings import listing

TXNS = ValidTxnList(1000, frozenset(), frozenset(), None)
HOUR = timedelta(hours=1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def write_ids(text: str) -> ValidWriteIdList:
    return ValidWriteIdList.parse(f"db.t:{text}")


def found(**numbers: int) -> Measure:
    plain = dict.fromkeys(Measure.__slots__, 0)
    return Measure(**{**plain, **numbers})


def test_only_what_a_compaction_could_merge_is_measured() -> None:
    """Neither what a base covers, nor what lies above an open write."""
    names = ["base_3", "delta_2_2_0", "delta_4_4_0", "delete_delta_5_5_0", "delta_7_7_0"]
    got = measure(listing(*names), write_ids("7:6:6:"), TXNS)
    assert (got.deltas, got.delta_files, got.delta_bytes, got.delete_bytes) == (2, 2, 1400, 700)
    assert (got.base_files, got.base_bytes, got.buckets, got.aborted) == (1, 700, 1, 0)


def test_a_minor_compaction_saves_files_of_the_buckets_that_deltas_have() -> None:
    """A base with many buckets says nothing about deltas that all write into the first one."""
    base = Directory("base_0000001", tuple(File(f"bucket_{number:05d}", 10**6) for number in range(8)))
    deltas = listing(*(f"delta_{number}_{number}_0" for number in range(2, 14)))
    got = measure(Listing((base, *deltas.directories), ()), write_ids("13:9223372036854775807::"), TXNS)
    assert (got.buckets, got.delta_buckets, got.delta_files) == (8, 1, 12)
    state = TableState("a.b", "13", NOON, partitions=(PartitionState("", 0, got),))
    (found,) = candidates_of(state, Partitions(), (), NOON)
    assert (found.type, found.files_saved) == (CompactionType.MINOR, 11)


def test_originals_are_the_base_until_there_is_one() -> None:
    got = measure(listing("000000_0", "000001_0", "delta_1_1_0"), write_ids("1:9223372036854775807::"), TXNS)
    assert (got.base_files, got.base_bytes, got.deltas, got.buckets) == (2, 600, 1, 2)


def test_directories_of_aborted_writes_count_apart() -> None:
    got = measure(listing("delta_1_1_0", "delta_2_2_0"), write_ids("2:9223372036854775807::2"), TXNS)
    assert (got.deltas, got.aborted, got.is_clean) == (1, 1, False)
    assert measure(listing("base_2"), write_ids("2:9223372036854775807::"), TXNS).is_clean


@pytest.mark.parametrize(
    ("numbers", "type_"),
    [
        ({"deltas": 10, "base_bytes": 1000, "delta_bytes": 100}, None),
        ({"deltas": 11, "base_bytes": 1000, "delta_bytes": 100}, CompactionType.MINOR),
        ({"deltas": 1, "base_bytes": 1000, "delta_bytes": 101}, CompactionType.MAJOR),
        ({"deltas": 10, "delta_bytes": 100}, None),
        ({"deltas": 11, "delta_bytes": 100}, CompactionType.MAJOR),
        ({"aborted": 1000}, None),
        ({"aborted": 1001}, CompactionType.MAJOR),
    ],
)
def test_the_defaults_are_those_of_hives_initiator(numbers: dict[str, int], type_: CompactionType | None) -> None:
    got = due(found(**numbers), Thresholds(), aborted_for=HOUR)
    assert (got and got.type) == type_


@pytest.mark.parametrize(
    ("commits", "blocks", "type_"),
    [
        (0, 0, None),
        (4, 4, None),
        (5, 0, CompactionType.COMPACTION),
        (4, 5, CompactionType.LOG_COMPACTION),
        (5, 5, CompactionType.COMPACTION),
    ],
)
def test_a_hudi_table_is_due_as_hudi_decides_it(commits: int, blocks: int, type_: CompactionType | None) -> None:
    """From the number on that its options name, not above it."""
    measure = TimelineMeasure(commits, blocks)
    got = due(measure, Thresholds(), aborted_for=HOUR)
    assert (got and got.type) == type_
    exceeded = [one.threshold for one in checks(measure, Thresholds(), aborted_for=HOUR) if one.exceeded]
    assert bool(exceeded) == (got is not None)


def test_hudis_own_table_properties_override_thresholds() -> None:
    properties = {"hoodie.compact.inline.max.delta.commits": "24", "hoodie.log.compaction.blocks.threshold": "4"}
    assert overridden(Thresholds(), properties) == Thresholds(delta_commits=24, log_blocks=4)
    for name, text in (("compact.inline.max.delta.commits", "0"), ("log.compaction.blocks.threshold", "1")):
        with pytest.raises(ThresholdError, match=f"hoodie.{name}"):
            overridden(Thresholds(), {f"hoodie.{name}": text})


def test_one_aborted_write_is_due_by_its_age() -> None:
    assert due(found(aborted=1), Thresholds(), aborted_for=12 * HOUR) is None
    assert due(found(aborted=1), Thresholds(), aborted_for=13 * HOUR)
    assert due(found(), Thresholds(), aborted_for=13 * HOUR) is None


def files(*directories: tuple[str, dict[str, int]]) -> Listing:
    found = {name: tuple(File(file, size) for file, size in sizes.items()) for name, sizes in directories}
    return Listing(tuple(Directory(name, sizes) for name, sizes in found.items()), ())


def test_small_files_are_those_that_a_compaction_saves() -> None:
    """Not the first one of a bucket: each has one file afterwards, and delete events have one of their own."""
    small, large = 5, 50
    got = measure(
        files(
            ("base_1", {"bucket_00000": small, "bucket_00001": small}),
            ("delta_2_2_0", {"bucket_00000": small, "bucket_00001": large}),
            ("delta_3_3_0", {"bucket_00000": small, "bucket_00001": small}),
            ("delta_4_4_0", {"bucket_00000": small, "bucket_00001": large}),
            ("delete_delta_4_4_0", {"bucket_00000": small}),
        ),
        write_ids("4:9223372036854775807::"),
        TXNS,
        small=10,
    )
    assert (got.small_files, got.small_base_files) == (3, 0)
    compacted = files(("base_4", {"bucket_00000": small, "bucket_00001": small}))
    assert measure(compacted, write_ids("4:9223372036854775807::"), TXNS, small=10).small_files == 0


def test_original_files_of_one_bucket_are_merged_by_a_major_compaction() -> None:
    got = measure(listing("000000_0", "000000_0_copy_1", "000001_0", "delta_1_1_0"), write_ids("1:9:9:"), TXNS)
    assert (got.small_files, got.small_base_files) == (0, 1)
    assert got.buckets == 2


@pytest.mark.parametrize(
    ("numbers", "limits", "type_"),
    [
        ({"small_files": 8, "base_bytes": 1000}, {}, None),
        ({"small_files": 7, "base_bytes": 1000}, {"small_files": 7}, None),
        ({"small_files": 8, "base_bytes": 1000}, {"small_files": 7}, CompactionType.MINOR),
        ({"small_files": 8}, {"small_files": 7}, CompactionType.MAJOR),
        ({"small_files": 4, "small_base_files": 4, "base_bytes": 1000}, {"small_files": 7}, CompactionType.MAJOR),
        ({"delta_bytes": 90, "delete_bytes": 51, "base_bytes": 1000}, {}, None),
        ({"delta_bytes": 90, "delete_bytes": 51, "base_bytes": 981}, {"delete_percent": 5}, None),
        ({"delta_bytes": 90, "delete_bytes": 52, "base_bytes": 981}, {"delete_percent": 5}, CompactionType.MAJOR),
    ],
)
def test_the_thresholds_that_hive_does_not_have_count_only_if_they_are_set(
    numbers: dict[str, int], limits: dict[str, int], type_: CompactionType | None
) -> None:
    """The share of delete events is that of the files of rows, delta and base."""
    got = due(found(**numbers), Thresholds(**limits), aborted_for=HOUR)
    assert (got and got.type) == type_
    exceeded = [one for one in checks(found(**numbers), Thresholds(**limits), aborted_for=HOUR) if one.exceeded]
    assert bool(exceeded) == bool(got)


def test_the_projects_own_table_properties_override_its_thresholds() -> None:
    properties = {"compaction.dev/policy.smallFiles": "40", "compaction.dev/policy.deletePercent": "5"}
    assert overridden(Thresholds(small_files=1), properties) == Thresholds(small_files=40, delete_percent=5)


def test_a_single_delta_is_nothing_to_merge() -> None:
    assert due(found(deltas=1, delta_bytes=1), Thresholds(deltas=0), aborted_for=HOUR) is None


def test_hives_own_table_properties_override_thresholds() -> None:
    properties = {
        "compactorthreshold.hive.compactor.delta.num.threshold": "4",
        "compactorthreshold.hive.compactor.delta.pct.threshold": "0.5",
    }
    assert overridden(Thresholds(), properties) == Thresholds(deltas=4, delta_percent=50)


@pytest.mark.parametrize("text", ["many", "nan", "inf", "-1"])
def test_a_property_that_is_no_number_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(ThresholdError, match=r"compactorthreshold\.hive\.compactor\.delta\.num\.threshold"):
        overridden(Thresholds(), {"compactorthreshold.hive.compactor.delta.num.threshold": text})
