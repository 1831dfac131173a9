"""What is compacted by gain: which partitions and types, for how long readers have paid, and at which pace."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.policy import Partitions, Strategy, Thresholds
from compaction_operator.policy.candidates import BELOW, Candidate, candidates_of, startable
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import PartitionState, TableState, remembered
from compaction_operator.policy.pace import ahead_of_pace
from compaction_operator.policy.ranking import score, weight_of
from compaction_operator.policy.thresholds import ThresholdError
from compaction_operator.policy.timeline import TimelineMeasure

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MIB, GIB = 1024**2, 1024**3
HUDI_TYPES = (CompactionType.LOG_COMPACTION, CompactionType.COMPACTION)
PLAIN = Measure(
    base_files=1,
    base_bytes=GIB,
    deltas=4,
    delta_files=4,
    delta_bytes=4 * MIB,
    delete_bytes=0,
    buckets=1,
    delta_buckets=1,
    aborted=0,
    base_write_id=5,
    first_delta=6,
)


def table(*partitions: PartitionState, weight: float = 1.0) -> TableState:
    keys = ("n",) if any(one.name for one in partitions) else ()
    return TableState("a.b", "9", NOON, keys, partitions=partitions, weight=weight)


def partition(name: str = "", *, since: timedelta = HOUR, **changes: int) -> PartitionState:
    return PartitionState(name, 0, replace(PLAIN, **changes), None, NOON - since, NOON - since)


def found(
    *partitions: PartitionState, weight: float = 1.0, budget: float = math.inf, **waited: timedelta
) -> tuple[Candidate, ...]:
    """What may start by gain, if partitions (`_` is the table) have been due for that long: 18 hours press."""
    due = {name.replace("_", "=").strip("="): NOON - time for name, time in waited.items()}
    of, gain, late = table(*partitions, weight=weight), Strategy.GAIN, NOON - 18 * HOUR
    all_ = candidates_of(of, Partitions(), (), NOON, strategy=gain, due_since=due, late=late, budget=budget)
    return tuple(startable(one, strategy=gain, late=late) for one in all_)


def test_what_is_below_the_thresholds_is_no_candidate_by_thresholds() -> None:
    assert candidates_of(table(partition()), Partitions(), (), NOON) == ()
    (one,) = found(partition())
    assert (one.due, one.parts[0].due) == (False, False)


def test_the_type_is_the_one_with_the_greater_score() -> None:
    """A minor compaction saves the files of small deltas, a major one also delete events."""
    assert [one.type for one in found(partition())] == [CompactionType.MINOR]
    deletes = partition(delete_bytes=300 * MIB, delta_bytes=304 * MIB)
    assert [one.type for one in found(deletes)] == [CompactionType.MAJOR]


def test_a_minor_compaction_begins_only_its_own_hours_again() -> None:
    """Long after the last major compaction it is the turn of the next one."""
    merged = PartitionState("", 0, replace(PLAIN, base_bytes=8 * MIB), None, NOON, NOON - 100 * HOUR)
    assert [one.type for one in found(merged)] == [CompactionType.MAJOR]


def test_what_presses_gets_a_minor_compaction_if_that_saves_files() -> None:
    """Even if a major one has the greater score: it may be a large base that is hardly read."""
    measure = replace(PLAIN, deltas=11, delta_files=11, delete_bytes=300 * MIB, delta_bytes=304 * MIB)
    deletes = replace(partition(), measure=measure)
    assert [one.type for one in found(deletes, _=17 * HOUR)] == [CompactionType.MAJOR]
    assert [one.type for one in found(deletes, _=18 * HOUR)] == [CompactionType.MINOR]
    one_file = partition(deltas=1, delta_files=1, delta_bytes=304 * MIB)
    assert [one.type for one in found(one_file, _=18 * HOUR)] == [CompactionType.MAJOR]
    aborted = replace(deletes, measure=replace(measure, aborted=1), aborted_since=NOON - 13 * HOUR)
    assert [one.type for one in found(aborted, _=18 * HOUR)] == [CompactionType.MAJOR]


def test_aborted_writes_get_a_major_compaction_whatever_readers_gain() -> None:
    aborted = replace(partition(aborted=1), aborted_since=NOON - 13 * HOUR)
    assert [(one.type, one.due) for one in found(aborted)] == [(CompactionType.MAJOR, True)]
    young = replace(aborted, aborted_since=NOON - HOUR)
    assert [(one.type, one.due) for one in found(young)] == [(CompactionType.MINOR, False)]


@pytest.mark.parametrize("thresholds", [Thresholds(delete_percent=5, deltas=10), Thresholds(small_files=20, deltas=10)])
def test_young_aborted_writes_do_not_change_the_type(thresholds: Thresholds) -> None:
    """Only their own thresholds ask for a major compaction: else a minor one would have a major one's numbers."""
    measure = replace(PLAIN, deltas=12, delta_files=24, delta_bytes=90 * MIB, delete_bytes=60 * MIB, small_files=22)
    young = replace(partition(), measure=replace(measure, aborted=1), aborted_since=NOON - HOUR)
    state = replace(table(young), thresholds=thresholds)
    (one,) = candidates_of(state, Partitions(), (), NOON, strategy=Strategy.GAIN)
    assert (one.type, one.parts[0].bytes) in [(CompactionType.MINOR, 90 * MIB), (CompactionType.MAJOR, GIB + 90 * MIB)]


