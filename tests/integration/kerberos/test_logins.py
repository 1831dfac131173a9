"""Clients of a metastore with Kerberos: who they are, how long they are that, and what is said when a login fails."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sandbox.harness.places import location_of
from sandbox.hdfs.path import HdfsPath
from sandbox.kerberos.realm import Realm
from sandbox.metastore.admin import MetastoreAdmin

from compaction_operator.api.config import Kerberos, Metastore
from compaction_operator.api.stores import KerberosLogin
from compaction_operator.metastore import MetastoreClient, MetastoreUnavailable
from compaction_operator.storage import Stores
from tests.integration.kerberos.conftest import World

pytestmark = pytest.mark.parametrize("world", ["4.0.1"], indirect=True, scope="package")
ROUNDS = 10
SHORT = "3 sec"


@pytest.fixture
def connect(world: World) -> Callable[..., Metastore]:
    """Return how to connect with other settings of Kerberos."""

    def settings(kerberos: Kerberos, *, timeout: float = 20.0) -> Metastore:
        return world.plane.metastore.settings(timeout=timeout).model_copy(update={"kerberos": kerberos})

    return settings


def test_warehouses_of_one_controller_do_not_mix_their_principals(
    world: World, realm: Realm, connect: Callable[..., Metastore]
) -> None:
    """In one process, at once, while their tickets end: the metastore and HDFS say who came by each connection."""
    logins = [realm.login(name, max_life=SHORT) for name in ("sales", "research")]
    warehouse = HdfsPath(str(world.plane.metastore.warehouse))

    def names_of_owners(login: KerberosLogin, number: int) -> set[str]:
        name = login.client_principal.partition("@")[0]
        made = warehouse / f"{name}{number}.db", warehouse / f"{name}{number}"
        with MetastoreAdmin(connect(realm.client(login))) as admin:
            admin.create_database(made[0].name.removesuffix(".db"), location=location_of(made[0]))
        Stores(realm.stores(login)).open(str(made[1])).make_directory(str(made[1]))
        return {f"{name}: {place.owner()}" for place in made}

    with ThreadPoolExecutor(2 * len(logins)) as threads:
        found = threads.map(names_of_owners, logins * ROUNDS, [n for n in range(ROUNDS) for _ in logins])
        assert set().union(*found) == {"sales: sales", "research: research"}
    assert not realm.kdc.default_cache.exists()
    assert "KRB5CCNAME" not in os.environ


def _no_keytab(realm: Realm) -> tuple[KerberosLogin, str]:
    return realm.login_by("gone", Path("/nowhere/keytab")), "the keytab cannot be read"


def _anothers_keytab(realm: Realm) -> tuple[KerberosLogin, str]:
    return realm.login_by("nameless", realm.kdc.keytab("another")), "the keytab has no key of the principal"


def _old_keytab(realm: Realm) -> tuple[KerberosLogin, str]:
    login = realm.login("changed")
    realm.kdc.new_key("changed")
    return login, "Decrypt integrity check failed|Preauthentication failed"


@pytest.mark.parametrize("login", [_no_keytab, _anothers_keytab, _old_keytab])
def test_a_login_that_fails_names_the_reason_principal_and_keytab(
    realm: Realm,
    connect: Callable[..., Metastore],
    login: Callable[[Realm], tuple[KerberosLogin, str]],
) -> None:
    who, reason = login(realm)
    require_refusal(connect(realm.client(who)), f"Kerberos: ({reason}) .as {who.client_principal}, .*{who.keytab}")


def test_a_service_that_the_realm_does_not_know_is_named(realm: Realm, connect: Callable[..., Metastore]) -> None:
    """A wrong `metastore.kerberos.principal`."""
    wrong = realm.client(realm.login("lost")).model_copy(update={"principal": "hive/elsewhere@COMPACTION.TEST"})
    require_refusal(connect(wrong), "Server hive/elsewhere@COMPACTION.TEST not found in Kerberos database")


@pytest.fixture
def hanging_kdc(realm: Realm) -> Iterator[None]:
    realm.kdc.pause()
    yield
    realm.kdc.resume()


def test_a_kdc_that_hangs_is_named_in_time(
    realm: Realm, connect: Callable[..., Metastore], request: pytest.FixtureRequest
) -> None:
    """As where a firewall drops what is sent to it."""
    login = realm.login("patient")
    request.getfixturevalue("hanging_kdc")
    reason = f"the KDC gave no answer in time .as {login.client_principal}, .*{login.keytab}"
    require_refusal(connect(realm.client(login), timeout=1.0), reason)


def require_refusal(settings: Metastore, says: str) -> None:
    with MetastoreClient(settings) as client, pytest.raises(MetastoreUnavailable, match=says):
        client.get_table("default", "t")
