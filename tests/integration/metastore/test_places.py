"""A driver against real metastores: what lies where something else lies, or nothing may, is left as it is."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.driver import main as driver
from compaction_operator.driver.errors import JobError
from compaction_operator.metastore import Refused
from tests.integration.metastore.fixture_table import FixtureTable
from tests.unit.driver.support import REQUEST, Store

Drive = Callable[..., DriverResult]


@pytest.fixture
def drive(server: MetastoreServer, monkeypatch: pytest.MonkeyPatch) -> Drive:
    """Run the driver's program on a table, with its journals in a dictionary."""
    monkeypatch.setattr(driver, "KubernetesJournals", Store)
    monkeypatch.setattr(driver, "OwnPod", lambda *_: SimpleNamespace(annotate=lambda _: None))

    def run(table: FixtureTable, *partitions: str, locations: tuple[str, ...] = ()) -> DriverResult:
        metastore = REQUEST.warehouse.metastore.model_copy(update={"uris": (server.uri,), "timeout": 20.0})
        changes: dict[str, Any] = {
            "table": TableRef(database=table.database, name=table.name),
            "type": CompactionType.MAJOR,
            "partitions": partitions,
            "warehouse": REQUEST.warehouse.model_copy(update={"metastore": metastore, "locations": locations}),
        }
        return driver.compact(REQUEST.model_copy(update=changes), pod_uid="pod1", environment={"POD_NAME": "pod1"})

    return run


def test_tables_lie_where_the_metastore_says(
    admin: MetastoreAdmin, server: MetastoreServer, database: str, make_table: Callable[..., str]
) -> None:
    """All kinds of tables, none of a database that does not exist."""
    make_table("A", keys=("p",))
    make_table("io", parameters={"transactional": "true", "transactional_properties": "insert_only"})
    make_table("plain", parameters={})
    folder = f"file:{server.warehouse}/{database}.db"
    expected = {"a": f"{folder}/A", "io": f"{folder}/io", "plain": f"{folder}/plain"}
    assert admin.table_locations(database) == admin.table_locations(database.upper()) == expected
    assert admin.table_locations("nowhere") == {}


def test_a_partition_among_another_tables_files_is_left_as_it_is(
    drive: Drive, try_it: FixtureTable, three_inserts: FixtureTable, admin: MetastoreAdmin
) -> None:
    """By its own table's write ids it would look compactable; the other partitions are compacted."""
    stolen = f"file:{three_inserts.directory}"
    admin.add_partition_at(try_it.database, try_it.name, ["stolen"], location=stolen)
    before = three_inserts.names()
    with pytest.raises(JobError) as refused:
        drive(try_it)
    assert refused.value.reason is Reason.UNSUPPORTED_TABLE
    assert f"partition prt=stolen of table {try_it.database}.{try_it.name} lies at {stolen}" in str(refused.value)
    assert f"table {three_inserts.database}.{three_inserts.name} at {stolen}" in str(refused.value)
    assert three_inserts.names() == before
    assert [base for p in ("prt=p1", "prt=p2", "prt=p3") for base in try_it.visible(p) if base.startswith("base")]


def test_two_partitions_in_one_place_are_left_as_they_are(
    drive: Drive, try_it: FixtureTable, admin: MetastoreAdmin
) -> None:
    """Also where only one of them is asked for."""
    location = f"file:{try_it.directory}/prt=p1"
    admin.add_partition_at(try_it.database, try_it.name, ["twin"], location=location)
    before = try_it.names("prt=p1")
    with pytest.raises(JobError, match=r"prt=p1 .* partition prt=twin at") as refused:
        drive(try_it, "prt='p1'")
    assert refused.value.reason is Reason.UNSUPPORTED_TABLE
    assert try_it.names("prt=p1") == before
    assert drive(try_it, "prt='p2'").reason is Reason.COMPACTED


def test_a_table_in_the_place_of_another_is_left_as_it_is(
    drive: Drive, three_inserts: FixtureTable, admin: MetastoreAdmin
) -> None:
    """The one that does not lie in its usual place."""
    place = f"file:{three_inserts.directory}"
    admin.create_table(three_inserts.database, "twin", location=place, columns=[("id", "int")])
    twin, before = replace(three_inserts, name="twin"), three_inserts.names()
    with pytest.raises(JobError, match=rf"table {three_inserts.database}\.{three_inserts.name} at {place}"):
        drive(twin)
    assert three_inserts.names() == before


def test_only_what_the_warehouse_allows_is_compacted(
    drive: Drive, try_it: FixtureTable, admin: MetastoreAdmin, tmp_path: Path
) -> None:
    """The table's own place, and each partition's."""
    with pytest.raises(Refused, match="allows only locations below: /elsewhere") as refused:
        drive(try_it, locations=("/elsewhere",))
    assert refused.value.reason is Reason.NOT_ALLOWED
    admin.add_partition_at(try_it.database, try_it.name, ["away"], location=f"file:{tmp_path}/away")
    with pytest.raises(JobError, match=f"prt=away .* it lies at file:{tmp_path}/away") as not_allowed:
        drive(try_it, locations=(str(try_it.directory),))
    assert not_allowed.value.reason is Reason.NOT_ALLOWED
    assert not list((tmp_path / "away").glob("*"))
