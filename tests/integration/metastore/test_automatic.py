"""Whether Hive compacts a table by itself, as real metastores say: one without an Initiator, and one with it."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import Hive, MetastoreServer

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import Reason
from compaction_operator.driver import main as driver
from compaction_operator.metastore import (
    AutoCompaction,
    Generation,
    MetastoreError,
    Refused,
    TableNotFound,
    auto_compaction,
)
from tests.unit.driver.support import REQUEST

ACID = {"transactional": "true", "transactional_properties": "default"}
INITIATOR = {"metastore.compactor.initiator.on": "true"}


def alter_database(admin: MetastoreAdmin, name: str, parameters: dict[str, str]) -> None:
    def alter(client: Any) -> None:
        database = client.get_database(name)
        database.parameters = parameters
        client.alter_database(name, database)

    admin._call(alter)


def test_without_an_initiator_nothing_is_compacted_by_itself(
    admin: MetastoreAdmin, database: str, make_table: Callable[..., str]
) -> None:
    table = admin.get_table(database, make_table())
    assert auto_compaction(admin, table) is AutoCompaction.INITIATOR_OFF


def test_settings_have_defaults_and_secrets_are_not_handed_out(admin: MetastoreAdmin) -> None:
    assert admin.get_config_value("hive.no.such.setting", "here") == "here"
    with pytest.raises(MetastoreError, match="cannot be accessed"):
        admin.get_config_value("javax.jdo.option.ConnectionPassword", "")


def test_a_database_that_does_not_exist_is_an_error(admin: MetastoreAdmin) -> None:
    with pytest.raises(TableNotFound):
        admin.get_database("nowhere")


@pytest.fixture
def initiating(hive: Hive, tmp_path: Path) -> Iterator[MetastoreAdmin]:
    """A metastore whose Initiator is on."""
    with (
        MetastoreServer(tmp_path, hive=hive, overrides=INITIATOR) as server,
        MetastoreAdmin(server.settings()) as admin,
    ):
        admin.create_database("db", location=f"file:{server.warehouse}/db.db")
        for name, more in (("t", {}), ("off", {"NO_AUTO_COMPACTION": "true"})):
            place = f"file:{server.warehouse}/db.db/{name}"
            admin.create_table("db", name, location=place, columns=[("a", "int")], parameters=ACID | more)
        yield admin


def test_an_initiator_looks_after_what_table_and_database_do_not_keep_from_it(initiating: MetastoreAdmin) -> None:
    """Hive 3.1 does not look at the database; on Hive 4 it comes first."""
    table, off = initiating.get_table("db", "t"), initiating.get_table("db", "off")
    assert [auto_compaction(initiating, one) for one in (table, off)] == [
        AutoCompaction.ON,
        AutoCompaction.OFF_BY_TABLE,
    ]
    hive4 = initiating.generation() is Generation.HIVE4
    alter_database(initiating, "db", {"no_auto_compaction": "true"})
    seen = auto_compaction(initiating, table)
    assert seen is (AutoCompaction.OFF_BY_DATABASE if hive4 else AutoCompaction.ON)
    alter_database(initiating, "db", {"no_auto_compaction": "false"})
    seen = auto_compaction(initiating, off)
    assert seen is (AutoCompaction.ON if hive4 else AutoCompaction.OFF_BY_TABLE)


class BegunError(Exception):
    """A driver got as far as its journal."""


def begin() -> None:
    raise BegunError


def test_a_driver_leaves_alone_what_hive_3_compacts_by_itself(
    initiating: MetastoreAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H23: unless that is allowed. On Hive 4 the entry of the queue keeps one of the two out."""
    monkeypatch.setattr(driver, "MetastoreClient", lambda _: nullcontext(initiating))
    monkeypatch.setattr(driver, "KubernetesJournals", begin)
    hive4 = initiating.generation() is Generation.HIVE4
    for name, allowed, begins in (("t", False, hive4), ("t", True, True), ("off", False, True)):
        changes = {"table": TableRef(database="db", name=name), "allow_auto_compaction": allowed}
        with pytest.raises(BegunError if begins else Refused) as ended:
            driver.compact(REQUEST.model_copy(update=changes), pod_uid="pod1", environment={"POD_NAME": "pod1"})
        assert begins or getattr(ended.value, "reason", None) is Reason.AUTO_COMPACTION_ON