def test_one_delta_of_many_files_gets_a_major_compaction() -> None:
    """LOAD DATA makes such. A minor compaction would find nothing to merge, after each write again."""
    assert [one.type for one in found(partition(deltas=1, delta_files=40))] == [CompactionType.MAJOR]


def test_nothing_to_gain_is_no_candidate() -> None:
    assert found(partition(deltas=1, delta_files=1, base_files=0, base_bytes=0)) == ()


def test_partitions_that_are_much_worse_than_the_best_wait() -> None:
    few, many = partition("n=1", delta_files=5), partition("n=2", delta_files=41)
    (one,) = found(few, many)
    assert [part.spec for part in one.parts] == ["n=2"]
    (one,) = found(few, partition("n=2", delta_files=9))
    assert [part.spec for part in one.parts] == ["n=2", "n=1"]


def test_a_partition_that_presses_goes_first_however_little_readers_gain() -> None:
    good, due = partition("n=1", delta_files=900), partition("n=2", deltas=11, delta_files=11)
    (one,) = found(good, due, n_2=17 * HOUR)
    assert [part.spec for part in one.parts] == ["n=1"]
    assert one.reason == BELOW
    (one,) = found(good, due, n_2=18 * HOUR)
    assert [part.spec for part in one.parts] == ["n=2", "n=1"]
    assert one.reason == "11 deltas > 10"


def test_what_is_left_for_later_still_counts_as_due() -> None:
    """Neither status nor `why` may say that the table is not due, or due only from now on."""
    (one,) = found(partition("n=1", delta_files=400), partition("n=2", deltas=11, delta_files=11), n_2=5 * HOUR)
    assert [part.spec for part in one.later] == ["n=2"]
    assert (one.due, one.due_longest.spec, one.due_longest.due_since) == (True, "n=2", NOON - 5 * HOUR)


def test_the_score_is_weight_times_benefit_times_hours_by_cost() -> None:
    (one,) = found(partition("n=1", since=2 * HOUR), partition("n=2", since=4 * HOUR), weight=3.0)
    got = score(one)
    assert (got.weight, got.benefit, got.hours) == (3.0, 6.0, 6.0)
    assert got.value == pytest.approx(3 * 6 * 6 / (1 + 8 / 4))


def test_what_is_due_gets_urgent_on_its_way_to_max_delay() -> None:
    """So that large ones do not start together at its end. What is not due has no time in which it must start."""
    due = partition(deltas=11, delta_files=11)
    urgency = [score(*found(due, _=hours * HOUR)).urgency for hours in (0, 9, 18, 30)]
    assert urgency == pytest.approx([1, 1 + 3 * 0.45 / 0.55, 28, 28])
    assert score(*found(partition(), _=9 * HOUR)).urgency == 1
    at_half = [score(*found(due, budget=MIB * mib, _=9 * HOUR)).urgency for mib in (48 * 4, 48 * 2, 48)]
    assert at_half == pytest.approx([1 + 3 * 0.45 / 0.55 / times for times in (1, 2, 4)])
    (worse,) = found(due, _=9 * HOUR)
    assert score(worse).value == pytest.approx(worse.parts[0].score)


def test_the_type_does_not_depend_on_urgency() -> None:
    """A major compaction is larger, so less urgent: from this alone no minor one follows."""
    deletes = partition(deltas=11, delta_files=11, delete_bytes=100 * MIB, delta_bytes=104 * MIB)
    assert [one.type for one in found(deletes, budget=48 * 104 * MIB, _=17 * HOUR)] == [CompactionType.MAJOR]


def test_a_partition_that_is_urgent_takes_the_place_of_a_better_one() -> None:
    good, due = partition("n=1", delta_files=45), partition("n=2", deltas=11, delta_files=11)
    (one,) = found(good, due)
    assert [part.spec for part in one.parts] == ["n=1"]
    (one,) = found(good, due, n_2=17 * HOUR)
    assert [part.spec for part in one.parts] == ["n=2"]


