"""Column statistics: equal to those of ORC's Java writer, or wider where a reader would skip rows by Java's."""

import math
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_operator.orc.file import read_tail
from compaction_operator.orc.file.statistics import column_statistics, merge, were_collected
from compaction_operator.orc.spec import Kind, Type, physical_type
from compaction_operator.orc.spec.messages import ColumnStatistics, Metadata
from tests.unit.orc.build import FIXTURES
from tests.unit.orc.columns import decimal, timestamp
from tests.unit.orc.groups import JavaFile

pytestmark = pytest.mark.usefixtures("both_means")

JAVA_FILES = [JavaFile("statistics.orc"), JavaFile("statistics4.orc")]
LONGS = st.integers(-(2**63), 2**63 - 1)
EXACT = Context(prec=200)


def statistics(kind: Kind, values: list[Any]) -> Any:
    types = [Type(kind=kind)]
    return column_statistics(types, 0, pa.array(values, physical_type(types, 0)))


def as_java_or_wider(ours: Any, java: Any) -> bool:
    """Return whether ours says what Java's says, except for what is known to be unsafe in Java's."""
    expected = type(java)()
    expected.CopyFrom(java)
    expected.DiscardUnknownFields()
    if java.HasField("double_statistics"):
        theirs = java.double_statistics
        if math.isnan(theirs.sum):
            expected.ClearField("double_statistics")
        elif theirs.HasField("minimum") and 0.0 in (theirs.minimum, theirs.maximum):
            # equal as numbers, but the zeros have signs that depend on the order in Java's
            assert (ours.double_statistics.minimum, ours.double_statistics.maximum) == (theirs.minimum, theirs.maximum)
            expected.double_statistics.CopyFrom(ours.double_statistics)
            assert ours.double_statistics.sum == theirs.sum
    if java.timestamp_statistics.HasField("maximum_utc"):
        assert ours.timestamp_statistics.maximum_utc - java.timestamp_statistics.maximum_utc in (0, 1)
        expected.timestamp_statistics.maximum_utc = ours.timestamp_statistics.maximum_utc
    if java.string_statistics.HasField("upper_bound"):
        assert ours.string_statistics.maximum <= java.string_statistics.upper_bound
        assert len(java.string_statistics.upper_bound) <= 1024
        expected.string_statistics.ClearField("upper_bound")
        expected.string_statistics.maximum = ours.string_statistics.maximum
    return bool(ours == expected)


@pytest.mark.parametrize("java", JAVA_FILES, ids=["orc-1.5", "orc-1.8"])
def test_row_groups_stripes_and_file_are_said_as_java_says_them(java: JavaFile) -> None:
    """Of each column, nested ones too: from the values alone we say what the writer said in index and footers."""
    of_file: dict[int, list[Any]] = {column: [] for column in range(len(java.types))}
    for stripe, of_java in zip(java.stripes, java.stripe_statistics, strict=True):
        for column, groups in stripe.items():
            ours = [column_statistics(java.types, column, group.array) for group in groups]
            for mine, group in zip(ours, groups, strict=True):
                assert as_java_or_wider(mine, group.statistics), (group.column, mine, group.statistics)
            assert as_java_or_wider(merge(ours), of_java[column]), (column, of_java[column])
            of_file[column].append(merge(ours))
    for column, of_java in enumerate(java.tail.footer.statistics):
        assert as_java_or_wider(merge(of_file[column]), of_java), (column, of_java)


@pytest.mark.parametrize("java", JAVA_FILES, ids=["orc-1.5", "orc-1.8"])
def test_statistics_of_java_are_merged_as_java_merges_them(java: JavaFile) -> None:
    """As when stripes are copied: row groups to a stripe, stripes to a file."""
    for stripe, of_java in zip(java.stripes, java.stripe_statistics, strict=True):
        for column, groups in stripe.items():
            assert as_java_or_wider(merge([group.statistics for group in groups]), of_java[column])
    for column, of_file in enumerate(java.tail.footer.statistics):
        merged = merge([stripe[column] for stripe in java.stripe_statistics])
        assert as_java_or_wider(merged, of_file), (column, merged)


def test_all_null_and_empty_slices_are_typed_and_without_bounds() -> None:
    for kind in Kind:
        if kind in (Kind.LIST, Kind.MAP, Kind.STRUCT, Kind.UNION):
            continue
        for values in ([], [None, None]):
            found = statistics(kind, values)
            assert (found.number_of_values, found.has_null) == (0, bool(values))
            (typed,) = [value for field, value in found.ListFields() if field.message_type]
            assert not {field.name for field, _ in typed.ListFields()} - {"sum", "count"}


