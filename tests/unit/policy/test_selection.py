"""Which tables and partitions a policy is about, and in which windows it works."""

from datetime import UTC, datetime, timedelta

import pytest

from compaction_operator.api.policy import Day, Partitions, Tables, Window
from compaction_operator.metastore.partition_specs import parse_spec
from compaction_operator.policy.candidates import spec_of
from compaction_operator.policy.partitions import FilterError, parse_filter, unknown_key, wanted
from compaction_operator.policy.selection import opted_out, selected
from compaction_operator.policy.windows import UnknownTimeZoneError, next_opening, opened

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)  # a Thursday


def test_globs_select_tables_in_any_case() -> None:
    tables = [("sales", "orders"), ("sales", "tmp_x"), ("hr", "people"), ("sales2", "orders")]
    assert list(selected(tables, Tables(include=("Sales.*", "hr.p?ople"), exclude=("*.TMP_*",)))) == [
        "sales.orders",
        "hr.people",
    ]


@pytest.mark.parametrize(("value", "out"), [("off", True), (" OFF ", True), ("on", False), (None, False)])
def test_an_owner_keeps_policies_away(value: str | None, out: bool) -> None:
    assert opted_out({} if value is None else {"compaction.dev/policy": value}) is out


@pytest.mark.parametrize(
    ("text", "value", "accepted"),
    [
        ("day >= today - 7d", "2025-12-25", True),
        ("day >= today - 7d", "2025-12-24", False),
        ("day >= today-7d", "20251225", True),
        ("day < today", "2026-01-01", False),
        ("day >= today - 7d", "__HIVE_DEFAULT_PARTITION__", False),
        ("day >= today - 7d", "2026-13-01", False),
        ("year > 9", "10", True),
        ("year > 9", "ten", False),
        ("region != 'eu'", "us", True),
        ("region = eu", "eu", True),
    ],
)
def test_filters_compare_dates_numbers_and_texts(text: str, value: str, accepted: bool) -> None:
    assert parse_filter(text).accepts(value, NOON.date()) is accepted


@pytest.mark.parametrize("text", ["", "day", "day >=", ">= 3", "day ~ 3"])
def test_a_filter_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(FilterError, match=r"partitions\.filters"):
        parse_filter(text)


def test_a_partition_must_meet_all_filters_and_ages() -> None:
    filters = [parse_filter("day >= today - 7d"), parse_filter("Region = eu")]
    ages = Partitions(min_age=3600, max_age=86400)

    def is_wanted(region: str, hours: int) -> bool:
        created = int((NOON - timedelta(hours=hours)).timestamp())
        values = {"day": "2026-01-01", "region": region}
        return wanted(ages, filters, values=values, created=created, now=NOON)

    assert [is_wanted("eu", 2), is_wanted("us", 2), is_wanted("eu", 0), is_wanted("eu", 25)] == [True, *[False] * 3]


def test_a_filter_for_a_key_that_a_table_lacks_is_found() -> None:
    filters = [parse_filter("day >= today")]
    assert (unknown_key(filters, ["Day"]), unknown_key(filters, ["month"])) == (None, "day")


@pytest.mark.parametrize("name", ["day=2026-01-01/r=eu", "day=a%2Fb/r=x", "day=a,b/r=it's", "day=a\\b,c/r= x "])
def test_a_partition_is_selected_by_a_spec_that_means_it_alone(name: str) -> None:
    """`%2F` is Hive's spelling; a comma is not escaped in names, but separates keys in specs."""
    values = tuple(part.partition("=")[2].replace("%2F", "/") for part in name.split("/"))
    assert parse_spec(spec_of(name, ("day", "r")), ["day", "r"]) == values


def test_a_window_over_midnight_in_its_own_time_zone() -> None:
    """22:00 to 06:00 in Berlin, which is 21:00 to 05:00 UTC in winter."""
    nights = [Window(start="22:00", duration=8 * 3600, time_zone="Europe/Berlin")]
    start = datetime(2026, 1, 1, 21, tzinfo=UTC)
    assert opened(nights, start - timedelta(seconds=1)) is None
    assert opened(nights, start) == start
    assert opened(nights, start + timedelta(hours=8, seconds=-1)) == start
    assert opened(nights, start + timedelta(hours=8)) is None
    assert next_opening(nights, NOON) == start


def test_a_window_follows_the_change_of_clocks() -> None:
    nights = [Window(start="22:00", duration=3600, time_zone="Europe/Berlin")]
    assert next_opening(nights, datetime(2026, 7, 1, 12, tzinfo=UTC)) == datetime(2026, 7, 1, 20, tzinfo=UTC)


def test_days_are_those_on_which_a_window_opens() -> None:
    sundays = [Window(start="00:00", duration=24 * 3600, days=(Day.SUNDAY,))]
    assert next_opening(sundays, NOON) == datetime(2026, 1, 4, tzinfo=UTC)
    assert opened(sundays, datetime(2026, 1, 4, 23, tzinfo=UTC)) == datetime(2026, 1, 4, tzinfo=UTC)


def test_an_unknown_time_zone_is_named() -> None:
    with pytest.raises(UnknownTimeZoneError, match="Europe/Berlino"):
        opened([Window(start="00:00", duration=3600, time_zone="Europe/Berlino")], NOON)
