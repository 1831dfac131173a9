"""A driver is alive for as long as the metastore has heartbeats of it."""

from datetime import timedelta
from pathlib import Path

import pytest

from compaction_operator.api.compaction import TableRef
from compaction_operator.cleanup.attempt import Attempt, Holdings, Watch, holdings
from compaction_operator.metastore import OpenTransactions, TxnInfo
from tests.unit.cleanup.support import NOON, OWN_AGENT, lock, metastore

OWN = Attempt("u", 1)
LONG_AGO = NOON - timedelta(hours=1)


def txn(**changes: object) -> TxnInfo:
    return TxnInfo(**{"txn": 50, "state": "OPEN", "user": "u", "host": "h", "agent": OWN_AGENT, **changes})  # type: ignore[arg-type]


def test_holdings_are_recognized_by_their_agent() -> None:
    own, strange = lock(7, agent=OWN_AGENT), lock(8, agent=OWN_AGENT.replace("/1/", "/11/"))
    source = metastore(
        Path("/t"), locks=(own, strange), transactions=OpenTransactions(99, (txn(), txn(txn=51, agent="hive")))
    )
    assert holdings(source, OWN, TableRef(database="d", name="t")) == Holdings((own,), (txn(),))


@pytest.mark.parametrize(("seconds", "lost"), [(0, False), (90, False), (91, True), (3600, True), (-3600, False)])
def test_a_driver_is_lost_90_seconds_after_its_last_heartbeat(seconds: int, lost: bool) -> None:
    """By its newest one: a lock that it no longer needs is not heartbeated, and those of a transaction never are."""
    beat = NOON - timedelta(seconds=seconds)
    for held in (
        Holdings((lock(7, last_heartbeat=beat), lock(8, last_heartbeat=LONG_AGO if seconds < 3600 else None))),
        Holdings((lock(7, txn=50),), (txn(last_heartbeat=beat),)),
    ):
        assert (held.silence(NOON) is not None) is lost


def test_without_a_heartbeat_the_silence_is_unknown() -> None:
    assert Holdings((lock(7),)).silence(NOON) is None


def test_a_lost_driver_is_named_by_what_it_holds() -> None:
    said = Holdings((lock(7, last_heartbeat=LONG_AGO),)).silence(NOON)
    assert said == "lock 7 of its driver has had no heartbeat since 2026-01-01T11:00:00+00:00"


def test_a_driver_that_never_holds_anything_is_lost_after_five_minutes() -> None:
    watch, held = Watch(), Holdings((lock(7, last_heartbeat=NOON),))
    looks = [(0.0, Holdings()), (299.0, Holdings()), (300.0, held), (301.0, Holdings()), (600.0, Holdings())]
    assert [watch.lost(OWN, seen, now=NOON, ticks=ticks) for ticks, seen in looks] == [None] * 5
    said = watch.lost(OWN, Holdings(), now=NOON, ticks=601.0)
    assert said == "its driver has held nothing in the metastore for 300 s"
