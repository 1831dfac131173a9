"""`plan DATABASE.TABLE`: what a driver would do now, by the metastore; nothing is locked or changed."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.config import Metastore, OperatorConfig, Volume, Warehouse
from compaction_operator.api.stores import STORES_VARIABLE
from compaction_operator.cli.configured import IN_POD, alone_in_pod
from compaction_operator.driver.live import Question, plan_table
from compaction_operator.metastore import (
    ORC_INPUT_FORMAT,
    ORC_SERDE,
    Generation,
    Partition,
    QueueEntry,
    QueueState,
    Table,
)
from tests.support.metastore import FakeMetastore, serving
from tests.unit.cli.test_doctor import fake_kubectl
from tests.unit.cli.test_status import PAGE
from tests.unit.test_cli import DELTAS, FIXTURES, tree, verb

ACID = {"transactional": "true", "transactional_properties": "default", "NO_AUTO_COMPACTION": "true"}
COLUMNS = (("id", "bigint"), ("name", "string"))
PARTITIONS = ("prt=p1", "prt=p2", "prt=p3", "prt=p4")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder that stands for `/` of the warehouse's volume, with two tables of real Hive's."""
    lake = tmp_path / "volumes/lake/warehouse/sales.db"
    shutil.copytree(FIXTURES / "hive-3.1.3/table_txn_001/before", lake / "orders")
    shutil.copytree(FIXTURES / "hive-3.1.3/try_it/before", lake / "items")
    (lake / "items/prt=p4").mkdir()
    return lake


def table(name: str, *, keys: tuple[str, ...] = (), **parameters: str) -> Table:
    location = f"file:/warehouse/sales.db/{name}"
    return Table("sales", name, location, 1, ORC_INPUT_FORMAT, ORC_SERDE, COLUMNS, keys, {**ACID, **parameters})


@pytest.fixture
def metastore() -> FakeMetastore:
    source = serving(table("orders"), table("items", keys=("prt",)), hive=Generation.HIVE3)
    source.settings["hive.compactor.initiator.on"] = "true"
    source.set_write_ids(f"sales.orders:3:{2**63 - 1}::")
    source.set_write_ids(f"sales.items:6:{2**63 - 1}::")
    for name in PARTITIONS:
        source.partitions["sales.items"][name] = Partition(name, (), f"file:/warehouse/sales.db/items/{name}", 1)
    return source


