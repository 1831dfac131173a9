"""Timestamps of writers in other zones come out as Hive's own readers see them, or are refused."""

import numpy as np
import pytest

from compaction_operator.orc.file import StripeReader, read_tail
from compaction_operator.orc.spec.timezones import as_written_in_utc, is_utc, utc_offsets
from tests.unit.orc.build import DATA

BASE = 1_420_070_400
YEAR_1900 = -2_208_988_800


def seconds_of(text: str) -> int:
    return int(np.datetime64(text, "s").astype(np.int64))


def as_java_reads(seconds: int, encoded: int) -> tuple[int, int]:
    """The milliseconds and nanoseconds that ORC's TimestampTreeReader makes of a value of a stripe in UTC."""
    nanos = (encoded >> 3) * (10 ** ((encoded & 7) + 1) if encoded & 7 else 1)
    millis = (seconds + BASE) * 1000 + nanos // 1_000_000
    return millis - 1000 * (millis < 0 and nanos > 999_999), nanos


@pytest.mark.parametrize("name", ["america_los_angeles", "australia_lord_howe", "europe_dublin"])
def test_as_hives_reader_sees_it(name: str):
    """Years 1 to 9999, fractions before 1970, summer time: compared with the ORC reader inside Hive 3.1.3 and 4.0.1."""
    path = DATA / f"zone_{name}.orc"
    expected = [tuple(map(int, line.split())) for line in path.with_suffix(".txt").read_text().splitlines()]
    with path.open("rb") as file:
        stripe = StripeReader(file, read_tail(str(path)), 0)
        assert stripe.footer.writer_timezone.lower().replace("/", "_") == name
        values = stripe.column(1).to_pylist()
    assert [as_java_reads(value["seconds"], value["nanos"]) for value in values] == expected


@pytest.mark.parametrize(
    ("zone", "time", "hours"),
    [
        ("America/Los_Angeles", "2015-03-08T09:59:59", -8),
        ("America/Los_Angeles", "2015-03-08T10:00:00", -7),
        ("America/Los_Angeles", "2015-11-01T08:59:59", -7),
        ("America/Los_Angeles", "2015-11-01T09:00:00", -8),
        ("America/Los_Angeles", "1899-12-31T23:59:59", -8),
        ("America/Los_Angeles", "0001-01-01T00:00:00", -8),
        ("America/Los_Angeles", "9999-07-01T00:00:00", -7),
        ("Australia/Lord_Howe", "2021-01-01T00:00:00", 11),
        ("Australia/Lord_Howe", "2021-07-01T00:00:00", 10.5),
        ("Asia/Kolkata", "1900-01-01T00:00:00", 5.35277777777778),
        ("GMT+08:00", "2021-07-01T00:00:00", 8),
        ("GMT-3:30", "1850-07-01T00:00:00", -3.5),
    ],
)
def test_offsets(zone: str, time: str, hours: float):
    assert utc_offsets(zone, np.array([seconds_of(time)])).tolist() == [round(hours * 3600)]


def test_offsets_of_many_times_at_once():
    """Each has its own, however far they are apart."""
    times = np.arange(seconds_of("1890-01-01"), seconds_of("2520-01-01"), 86_400 * 97)
    together = utc_offsets("Europe/Berlin", times)
    assert together.tolist() == [
        int(utc_offsets("Europe/Berlin", times[place : place + 1])[0]) for place in range(len(times))
    ]
    assert set(together.tolist()) == {3600, 7200, 10800} or set(together.tolist()) == {3600, 7200}
    assert utc_offsets("Europe/Berlin", times[:0]).tolist() == []


def test_far_years_have_the_rules_of_the_ones_before():
    """The calendar repeats itself every 400 years."""
    july = [seconds_of(f"{year}-07-01") for year in (2450, 2850, 30_250, 250_050)]
    january = [seconds_of(f"{year}-01-01") for year in (2450, 2850, 30_250, 250_050)]
    assert utc_offsets("Europe/Berlin", np.array(july)).tolist() == [7200] * 4
    assert utc_offsets("Europe/Berlin", np.array(january)).tolist() == [3600] * 4


def test_the_last_second_before_1970_is_refused_where_utc_cannot_say_it():
    """Java's writer would store it as the first second after 1970."""
    wall = seconds_of("1969-12-31T23:59:59")
    base = seconds_of("2015-01-01T08:00:00")  # midnight in Los Angeles
    instant = np.array([wall + 8 * 3600 - base])
    whole, half, micros = np.array([0]), np.array([5 << 3 | 7]), np.array([1 << 3 | 2])
    assert as_written_in_utc(instant, whole, "America/Los_Angeles").tolist() == [wall - BASE]
    assert as_written_in_utc(instant, micros, "America/Los_Angeles").tolist() == [wall - BASE]
    with pytest.raises(ValueError, match="fraction of the last second before 1970 in America/Los_Angeles"):
        as_written_in_utc(instant, half, "America/Los_Angeles")


@pytest.mark.parametrize(
    "zone",
    [
        "Mars/Olympus",
        "../../../../etc/passwd",
        "/etc/localtime",
        "America",
        "posixrules",
        "",
        "GMT+99:00",
        "UTC\0",
        "CTT",
    ],
)
def test_an_unknown_zone_is_refused(zone: str):
    with pytest.raises(ValueError, match=r"."):
        utc_offsets(zone, np.array([0]))


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [(2**60, 0), (-(2**63), 0), (2**63 - 1, 0), (0, -8), (0, 2**62), (0, 10**9 << 3), (0, 999 << 3 | 7)],
)
def test_what_is_no_timestamp_of_javas_is_refused(seconds: int, nanos: int):
    with pytest.raises(ValueError, match=r"beyond Java's range|more than a second"):
        as_written_in_utc(np.array([seconds]), np.array([nanos]), "Europe/Berlin")


def test_zones_that_are_utc():
    assert all(map(is_utc, ["UTC", "GMT", "Etc/UTC"]))
    assert not any(map(is_utc, ["Europe/London", "Africa/Abidjan", "", "utc+1"]))