@given(st.lists(LONGS | st.integers(-5, 5) | st.none(), max_size=20))
def test_integers(values: list[int | None]) -> None:
    """Minimum and maximum; the sum unless adding one after the other leaves 64 bits."""
    found, known = statistics(Kind.LONG, values), [value for value in values if value is not None]
    assert found.number_of_values == len(known)
    assert found.has_null == (None in values)
    sums = [sum(known[:end]) for end in range(len(known) + 1)]
    typed = found.int_statistics
    assert typed.HasField("sum") == all(-(2**63) <= total < 2**63 for total in sums)
    assert not typed.HasField("sum") or typed.sum == sums[-1]
    assert not known or (typed.minimum, typed.maximum) == (min(known), max(known))


def test_a_nan_leaves_nothing_to_prune_by() -> None:
    """ORC 1.5 takes a minimum equal to the maximum for "all rows are this", and `d <> 5.0` would lose the NaN."""
    for kind in (Kind.FLOAT, Kind.DOUBLE):
        assert not statistics(kind, [5.0, math.nan, 5.0]).HasField("double_statistics")
    java = ColumnStatistics(number_of_values=2, double_statistics={"minimum": 5.0, "maximum": 5.0, "sum": math.nan})
    assert not merge([java, statistics(Kind.DOUBLE, [1.0])]).HasField("double_statistics")


def test_zeros_of_both_signs_are_in_the_range() -> None:
    """Readers compare doubles by their total order, so 0.0..0.0 would not hold -0.0."""
    for values in ([0.0, -0.0], [-0.0, 0.0]):
        typed = statistics(Kind.DOUBLE, values).double_statistics
        assert (math.copysign(1, typed.minimum), math.copysign(1, typed.maximum)) == (-1, 1)
    apart = [
        statistics(Kind.DOUBLE, [0.0]),
        statistics(Kind.DOUBLE, [-0.0]),
        statistics(Kind.DOUBLE, [0.0]),
    ]
    typed = merge(apart).double_statistics
    assert (math.copysign(1, typed.minimum), math.copysign(1, typed.maximum)) == (-1, 1)
    assert math.copysign(1, apart[0].double_statistics.minimum) == 1


def test_infinities() -> None:
    """Their sum is no number, which is said: readers of ORC 1.6 stop there, older ones find right bounds."""
    typed = statistics(Kind.DOUBLE, [math.inf, -math.inf]).double_statistics
    assert (typed.minimum, typed.maximum, math.isnan(typed.sum)) == (-math.inf, math.inf, True)


def test_strings_are_compared_as_bytes_and_kept_whole() -> None:
    values = ["ä".encode(), b"b" * 3000, b"B", None, b""]
    typed = statistics(Kind.STRING, values).string_statistics
    assert (typed.minimum, typed.maximum, typed.sum) == (b"", "ä".encode(), 3003)
    assert statistics(Kind.VARCHAR, values[1:2]).string_statistics.maximum == b"b" * 3000


@given(st.lists(st.text("aé中豈！，\uffff\U00010000😀\U0010ffff", max_size=3), min_size=1, max_size=6))
def test_what_strings_say_holds_in_the_order_of_java_too(texts: list[str]) -> None:
    """Readers compare UTF-16: with bounds of another order `s = '，'` would skip a row group that has it."""
    java = sorted(texts, key=lambda text: text.encode("utf-16-be"))
    ours = sorted(text.encode() for text in texts)
    agreed = (java[0].encode(), java[-1].encode()) == (ours[0], ours[-1])
    array = pa.array([b"\xf0\xff", *(text.encode() for text in texts)], pa.large_binary())
    slice_ = column_statistics([Type(kind=Kind.STRING)], 0, array.slice(1))
    merged = merge([statistics(Kind.STRING, [text.encode()]) for text in texts])
    for found in (slice_, merged):
        assert found.HasField("string_statistics") == agreed
        typed = found.string_statistics
        assert not agreed or (typed.minimum, typed.maximum) == (ours[0], ours[-1])


@pytest.mark.parametrize("bounds", [("！", "😀😀"), ("a", "，")], ids=["minimum", "maximum"])
def test_bounds_of_java_that_disagree_with_its_order_are_not_merged(bounds: tuple[str, str]) -> None:
    low, high = (bound.encode() for bound in bounds)
    java = ColumnStatistics(number_of_values=2, string_statistics={"minimum": low, "maximum": high, "sum": 9})
    assert not merge([java, statistics(Kind.STRING, ["😀".encode()])]).HasField("string_statistics")


@pytest.mark.parametrize("values", [[b"\xa0x", "中".encode()], [b"a", b"\xff"]])
def test_bounds_that_are_no_utf_8_are_not_said(values: list[bytes]) -> None:
    """Java reads U+FFFD for them, behind nearly everything: as a minimum it would hide the row with 中."""
    assert not statistics(Kind.STRING, values).HasField("string_statistics")
    assert statistics(Kind.STRING, [b"a", b"b\xff", b"c"]).HasField("string_statistics")


