"""What `doctor` says of real metastores: as they are here, and with settings that endanger tables."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import CLEANER, Hive, MetastoreServer

from compaction_operator.api.config import Metastore, Volume, Warehouse
from compaction_operator.cli.findings import Finding, Level
from compaction_operator.cli.metastore_checks import AGENT, BY_WRITE_ID, TXN_TIMEOUT, check_metastores

INITIATOR = {"metastore.compactor.initiator.on": "true"}


def of(settings: Metastore) -> list[Finding]:
    volume = Volume(claim_name="warehouse", mount_path="/warehouse")
    return list(check_metastores(Warehouse(name="main", metastore=settings, namespaces=("etl",), volume=volume)))


def wrong(found: list[Finding]) -> dict[Level, list[str]]:
    levels = (Level.FAILED, Level.WARNING)
    return {level: [one.message for one in found if one.level is level] for level in levels}


def test_a_healthy_metastore_is_called_so_and_keeps_no_lock(server: MetastoreServer, admin: MetastoreAdmin) -> None:
    """Its housekeeping is one of its tasks, so that an Initiator that is off does no harm."""
    found = of(server.settings())
    assert wrong(found) == {Level.FAILED: [], Level.WARNING: []}
    assert found[0].message == f"{server.uri} answers as Hive{server.hive[0]}"
    assert found[2].message == "the principal may lock: a shared lock in database default, which is released"
    assert f"{TXN_TIMEOUT} is 300s" in [one.message for one in found]
    assert not [lock for lock in admin.all_locks() if lock.agent == AGENT]


def test_settings_that_endanger_tables_are_named(hive: Hive, tmp_path: Path) -> None:
    """A timeout in which a lost driver's lock ends too early, and Hive's own compactor."""
    on = {**INITIATOR, **CLEANER}
    with MetastoreServer(tmp_path, hive=hive, txn_timeout_seconds=60, overrides=on) as server:
        found = wrong(of(server.settings()))
    timeout, *cleaner = found[Level.FAILED]
    assert timeout == f"{TXN_TIMEOUT} is 60s: a lost driver's locks end too early"
    (compactor,) = [*cleaner, *found[Level.WARNING]]
    assert bool(cleaner) is hive.startswith("4.2")
    assert compactor.startswith("Hive's Initiator is on" if hive.startswith("3") else "Hive's Cleaner is on")


@pytest.mark.parametrize(
    ("more", "level"), [({}, Level.FAILED), ({"metastore.txn.use.minhistorywriteid": "false"}, Level.WARNING)]
)
def test_the_cleaner_of_4_2_by_its_defaults_fails(more: Mapping[str, str], level: Level, tmp_path: Path) -> None:
    with MetastoreServer(tmp_path, hive="4.2.0", overrides={**CLEANER, **more}) as server:
        found = wrong(of(server.settings()))
    (said,) = found[level]
    assert said.startswith("Hive's Cleaner is on")
    assert (BY_WRITE_ID in said) is (level is Level.FAILED)


def test_a_metastore_that_is_away_is_one_failure(tmp_path: Path) -> None:
    server = MetastoreServer(tmp_path)
    (found,) = of(server.settings(timeout=2.0))
    assert (found.level, server.uri in found.message) == (Level.FAILED, True)
