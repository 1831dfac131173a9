"""HDFS with Kerberos: who logs in, how long that lasts, and what is said when it fails."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sandbox.harness.wait import wait_until
from sandbox.kerberos.kdc import Kdc

from compaction_operator.api.stores import Hdfs
from compaction_operator.storage import NotFoundError, StorageError, join
from compaction_operator.storage.hdfs import connect
from tests.integration.storage.hdfs_users import Hadoop, after_first_failure

LIFE_SECONDS = 5


@pytest.fixture
def hadoop(kerberized: Hadoop) -> Hadoop:
    return kerberized


def test_each_login_is_its_own_user(hadoop: Hadoop, place: str, kdc: Kdc) -> None:
    """Two warehouses in one controller: the ticket of one never serves the other."""
    alice = hadoop.connect(kdc.principal("alice"), kdc.keytab("alice"))
    hadoop.storage.write(join(place, "file"), b"content")
    assert alice.read(join(place, "file")) == b"content"
    with pytest.raises(StorageError, match="Permission denied: user=alice, access=WRITE"):
        alice.write(join(place, "other"), b"")
    hadoop.storage.write(join(place, "other"), b"")


def test_a_ticket_that_expired_is_renewed_from_the_keytab(hadoop: Hadoop, place: str, kdc: Kdc) -> None:
    """A connection that breaks in mid-run is made again, long after the first ticket's end."""
    keytab = kdc.keytab("brief", max_life=f"{LIFE_SECONDS} sec")
    first = hadoop.connect(kdc.principal("brief"), keytab)
    first.list(place)
    expiry, logins = time.time() + LIFE_SECONDS, kdc.logins("brief")
    wait_until(lambda: time.time() > expiry, timeout=10 * LIFE_SECONDS, what="the ticket to expire")
    assert first.list(place) == []
    assert hadoop.connect(kdc.principal("brief"), keytab).list(place) == []
    assert kdc.logins("brief") > logins


def _no_keytab(kdc: Kdc) -> tuple[str, Path]:
    return "gone", Path("/nowhere/keytab")


def _anothers_keytab(kdc: Kdc) -> tuple[str, Path]:
    return "nameless", kdc.keytab("another")


def _old_keytab(kdc: Kdc) -> tuple[str, Path]:
    keytab = kdc.keytab("changed")
    kdc.new_key("changed")
    return "changed", keytab


@pytest.mark.parametrize("login", [_no_keytab, _anothers_keytab, _old_keytab])
def test_a_login_that_fails_names_principal_and_keytab(
    hadoop: Hadoop, place: str, kdc: Kdc, login: Callable[[Kdc], tuple[str, Path]]
) -> None:
    name, keytab = login(kdc)
    with pytest.raises(StorageError, match=f"{place}.*{kdc.principal(name)}.*{keytab}") as raised:
        hadoop.connect(kdc.principal(name), keytab).exists(place)
    assert not isinstance(raised.value, NotFoundError)


def test_without_a_login_nothing_is_told(hadoop: Hadoop, place: str) -> None:
    settings = Hdfs(config_map="", mount_path=str(hadoop.server.configuration))
    with pytest.raises(StorageError, match="Kerberos"):
        connect("hdfs", place.split("/")[2], settings).exists(place)


def test_a_kdc_that_is_away_is_named(hadoop: Hadoop, place: str, kdc: Kdc) -> None:
    keytab = kdc.keytab("hasty")
    kdc.stop()
    try:
        with pytest.raises(StorageError, match=r"Cannot contact any KDC.*hasty@"):
            hadoop.connect(kdc.principal("hasty"), keytab, timeout=0.5).list(place)
    finally:
        kdc.start()


def test_a_kdc_that_is_away_for_a_moment_is_waited_for(
    hadoop: Hadoop, place: str, kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    keytab = kdc.keytab("patient")
    kdc.stop()
    after_first_failure(monkeypatch, kdc.start)
    assert hadoop.connect(kdc.principal("patient"), keytab).list(place) == []