def since_1970(seconds: int, nanos: int) -> dict[str, int]:
    return timestamp(seconds - 1_420_070_400, nanos)


def test_a_fraction_of_a_millisecond_is_inside_the_range() -> None:
    """A reader that knows milliseconds only would else skip it, or take the range for a single value."""
    typed = statistics(Kind.TIMESTAMP, [since_1970(1, 1_000_001), since_1970(1, 1_500_000)]).timestamp_statistics
    assert (typed.minimum_utc, typed.maximum_utc) == (1001, 1002)
    typed = statistics(Kind.TIMESTAMP, [since_1970(1, 1_000_000)]).timestamp_statistics
    assert (typed.minimum_utc, typed.maximum_utc) == (1001, 1001)


def test_fractions_before_1970_are_as_java_reads_them() -> None:
    """Java stores -1.5 s as second -1 and half a second, and takes a second off when it reads."""
    typed = statistics(Kind.TIMESTAMP, [since_1970(-1, 500_000_000)]).timestamp_statistics
    assert (typed.minimum_utc, typed.maximum_utc) == (-1500, -1500)
    typed = statistics(Kind.TIMESTAMP, [since_1970(-1, 999_999)]).timestamp_statistics
    assert (typed.minimum_utc, typed.maximum_utc) == (-1000, -999)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Kind.TIMESTAMP, {"seconds": 2**62, "nanos": 0}),
        (Kind.TIMESTAMP, {"seconds": -(2**63), "nanos": 0}),
        (Kind.TIMESTAMP, {"seconds": 0, "nanos": -8}),
        (Kind.TIMESTAMP, {"seconds": 0, "nanos": 10**9 << 3}),
        (Kind.TIMESTAMP, {"seconds": 0, "nanos": 2**59 | 7}),
        (Kind.DECIMAL, decimal(10**38, 0)),
        (Kind.DECIMAL, decimal(1, 39)),
        (Kind.DECIMAL, decimal(1, -1)),
        (Kind.DECIMAL, decimal(2**128, 0)),
        (Kind.DECIMAL, {"value": b"\x80" * 22 + b"\x01", "scale": 0}),
        (Kind.DECIMAL, {"value": b"\x80" * 30 + b"\x01", "scale": 0}),
    ],
)
def test_values_that_the_writer_cannot_have_written_leave_the_range_unknown(kind: Kind, value: Any) -> None:
    found = statistics(kind, [value])
    assert found.number_of_values == 1
    assert [field.name for field, _ in found.ListFields()] == ["number_of_values", "has_null"]


@pytest.mark.parametrize("days", [2**31, -(2**31) - 1])
def test_dates_beyond_32_bits_leave_the_range_unknown(days: int) -> None:
    assert not statistics(Kind.DATE, [0, days]).HasField("date_statistics")


@given(st.lists(st.tuples(st.integers(1 - 10**38, 10**38 - 1), st.integers(0, 38)), min_size=1, max_size=8))
def test_decimals_of_mixed_scales_are_exact(values: list[tuple[int, int]]) -> None:
    typed = statistics(Kind.DECIMAL, [decimal(*value) for value in values]).decimal_statistics
    numbers = [Decimal(unscaled).scaleb(-scale, EXACT) for unscaled, scale in values]
    assert (Decimal(typed.minimum), Decimal(typed.maximum)) == (min(numbers), max(numbers))
    total = Decimal(0)
    for number in numbers:
        total = EXACT.add(total, number)
    assert not typed.sum or Decimal(typed.sum) == total
    for text in (typed.minimum, typed.maximum, typed.sum):
        assert "E" not in text
        assert sum(character.isdigit() for character in text.lstrip("-0.")) <= 38


@pytest.mark.parametrize(
    ("unscaled", "scale", "text"),
    [(150, 2, "1.5"), (100, 0, "100"), (-5, 1, "-0.5"), (0, 5, "0"), (1, 38, "0." + "0" * 37 + "1"), (1000, 1, "100")],
)
def test_decimals_are_plain_and_without_trailing_zeros(unscaled: int, scale: int, text: str) -> None:
    typed = statistics(Kind.DECIMAL, [decimal(unscaled, scale)]).decimal_statistics
    assert (typed.minimum, typed.maximum, typed.sum) == (text, text, text)


def test_a_decimal_sum_of_39_digits_is_left_out() -> None:
    assert statistics(Kind.DECIMAL, [decimal(10**38 - 1, 0)]).decimal_statistics.sum == "9" * 38
    assert not statistics(Kind.DECIMAL, [decimal(10**38 - 1, 0), decimal(1, 0)]).decimal_statistics.HasField("sum")


