"""The leader dies, is stopped, or is asked to end: another one goes on, and nothing happens twice."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from sandbox.harness.expected import AFTER_INSERTS_MINOR, INSERTS
from sandbox.harness.wait import wait_until

from compaction_operator.api import compaction as api
from compaction_operator.api.cleanup import LABEL_COMPACTION_UID
from compaction_operator.controller.election import LEASE_LOST
from compaction_operator.receipts import Kind, Receipt, verify
from tests.integration.election import entry
from tests.integration.election.conftest import SECONDS, Pair, answer
from tests.integration.metastore.fixture_table import FixtureTable

HAND_OVER_SECONDS = 30.0
"""What is promised."""


def compact(pair: Pair, table: FixtureTable) -> str:
    return pair.plane.compact(f"{table.database}.{table.name}", "Minor", cleanup={"gracePeriod": "0s"})


def require_hand_over(pair: Pair) -> None:
    """Another controller looks at what is new within the time that is promised."""
    name = pair.plane.compact("nowhere.t", "Minor")
    pair.plane.wait(
        lambda: pair.plane.compaction(name).status.phase is api.Phase.FAILED,
        timeout=HAND_OVER_SECONDS,
        what="the standby to take over",
    )


def require_done_once(pair: Pair, name: str, table: FixtureTable) -> None:
    """The compaction and its cleanup have ended: one attempt, one Job, and one receipt of each directory."""
    plane = pair.plane
    compaction = plane.wait_ended(name, timeout=SECONDS)
    plane.wait_cleaned(name, timeout=SECONDS)
    assert compaction.status.attempt == 1
    assert len(plane.mirror.all("jobs", **{LABEL_COMPACTION_UID: compaction.meta.uid})) == 1
    assert len(plane.mirror.all("pods", **{LABEL_COMPACTION_UID: compaction.meta.uid})) == 1
    assert frozenset(table.names()) == AFTER_INSERTS_MINOR
    assert (table.locks(), table.own_transactions()) == ([], [])
    folder = Path(str(plane.receipts))
    lines = [(int(path.stem), path.read_bytes()) for path in sorted(folder.glob("[0-9]*/*.json"))]
    assert not verify(lines).findings
    receipts = [
        receipt for _, line in lines if (receipt := Receipt.parse(line)).table == f"{table.database}.{table.name}"
    ]
    assert [one.kind for one in receipts].count(Kind.COMPACTION) == 1
    deleted = Counter(gone.name for one in receipts for part in one.parts for gone in part.deleted)
    assert deleted == Counter(INSERTS)
    assert not [*(folder / "pending").iterdir()]


def test_each_says_what_it_is(pair: Pair) -> None:
    assert answer(pair.leader, "/readyz") == "role: leader\ncache: loaded\n"
    assert answer(pair.standby, "/readyz").startswith("role: standby\nlease: read ")
    for process in (pair.leader, pair.standby):
        assert "\nwarehouse main: " in answer(process, "/healthz")


def test_a_standby_changes_nothing(pair: Pair, table: FixtureTable) -> None:
    require_done_once(pair, compact(pair, table), table)
    assert pair.steps(pair.leader)
    assert not pair.steps(pair.standby)


def test_the_leader_is_killed_while_a_driver_runs(pair: Pair, table: FixtureTable) -> None:
    name = compact(pair, table)
    pair.plane.wait(pair.plane.drivers.current, timeout=SECONDS, what="the driver to run")
    pair.leader.kill()
    require_hand_over(pair)
    require_done_once(pair, name, table)


def begun(steps: Sequence[entry.Step]) -> list[entry.Step]:
    """Return the steps that were begun, without their ends."""
    return [step for step in steps if not step.after]


STOPS = {
    "within a deletion": "unlink _compaction_trash_",
    "before it hides a directory": "metastore lock",
    "with an attempt recorded, and no Job": "PUT tablecompactions/status",
    "with a notice, and no receipt": "rmdir _compaction_trash_",
}


@pytest.mark.parametrize("when", STOPS)
def test_a_leader_that_was_stopped_ends_without_a_change(pair: Pair, table: FixtureTable, when: str) -> None:
    """It wakes up when another one has done its work. It must know that before it does anything more.

    The answer to a call that it sent before is no step of its own.
    """
    pair.stop_after(STOPS[when])
    name = compact(pair, table)
    pair.plane.wait(lambda: pair.leader.paused, timeout=SECONDS, what="the leader to stop")
    before = begun(pair.steps(pair.leader))
    require_hand_over(pair)
    require_done_once(pair, name, table)
    files = sorted(Path(str(pair.plane.metastore.warehouse)).rglob("*"))
    pair.leader.resume()
    assert pair.leader.wait(SECONDS)
    assert pair.leader.exit_code == LEASE_LOST
    assert begun(pair.steps(pair.leader)) == before
    assert sorted(Path(str(pair.plane.metastore.warehouse)).rglob("*")) == files
    require_done_once(pair, name, table)


def test_a_leader_that_is_asked_to_end_gives_the_lease_back(pair: Pair, table: FixtureTable) -> None:
    """The standby need not wait until it expires."""
    name = compact(pair, table)
    pair.plane.wait(pair.plane.drivers.current, timeout=SECONDS, what="the driver to run")
    pair.leader.terminate()
    assert pair.leader.wait(SECONDS)
    assert pair.leader.exit_code == 0
    assert "the lease is given back" in pair.plane.controller.log.read_text()
    require_hand_over(pair)
    require_done_once(pair, name, table)


def test_a_leader_that_is_asked_to_end_within_a_deletion_ends_it_first(pair: Pair, table: FixtureTable) -> None:
    """It is asked between two files of a directory. What it has begun ends; the standby does the rest, once."""
    log = pair.plane.controller.log
    given_back = log.read_text().count("the lease is given back")
    pair.stop_after(STOPS["within a deletion"])
    name = compact(pair, table)
    wait_until(lambda: pair.leader.paused, timeout=SECONDS, what="the leader to stop")
    pair.leader.terminate()
    pair.leader.resume()
    assert pair.leader.wait(SECONDS)
    assert pair.leader.exit_code == 0
    assert log.read_text().count("the lease is given back") == given_back + 1
    changes = [step for step in pair.steps(pair.leader) if step.label.startswith(("unlink ", "rmdir ", "rename "))]
    assert len(begun(changes)) * 2 == len(changes)
    require_hand_over(pair)
    require_done_once(pair, name, table)


def test_a_leader_without_an_api_server_ends_itself(pair: Pair) -> None:
    """It cannot know whether another one leads. A standby waits for the API server."""
    with pair.plane.api_server_away():
        assert pair.leader.wait(SECONDS)
        assert pair.leader.exit_code == LEASE_LOST
        assert pair.standby.running
    require_hand_over(pair)
