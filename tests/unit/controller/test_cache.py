"""The cache: newer versions only, deletions for good, and the ways from a compaction to its cleanups and back."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from compaction_operator.controller.kube.cache import Cache, Recent
from compaction_operator.controller.kube.client import Raw
from compaction_operator.controller.kube.resources import Compaction, Key, ResourceKind, TableKey, read_compaction
from compaction_operator.controller.kube.times import rfc3339
from tests.unit.controller.sandbox import NOON, cleanup_raw, compaction_raw

ORDERS = TableKey("lake", "sales", "orders")
NIGHTLY = Key(ResourceKind.COMPACTION, "default", "nightly")


def version(raw: Raw, number: int) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(number)}}


def known(cache: Cache) -> Compaction:
    found = cache.compactions.get(NIGHTLY)
    assert found is not None
    return found


def running(raw: Raw) -> Raw:
    return {**raw, "status": {"attempt": 1}}


def test_only_newer_versions_replace_what_is_known() -> None:
    """Versions are numbers: 10 is newer than 9. A late event never undoes our own write."""
    cache = Cache()
    assert cache.put_compaction(running(version(compaction_raw(), 10)))
    assert cache.put_compaction(version(compaction_raw(), 9)) is None
    assert cache.put_compaction(version(compaction_raw(), 10)) is None
    assert known(cache).status.attempt == 1


def test_a_late_version_does_not_bring_a_deleted_object_back() -> None:
    """Our own write may be answered after the deletion was seen."""
    cache = Cache()
    cache.put_compaction(compaction_raw())
    assert cache.drop_compaction(NIGHTLY, "uid-default-nightly")
    assert cache.put_compaction(version(compaction_raw(), 99)) is None
    assert cache.compactions.get(NIGHTLY) is None


def test_an_object_made_again_is_another_one() -> None:
    """A late deletion of the first one leaves it alone."""
    cache = Cache()
    cache.put_compaction(compaction_raw())
    again = version(compaction_raw(), 20)
    again["metadata"]["uid"] = "second"
    assert cache.put_compaction(again)
    assert cache.drop_compaction(NIGHTLY, "uid-default-nightly") is None
    assert known(cache).meta.uid == "second"
    assert cache.compactions.of_uid("second") is known(cache)
    assert cache.compactions.of_uid("uid-default-nightly") is None


def test_objects_are_found_by_table_whatever_the_case() -> None:
    cache = Cache()
    cache.put_compaction(compaction_raw(table={"database": "SALES", "name": "oRDERS"}))
    cache.put_cleanup(cleanup_raw())
    assert [one.meta.name for one in cache.compactions.of_table(ORDERS)] == ["nightly"]
    assert [one.meta.name for one in cache.cleanups.of_table(ORDERS)] == ["nightly-1-0"]
    cache.drop_cleanup(Key(ResourceKind.CLEANUP, "default", "nightly-1-0"), "uid-nightly-1-0")
    assert cache.cleanups.of_table(ORDERS) == []


def test_cleanups_of_a_compaction_by_attempt_and_name() -> None:
    cache = Cache()
    for name, attempt in [("c", 2), ("b", 1), ("a", 2)]:
        cache.put_cleanup(cleanup_raw(name, attempt=attempt))
    assert [one.meta.name for one in cache.cleanups_of("uid-default-nightly")] == ["b", "a", "c"]


def test_running_compactions_are_kept_count_of() -> None:
    cache = Cache()
    cache.put_compaction(running(compaction_raw()))
    assert cache.running == {NIGHTLY}
    ended = {**version(compaction_raw(), 2), "status": {"attempt": 1, "completionTime": "2026-01-01T12:00:00Z"}}
    cache.put_compaction(ended)
    assert cache.running == set()
    assert cache.freed == {ORDERS}


def test_what_frees_a_table() -> None:
    """A compaction that is held or deleted, a cleanup that is settled: others may have waited for it."""
    cache = Cache()
    cache.put_compaction(compaction_raw())
    assert cache.freed == set()
    cache.put_compaction(version(compaction_raw(suspend=True), 2))
    assert cache.freed == {ORDERS}
    cache.freed.clear()
    cache.put_cleanup(cleanup_raw())
    assert cache.freed == set()
    baseline = {"time": "2026-01-01T12:00:00Z", "txnHighWaterMark": 1, "lockIds": []}
    cache.put_cleanup({**version(cleanup_raw(), 2), "status": {"baseline": baseline}})
    assert cache.freed == {ORDERS}


def test_candidates_are_what_may_start_by_itself() -> None:
    """By the time since which it could start: not what runs, is suspended or has ended."""
    cache = Cache()
    later = {"attempt": 1, "nextAttemptTime": "2026-01-01T13:00:00Z"}
    cache.put_compaction({**compaction_raw("paused"), "status": later})
    for name in ("plain", "ran", "runs"):
        cache.put_compaction(compaction_raw(name))
    cache.put_compaction(compaction_raw("held", suspend=True))
    cache.put_compaction(running(version(compaction_raw("runs"), 2)))
    ended = {"attempt": 1, "completionTime": "2026-01-01T12:00:00Z"}
    cache.put_compaction({**version(compaction_raw("ran"), 2), "status": ended})
    assert [key.name for key in cache.candidates.all(ORDERS)] == ["plain", "paused"]
    assert [key.name for key in cache.working(ORDERS)] == ["runs"]
    for name in ("plain", "paused", "runs"):
        cache.drop_compaction(Key(ResourceKind.COMPACTION, "default", name), f"uid-default-{name}")
    assert not cache.candidates.lanes()
    assert not cache.working(ORDERS)


def test_cleanups_are_unsettled_until_what_was_published_is_known() -> None:
    cache = Cache()
    cache.put_cleanup(cleanup_raw("a"))
    cache.put_cleanup(cleanup_raw("b"))
    assert {one.meta.name for one in cache.unsettled(ORDERS)} == {"a", "b"}
    baseline = {"time": "2026-01-01T12:00:00Z", "txnHighWaterMark": 1, "lockIds": []}
    cache.put_cleanup({**version(cleanup_raw("a"), 2), "status": {"baseline": baseline}})
    cache.drop_cleanup(Key(ResourceKind.CLEANUP, "default", "b"), "uid-b")
    assert cache.unsettled(ORDERS) == []


def test_one_that_was_made_again_frees_its_table() -> None:
    """It is younger than those that waited for the first one. The watch may miss the deletion."""
    cache = Cache()
    cache.put_compaction(compaction_raw())
    again = version(compaction_raw(), 20)
    again["metadata"]["uid"] = "second"
    cache.put_compaction(again)
    assert cache.freed == {ORDERS}


def test_what_was_set_long_ago_is_forgotten() -> None:
    """Jobs and deletions that are no longer asked for do not occupy memory for ever."""
    recent: Recent[int, str] = Recent(3)
    for number in (1, 2, 3, 1, 4):
        recent[number] = "x"
    assert list(recent) == [3, 1, 4]


def test_nothing_is_kept_of_what_was_deleted() -> None:
    cache = Cache()
    cache.put_cleanup(cleanup_raw())
    cache.put_compaction(compaction_raw())
    cache.drop_cleanup(Key(ResourceKind.CLEANUP, "default", "nightly-1-0"), "uid-nightly-1-0")
    cache.drop_compaction(NIGHTLY, "uid-default-nightly")
    for store in (cache.cleanups, cache.compactions):
        assert store.all() == []
        assert not (store._by_table or store._by_uid)
    assert not (cache._cleanups_of or cache._unsettled or cache._working or cache.candidates)


def changed(number: int, *, status: dict[str, Any] | None = None, **spec: Any) -> Raw:
    return version({**compaction_raw(**spec), "status": status or {}}, number)


LONG_AGO = datetime.min.replace(tzinfo=UTC)
BACKS_OFF = {"attempt": 1, "nextAttemptTime": rfc3339(NOON)}


@pytest.mark.parametrize(
    ("old", "new", "freed"),
    [
        (changed(1), changed(2, suspend=True), True),
        (changed(1, status={"attempt": 1}), changed(2, status=BACKS_OFF), True),
        (changed(1, status={"attempt": 1}), changed(2, status={"attempt": 1, "completionTime": "x"}), True),
        (changed(1, status=BACKS_OFF), changed(2, status=BACKS_OFF, suspend=True), True),
        (changed(1, status=BACKS_OFF), changed(2, status={"location": "file:/other"}), True),
        (changed(1, status=BACKS_OFF), changed(2, status={"attempt": 2}), False),
        (changed(1), changed(2, status={"attempt": 1}), False),
        (changed(1, suspend=True), changed(2), False),
    ],
)
def test_a_table_is_freed_as_soon_as_a_compaction_no_longer_stands_in_the_way(old: Raw, new: Raw, freed: bool) -> None:
    """Also one whose pause is over: it is in the way although its status still names the time."""
    cache = Cache()
    cache.put_compaction(old)
    cache.put_compaction(new)
    assert bool(cache.freed) is freed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, None),
        ("2026-01-01T12:00:00Z", NOON),
        ("2026-01-01t12:00:00z", NOON),
        ("2026-01-01T11:59:60Z", LONG_AGO),
        ("soon", LONG_AGO),
    ],
)
def test_a_time_that_cannot_be_read_has_passed(text: str | None, found: datetime | None) -> None:
    raw = {**compaction_raw(), "status": {"nextAttemptTime": text} if text else {}}
    assert read_compaction(raw).next_attempt == found


def test_objects_share_the_texts_that_they_have_in_common_and_no_field_managers_are_kept() -> None:
    """Thousands of compactions that wait have the same reasons, messages and names of fields."""
    read = []
    for name in ("nightly", "hourly"):
        raw = compaction_raw(name=name)
        raw["metadata"]["managedFields"] = [{"manager": "kubectl"}]
        read.append(read_compaction(json.loads(json.dumps(raw))))
    first, second = (list(one.raw["spec"]) for one in read)
    assert [id(field) for field in first] == [id(field) for field in second]
    assert read[0].raw["metadata"]["namespace"] is read[1].raw["metadata"]["namespace"]
    assert not any("managedFields" in one.raw["metadata"] for one in read)
