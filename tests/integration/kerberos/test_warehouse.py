"""The operator on a kerberized warehouse: real controller, real drivers, and logins that end, fail and come back."""

import re
import time
from collections.abc import Callable

import pytest
from sandbox.harness.expected import AFTER_INSERTS_MINOR, INSERTS
from sandbox.harness.tables import fourth_write
from sandbox.harness.wait import wait_until
from sandbox.plane import Plane

from compaction_operator.api.cleanup import CompactionCleanupStatus
from compaction_operator.api.compaction import TableCompactionStatus
from compaction_operator.api.stores import KerberosLogin
from tests.integration.kerberos.conftest import LIFE_SECONDS, READER, RowsOf, World
from tests.integration.metastore.fixture_table import FixtureTable

SECONDS = 200.0
"""What a step may take here: how fast the machine is is not asked."""

WRONG_KEY = "Decrypt integrity check failed|Preauthentication failed"
Status = TableCompactionStatus | CompactionCleanupStatus

on_both = pytest.mark.parametrize("world", ["3.1.3", "4.0.1"], indirect=True, scope="package")
on_hive4 = pytest.mark.parametrize("world", ["4.0.1"], indirect=True, scope="package")


def update(table: FixtureTable) -> None:
    """Let the fourth write change a row."""
    for path, content in fourth_write().items():
        file = table.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    table.write()


def require_directories(table: FixtureTable, expected: frozenset[str]) -> None:
    """All that is there, hidden or not, is what Hive would have made."""
    assert (frozenset(table.visible()), len(table.names())) == (expected, len(expected))


def wait_for_reader(plane: Plane, compaction: str) -> None:
    """Wait until the cleanup says that it waits for the reader."""

    def waits() -> bool:
        cleanups = plane.cleanups(compaction)
        return any(READER in {one.user for one in cleanup.status.blockers} for cleanup in cleanups)

    plane.wait(waits, timeout=SECONDS, what="the cleanup to wait for the reader")


def name_of(login: KerberosLogin) -> str:
    """Return the principal's name without the realm."""
    return login.client_principal.partition("@")[0]


def logins_of(world: World) -> int:
    """Return how often the operator logged in by its keytab."""
    return world.realm.kdc.logins(name_of(world.operator))


def wait_for_expiry() -> None:
    """Wait until no ticket of now is valid any more."""
    expiry = time.time() + LIFE_SECONDS
    wait_until(lambda: time.time() > expiry, timeout=10 * LIFE_SECONDS, what="the tickets to expire")


def who(operator: KerberosLogin) -> str:
    """Match how an error says what to look at."""
    return re.escape(f" (as {operator.client_principal}, by the keytab {operator.keytab})")


def wait_for_message(plane: Plane, status: Callable[[], Status], says: str) -> None:
    """Wait until a condition says something."""
    said = lambda: any(re.search(says, condition.message) for condition in status().conditions)  # noqa: E731
    plane.wait(said, timeout=SECONDS, what=f"a condition that says {says}")


def wait_for_login_errors(plane: Plane, cleaning: str, compaction: str, says: str) -> None:
    """Wait until the cleanup of a compaction, and another compaction, say why there is no login."""
    wait_for_message(plane, lambda: plane.compaction(compaction).status, says)
    wait_for_message(plane, lambda: plane.cleanups(cleaning)[0].status, says)


@on_both
def test_a_table_is_compacted_and_cleaned_up(
    world: World, table: FixtureTable, reader: FixtureTable, rows_of: RowsOf
) -> None:
    """A minor and a major; the cleanup waits for a reader with a principal of its own."""
    plane, before, lock = world.plane, rows_of(table), reader.reader()
    minor = world.compact(table, "Minor")
    plane.wait_ended(minor, timeout=SECONDS)
    wait_for_reader(plane, minor)
    assert rows_of(table) == before
    assert set(table.visible()) == INSERTS | AFTER_INSERTS_MINOR
    reader.admin.unlock(lock)
    plane.wait_cleaned(minor, timeout=SECONDS)
    require_directories(table, AFTER_INSERTS_MINOR)
    assert rows_of(table) == before
    update(table)
    changed = rows_of(table)
    major = world.compact(table, "Major")
    plane.wait_ended(major, timeout=SECONDS)
    plane.wait_cleaned(major, timeout=SECONDS)
    require_directories(table, frozenset({"base_0000004"}))
    assert rows_of(table) == changed != before
    assert (table.locks(), table.own_transactions()) == ([], [])


@on_hive4
def test_tickets_that_end_while_a_cleanup_waits_are_renewed_from_the_keytab(
    world: World, table: FixtureTable, reader: FixtureTable
) -> None:
    """All connections break after the end of the tickets by which they were made."""
    plane, hdfs, lock = world.plane, world.realm.hdfs, reader.reader()
    minor = world.compact(table, "Minor")
    plane.wait_ended(minor, timeout=SECONDS)
    wait_for_reader(plane, minor)
    wait_for_expiry()
    logins = logins_of(world)
    plane.metastore.kill()
    hdfs.kill("NameNode")
    hdfs.start()
    plane.restart_metastore()
    reader.admin.unlock(lock)
    plane.wait_cleaned(minor, timeout=SECONDS)
    assert logins_of(world) > logins
    require_directories(table, AFTER_INSERTS_MINOR)


@on_hive4
def test_nothing_is_deleted_or_begun_without_a_login(world: World, table: FixtureTable, reader: FixtureTable) -> None:
    """By a keytab that is out of date, and without a KDC. All goes on by itself when both are right again."""
    plane, kdc, lock = world.plane, world.realm.kdc, reader.reader()
    minor = world.compact(table, "Minor")
    plane.wait_ended(minor, timeout=SECONDS)
    wait_for_reader(plane, minor)
    plane.controller.kill()  # the next one has neither tickets nor connections
    reader.admin.unlock(lock)
    try:
        kdc.new_key(name_of(world.operator))
        plane.controller.start()
        major = world.compact(table, "Major")
        wait_for_login_errors(plane, minor, major, f"({WRONG_KEY}){who(world.operator)}")
        kdc.stop()
        wait_for_login_errors(plane, minor, major, f"Cannot contact any KDC.*{who(world.operator)}")
        assert set(table.visible()) == INSERTS | AFTER_INSERTS_MINOR
    finally:
        kdc.renew_keytab(name_of(world.operator))
        kdc.start()
    plane.wait_ended(major, timeout=SECONDS)
    plane.wait_cleaned(minor, timeout=SECONDS)
    plane.wait_cleaned(major, timeout=SECONDS)
    require_directories(table, frozenset({"base_0000003"}))


@on_hive4
def test_a_driver_that_cannot_log_in_publishes_nothing_and_the_next_does(
    world: World, table: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane, before = world.plane, table.names()
    monkeypatch.setattr(world.next_driver, "happens", world.realm.kdc.stop)
    try:
        name = world.compact(table, "Minor")
        wait_for_message(plane, lambda: plane.compaction(name).status, f"Cannot contact any KDC.*{who(world.operator)}")
        assert (plane.compaction(name).status.failed_attempts, table.names()) == (0, before)
    finally:
        monkeypatch.undo()
        world.realm.kdc.start()
    plane.wait_ended(name, timeout=SECONDS)
    plane.wait_cleaned(name, timeout=SECONDS)
    require_directories(table, AFTER_INSERTS_MINOR)