def test_the_hours_begin_again_with_a_compaction_and_not_with_a_write() -> None:
    def after(earlier: PartitionState | None, hours: int, **changes: int) -> PartitionState:
        got = remembered("", 0, replace(PLAIN, **changes), earlier=earlier, now=NOON + hours * HOUR)
        assert got is not None
        return got

    first = after(None, 0)
    written = after(first, 1, deltas=5)
    assert (written.minor_since, written.major_since) == (NOON, NOON)
    minor = after(written, 2, deltas=2, first_delta=10)
    assert (minor.minor_since, minor.major_since) == (NOON + 2 * HOUR, NOON)
    major = after(minor, 3, deltas=1, base_write_id=10, first_delta=11)
    assert (major.minor_since, major.major_since) == (NOON + 3 * HOUR, NOON + 3 * HOUR)


def test_what_is_quiet_for_long_is_worth_more() -> None:
    """Nothing was written for two of the five hours: readers will gain for six more."""
    writing = replace(partition(since=5 * HOUR), written=NOON)
    quiet = replace(writing, written=NOON - 2 * HOUR)
    assert [found(one)[0].parts[0].hours for one in (writing, quiet)] == [3 + 5, 3 + 5 + 3 * 2]


def test_a_partition_is_quiet_until_a_look_finds_a_write() -> None:
    first = remembered("", 0, PLAIN, earlier=None, now=NOON)
    same = remembered("", 0, PLAIN, earlier=first, now=NOON + HOUR)
    written = remembered("", 0, replace(PLAIN, deltas=5), earlier=same, now=NOON + 2 * HOUR)
    merged = remembered("", 0, replace(PLAIN, deltas=1, first_delta=9), earlier=written, now=NOON + 3 * HOUR)
    times = [one.quiet_for(NOON + 4 * HOUR) for one in (first, same, written, merged) if one]
    assert times == [4 * HOUR, 4 * HOUR, 2 * HOUR, 2 * HOUR]


def test_the_hours_of_a_hudi_table_begin_again_when_fewer_commits_follow_its_compactions() -> None:
    def after(earlier: PartitionState | None, hours: int, commits: int, blocks: int) -> PartitionState:
        got = remembered("", 0, TimelineMeasure(commits, blocks), earlier=earlier, now=NOON + hours * HOUR)
        assert got is not None
        return got

    written = after(after(None, 0, 3, 3), 1, 6, 6)
    now = NOON + 5 * HOUR
    assert [written.loose_for(one, now) for one in HUDI_TYPES] == [5 * HOUR, 5 * HOUR]
    merged = after(written, 2, 7, 1)
    assert [merged.loose_for(one, now) for one in HUDI_TYPES] == [3 * HOUR, 5 * HOUR]
    compacted = after(merged, 3, 1, 1)
    assert [compacted.loose_for(one, now) for one in HUDI_TYPES] == [2 * HOUR, 2 * HOUR]
    assert remembered("", 0, TimelineMeasure(0, 0), earlier=compacted, now=now) is None


def test_by_gain_a_hudi_table_goes_by_its_thresholds() -> None:
    """The sizes of its files are read only when it is due."""
    few, enough = (PartitionState("", 0, TimelineMeasure(number, number)) for number in (4, 5))
    assert found(few) == ()
    assert [(one.type, one.due) for one in found(enough)] == [(CompactionType.COMPACTION, True)]


def test_a_weight_is_a_number_within_limits() -> None:
    assert weight_of({}) == 1.0
    assert weight_of({"compaction.dev/policy.weight": " 16 "}) == 16.0


@pytest.mark.parametrize("text", ["", "often", "0", "-1", "nan", "inf", "0.009", "1001", "1e300"])
def test_another_weight_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(ThresholdError, match=r"compaction\.dev/policy\.weight is"):
        weight_of({"compaction.dev/policy.weight": text})


def test_the_pace_is_that_of_an_even_budget() -> None:
    """24 MiB in 24 hours: one each hour. What is not used is kept for six hours."""

    def ahead(*starts: tuple[int, int], at: int = 0) -> float:
        made = [(NOON + hour * HOUR, size * MIB) for hour, size in starts]
        return ahead_of_pace(made, budget=24 * MIB, now=NOON + at * HOUR) / MIB

    assert ahead() == -6
    assert ahead((0, 8)) == 2
    assert ahead((0, 8), at=1) == 1
    assert ahead((0, 8), at=9) == -6
    assert ahead((1, 1), (0, 8), at=1) == 2
    assert ahead((0, 300), at=24) > 0
    assert ahead((0, 300), at=25) == -6