@given(st.lists(st.lists(st.integers(-1000, 1000) | st.none(), max_size=5), min_size=1, max_size=5))
def test_merged_slices_are_the_whole(slices: list[list[int | None]]) -> None:
    whole = [value for part in slices for value in part]
    for kind in (Kind.INT, Kind.DATE, Kind.DOUBLE):
        assert merge([statistics(kind, part) for part in slices]) == statistics(kind, whole)
    parts = [[value and decimal(value, 3) for value in part if value] for part in slices]
    everything = [value for part in parts for value in part]
    assert merge([statistics(Kind.DECIMAL, part) for part in parts]) == statistics(Kind.DECIMAL, everything)


@pytest.mark.parametrize(
    "unknown",
    [
        ColumnStatistics(),
        ColumnStatistics(number_of_values=3),
        ColumnStatistics(number_of_values=3, int_statistics={"sum": 5}),
        ColumnStatistics(number_of_values=3, string_statistics={"minimum": b"a", "maximum": b"b"}),
    ],
    ids=["untyped, empty", "untyped", "without bounds", "of another type"],
)
def test_a_part_that_says_nothing_makes_the_whole_unknown(unknown: Any) -> None:
    """ORC 1.5 takes a typed message without a minimum for "all are null": only its absence is safe."""
    known = statistics(Kind.INT, [1, 2])
    for parts in ([known, unknown], [unknown, known]):
        found = merge(parts)
        assert [field.name for field, _ in found.ListFields()] == ["number_of_values", "has_null"]
        assert found.number_of_values == 2 + unknown.number_of_values


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ("double_statistics", {"minimum": 1.0, "maximum": 2.0}),
        ("string_statistics", {"minimum": b"a", "upper_bound": None, "sum": 1}),
        ("timestamp_statistics", {"minimum": 1, "maximum": 2}),
        ("date_statistics", {"minimum": 1}),
        ("decimal_statistics", {"minimum": "1e999999999", "maximum": "2"}),
        ("decimal_statistics", {"maximum": "2"}),
        ("bucket_statistics", {}),
        ("binary_statistics", {}),
        ("int_statistics", {"minimum": 1}),
    ],
)
def test_a_part_that_says_less_than_needed_makes_the_whole_unknown(field: str, typed: Any) -> None:
    part = ColumnStatistics(number_of_values=1, **{field: {key: value for key, value in typed.items() if value}})
    assert not merge([part]).HasField(field)


def test_parts_without_values_do_not_matter() -> None:
    known, null = statistics(Kind.STRING, [b"a"]), statistics(Kind.STRING, [None])
    found = merge([null, known])
    assert (found.string_statistics, found.number_of_values, found.has_null) == (known.string_statistics, 1, True)
    assert merge([null, null]).string_statistics == null.string_statistics


def test_bounds_stand_in_for_minimum_and_maximum_of_long_strings() -> None:
    """ORC 1.6 cuts strings at 1024 bytes; older readers know the whole ones only."""
    long = ColumnStatistics(
        number_of_values=1, string_statistics={"lower_bound": b"b", "upper_bound": b"c", "sum": 2000}
    )
    typed = merge([long, statistics(Kind.STRING, [b"bb"])]).string_statistics
    assert (typed.minimum, typed.maximum, typed.sum) == (b"b", b"c", 2002)


def test_a_part_that_does_not_tell_of_nulls_may_have_some() -> None:
    assert merge([ColumnStatistics(number_of_values=1), statistics(Kind.STRUCT, [{}])]).has_null
    assert not merge([statistics(Kind.STRUCT, [{}])]).has_null


def test_nothing_has_no_statistics() -> None:
    with pytest.raises(ValueError, match="no statistics"):
        merge([])


def test_statistics_that_hive_did_not_collect_are_known() -> None:
    """Its minor compaction writes counts of 0, which merged would make readers skip everything."""
    output = FIXTURES / "hive-3.1.3/types/after-minor/delta_0000001_0000005/bucket_00000"
    tail = read_tail(str(output))
    assert tail.rows
    assert {statistics.number_of_values for statistics in tail.footer.statistics} == {0}
    assert not were_collected(stripe_of(tail.footer.statistics), tail.rows)
    assert not were_collected(stripe_of([]), 1)
    java = JAVA_FILES[0]
    assert were_collected(stripe_of(java.tail.footer.statistics), java.tail.rows)


def stripe_of(columns: Any) -> Any:
    """The StripeStatistics of these columns."""
    return Metadata(stripe_stats=[{"column_stats": columns}]).stripe_stats[0]