@pytest.fixture
def ask(lake: Path, metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run `plan` by a configuration whose metastore is in memory."""
    monkeypatch.setattr("compaction_operator.metastore.MetastoreClient", lambda _: nullcontext(metastore.client()))
    monkeypatch.setenv(STORES_VARIABLE, "{}")
    volume = Volume(claim_name="lake", mount_path="/warehouse")
    main = Warehouse(name="main", metastore=Metastore(uris=("thrift://one:9083",)), namespaces=("etl",), volume=volume)
    config = OperatorConfig(warehouses=(main,), profiles=(), volumes_path=str(tmp_path / "volumes"))
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(config.to_json()))
    return lambda *arguments: verb("plan", *arguments, "--config", str(path))


def test_a_table_is_planned_where_the_controllers_pod_has_its_volume(ask: Any, lake: Path) -> None:
    before = tree(lake)
    done = ask("Sales.Orders", "--type", "minor")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "sales.orders",
        "  base      none",
        *(f"  delta     {name}" for name in DELTAS),
        "  write     delta_0000001_0000003",
        *(f"  obsolete  {name}  (merged into delta_0000001_0000003)" for name in DELTAS),
        "  read      3 files, 2096 bytes",
        "  bytes     0 copied, about 726 rewritten",
        "  rows      0 removed",
        done.stdout.splitlines()[-1],
    ]
    assert done.stdout.splitlines()[-1].startswith("  cost      about ")
    assert tree(lake) == before
    assert done.stdout.rpartition("  cost")[0] in PAGE


def test_the_controllers_small_image_plans_without_a_forecast(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compaction_operator.image.find_spec", lambda _: None)
    (one,) = json.loads(ask("sales.orders", "--type", "minor", "--json").stdout)
    assert one["output_directories"] == ["delta_0000001_0000003"]
    assert [entry["name"] for entry in one["obsolete"]] == DELTAS
    assert list(one["forecast"]) == ["problem"]
    assert "reads no ORC files" in one["forecast"]["problem"]


def test_nothing_is_locked_enqueued_or_ended(ask: Any, metastore: FakeMetastore) -> None:
    ask("sales.items", "--type", "major")
    assert {call.name for call in metastore.calls} <= {
        "generation", "get_table", "get_database", "get_partition_names", "get_partitions", "table_locations",
        "valid_txns", "valid_write_ids", "get_config_value", "compactions",
    }  # fmt: skip


def test_each_partition_has_its_plan_and_an_empty_one_nothing_to_do(ask: Any) -> None:
    found = json.loads(ask("sales.items", "--type", "major", "--json").stdout)
    assert [one["partition"] for one in found] == list(PARTITIONS)
    assert [one["output_directories"] for one in found] == [
        ["base_0000005"],
        ["base_0000004"],
        ["base_0000006"],
        [],
    ]
    some = json.loads(ask("sales.items", "--type", "major", "--partition", "prt=p2", "--json").stdout)
    assert some == [one for one in found if one["partition"] == "prt=p2"]


def test_a_partition_that_cannot_be_planned_is_one_among_the_rest(ask: Any, lake: Path) -> None:
    (lake / "items/prt=p1/strange").mkdir()
    (lake / "items/prt=p1/strange/file").write_text("no bucket")
    done = ask("sales.items", "--type", "major")
    lines = done.stdout.splitlines()
    assert lines[0] == "prt=p1"
    assert lines[1].startswith("  refused   ")
    assert "strange" in lines[1]
    assert lines[2] == "prt=p2"


def test_a_partition_outside_of_the_warehouse_is_refused(ask: Any, lake: Path, metastore: FakeMetastore) -> None:
    """Although it is there, and could be planned."""
    shutil.copytree(lake / "items/prt=p1", lake.parents[1] / "elsewhere/p1")
    metastore.partitions["sales.items"]["prt=p1"] = Partition("prt=p1", (), "file:/elsewhere/p1", 1)
    lines = ask("sales.items", "--type", "minor").stdout.splitlines()
    assert lines[1].startswith("  refused   ")
    assert "/elsewhere/p1" in lines[1]
    assert "/warehouse" in lines[1]


def test_what_keeps_a_compaction_out_now_is_said_beside_the_plan(ask: Any, metastore: FakeMetastore) -> None:
    metastore.alter_table("sales.orders", parameters={**ACID, "NO_AUTO_COMPACTION": "false"})
    entry = QueueEntry(
        queue_id=5, database="sales", table="orders", partition=None, type=CompactionType.MAJOR,
        state=QueueState.WORKING,
    )  # fmt: skip
    metastore.queue = (entry,)
    done = ask("sales.orders", "--type", "minor")
    first, second = done.stderr.splitlines()
    assert first.startswith("now kept out: AutoCompactionOn: Hive compacts table sales.orders automatically")
    assert second.startswith("now kept out: sales.orders is in the metastore's compaction queue: ")
    assert "delta_0000001_0000003" in done.stdout


def test_on_hive_4_names_have_the_layout_of_hive_4(lake: Path, metastore: FakeMetastore) -> None:
    """The transaction of a name is not known before there is one."""
    metastore.hive = Generation.HIVE4
    volume = Volume(claim_name="lake", mount_path="/warehouse")
    main = Warehouse(name="main", metastore=Metastore(uris=("thrift://o:1",)), namespaces=("etl",), volume=volume)
    ref = TableRef(database="sales", name="orders")
    _, found = plan_table(metastore.client(), Question(main, ref, CompactionType.MAJOR, root=str(lake.parents[1])))
    (one,) = found
    assert one.planned is not None
    assert [output.name for output in one.planned.plan.outputs] == ["base_0000003_v0000000"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("sales.nothing", "--type", "minor"), 1, "table sales.nothing does not exist"),
        (("sales.items", "--type", "minor", "--partition", "prt=p9"), 1, "no partition of table sales.items matches"),
        (("orders", "--type", "minor"), 2, "write DATABASE.TABLE"),
        (("sales.orders", "--type", "minor", "--warehouse", "x"), 1, "--warehouse x: "),
        (("sales.orders", "--type", "minor", "--write-ids", "x"), 2, "--write-ids is for a directory, not a table"),
        (("--location", "/x", "--write-ids", "y", "--type", "minor"), 2, "--config is for a table"),
    ],
)
def test_what_cannot_be_planned_is_one_line(ask: Any, arguments: tuple[str, ...], code: int, says: str) -> None:
    done = ask(*arguments)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (code, "", 1)
    assert says in done.stderr


def test_one_at_a_time_runs_in_the_controllers_pod(ask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.yaml"
    monkeypatch.setattr("compaction_operator.cli.configured.IN_POD", str(config))
    with alone_in_pod(config):
        second = ask("sales.orders", "--type", "minor")
    assert (second.returncode, second.stdout, len(second.stderr.splitlines())) == (1, "", 1)
    assert "another doctor or plan runs" in second.stderr
    assert ask("sales.orders", "--type", "minor").returncode == 0


def test_neither_a_table_nor_a_directory_is_a_wrong_command_line() -> None:
    done = verb("plan", "--type", "minor")
    assert (done.returncode, "name a table" in done.stderr) == (2, True)


def test_from_elsewhere_it_runs_in_the_controllers_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little memory, which it shares with the controller; its exit code is this one's."""
    noted = fake_kubectl(tmp_path, "", code=3)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    options = ("--partition", "prt=p2", "--warehouse", "main", "--json", "--context", "there", "--operator", "ops/op")
    done = verb("plan", "sales.orders", "--type", "major", *options)
    assert done.returncode == 3
    assert noted.read_text().strip() == (
        "--context there exec -n ops deploy/op -- compaction-operator plan sales.orders --type major "
        f"--task-memory 64MiB --output json --partition prt=p2 --warehouse main --config {IN_POD}"
    )
