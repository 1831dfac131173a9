"""The verb `doctor`: what each check finds, what it leaves behind, and the exit code."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from compaction_operator.api.config import (
    HudiSettings,
    Metastore,
    OperatorConfig,
    Receipts,
    SparkProfile,
    Volume,
    Warehouse,
)
from compaction_operator.api.request import AGENT_PREFIX
from compaction_operator.api.stores import StoreSettings
from compaction_operator.cli import metastore_checks, storage_checks
from compaction_operator.cli.cluster import Cluster
from compaction_operator.cli.configured import IN_POD, alone_in_pod
from compaction_operator.cli.findings import Finding, Level
from compaction_operator.cli.metastore_checks import (
    BY_WRITE_ID,
    HOUSEKEEPING_ON,
    SETTINGS,
    TASKS,
    TXN_TIMEOUT,
    check_metastores,
    judge,
)
from compaction_operator.cli.right_checks import EVERYWHERE, IN_EACH_NAMESPACE, Rule, of_the_lease
from compaction_operator.cli.storage_checks import check_storage
from compaction_operator.cli.tenant_checks import check_tenants
from compaction_operator.controller.kube.times import parse_time
from compaction_operator.metastore import (
    Generation,
    LockWish,
    MetastoreClient,
    MetastoreError,
    MetastoreUnavailable,
)
from compaction_operator.metastore.initiator import CLEANER_ON, INITIATOR_ON
from compaction_operator.storage import AlreadyExistsError, Entry, LocalStorage, StorageError, probe_renames
from tests.support.metastore import FakeMetastore
from tests.support.object_store import ObjectStore
from tests.unit.cli.conftest import FakeApi, write_kubeconfig
from tests.unit.controller.sandbox import reader
from tests.unit.test_cli import verb

ROOT = Path(__file__).parents[3]
OK, INFO, WARNING, FAILED = Level.OK, Level.INFO, Level.WARNING, Level.FAILED
HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
GOOD4 = {TXN_TIMEOUT: "300s", HOUSEKEEPING_ON: "true", INITIATOR_ON: "false", CLEANER_ON: "false", BY_WRITE_ID: "true"}


def warehouse(*, folder: str = "/warehouse", uris: tuple[str, ...] = ("thrift://one:9083",), **more: Any) -> Warehouse:
    volume = Volume(claim_name="lake", mount_path=folder)
    return Warehouse(name="main", metastore=Metastore(uris=uris), namespaces=("etl",), volume=volume, **more)


def levels(found: Iterable[Finding]) -> list[Level]:
    return [one.level for one in found]


def connected(source: FakeMetastore) -> Any:
    """Return a connector that always leads to a metastore in memory."""
    return lambda _: nullcontext(source.client())


def test_a_metastore_that_is_as_it_should_be_and_stays_so() -> None:
    source = FakeMetastore(hive=HIVE4, settings=GOOD4)
    found = list(check_metastores(warehouse(databases=("sales",)), connected(source)))
    assert {one.level for one in found} == {OK}
    assert [one.message for one in found[:3]] == [
        "thrift://one:9083 answers as Hive4",
        "the principal may list: 0 managed tables, 0 locks, 0 open transactions",
        "the principal may lock: a shared lock in database sales, which is released",
    ]
    assert [wish.database for wish in source.asked("lock")] == ["sales"]
    assert source.locks == ()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MetastoreError("its answer was lost")])
def test_the_lock_is_released_whatever_happens(error: BaseException) -> None:
    """Also without its id, which the metastore would have answered. Another client's lock stays."""
    source = FakeMetastore(hive=HIVE4, settings=GOOD4)
    other = replace(reader(), database="default", table=None)  # on the whole database
    source.locks = (other,)

    def fail(_: LockWish) -> None:
        raise error

    source.on("lock", fail, after=True)
    with suppress(KeyboardInterrupt):
        list(check_metastores(warehouse(), connected(source)))
    assert source.locks == (other,)


def test_the_lock_is_not_taken_for_a_drivers() -> None:
    assert not metastore_checks.AGENT.startswith(AGENT_PREFIX)


def test_each_metastore_is_asked_and_one_that_is_away_does_not_hide_the_other() -> None:
    away, there = FakeMetastore(hive=HIVE4), FakeMetastore(hive=HIVE4, settings=GOOD4)
    away.fail(MetastoreUnavailable("no answer"))
    by_uri = {"thrift://one:9083": away, "thrift://two:9083": there}

    def connect(settings: Metastore) -> AbstractContextManager[MetastoreClient]:
        (uri,) = settings.uris
        return nullcontext(by_uri[uri].client())

    first, *rest = check_metastores(warehouse(uris=tuple(by_uri)), connect)  # type: ignore[arg-type]
    assert (first.level, first.message) == (FAILED, "thrift://one:9083: no answer")
    assert "this pod reaches the metastore's port" in first.change
    assert levels(rest) == [OK] * 7


@pytest.mark.parametrize(("call", "says"), [("all_locks", "may not list: no"), ("lock", "may not lock: no")])
def test_a_right_that_the_principal_lacks_is_one_failure_among_the_rest(call: str, says: str) -> None:
    source = FakeMetastore(hive=HIVE4, settings=GOOD4)
    source.fail(MetastoreError("no"), call)
    found = list(check_metastores(warehouse(), connected(source)))
    (failed,) = [one for one in found if one.level is FAILED]
    assert says in failed.message
    assert failed.change
    assert len(found) == 7


def test_a_setting_that_the_metastore_withholds_is_unknown() -> None:
    source = FakeMetastore(hive=HIVE4, settings=GOOD4)
    source.fail(MetastoreError("withheld"), "get_config_value")
    found = list(check_metastores(warehouse(), connected(source)))
    assert levels(found[3:]) == [WARNING, WARNING, OK, WARNING]


def judged(generation: Generation, **changed: str) -> dict[str, Level]:
    """Return the levels by the first word of the message."""
    values = dict.fromkeys(SETTINGS, "") | (GOOD4 if generation is HIVE4 else {TXN_TIMEOUT: "300s"}) | changed
    found = list(judge(generation, values))
    assert all(change for level, _, change in found if level is not OK)
    return dict(zip(("timeout", "housekeeping", "initiator", "cleaner"), (level for level, *_ in found), strict=False))


@pytest.mark.parametrize(
    ("value", "level"),
    [
        ("300s", OK), ("300", OK), ("300SECONDS", OK), ("5min", OK), ("180000ms", OK), ("1h", OK), ("180s", OK),
        ("179s", FAILED), ("2m", FAILED), ("90000ms", FAILED), ("0", FAILED),
        ("", WARNING), ("soon", WARNING), ("300parsecs", WARNING),
    ],
)  # fmt: skip
def test_a_timeout_below_what_safety_assumes_fails(value: str, level: Level) -> None:
    assert judged(HIVE4, **{TXN_TIMEOUT: value})["timeout"] is level


@pytest.mark.parametrize(
    ("generation", "changed", "level"),
    [
        (HIVE3, {INITIATOR_ON: "true"}, OK),
        (HIVE3, {INITIATOR_ON: "false"}, WARNING),
        (HIVE3, {INITIATOR_ON: "false", TASKS: "a.b.AcidHouseKeeperService"}, OK),
        (HIVE4, {}, OK),
        (HIVE4, {HOUSEKEEPING_ON: "false"}, WARNING),
        (HIVE4, {HOUSEKEEPING_ON: "false", TASKS: "a.b.AcidHouseKeeperService"}, OK),
    ],
)
def test_without_housekeeping_cleanups_may_wait_for_ever(
    generation: Generation, changed: dict[str, str], level: Level
) -> None:
    assert judged(generation, **changed)["housekeeping"] is level


@pytest.mark.parametrize(
    ("generation", "value", "level"),
    [(HIVE3, "true", WARNING), (HIVE3, "", WARNING), (HIVE3, "false", OK), (HIVE4, "true", OK), (HIVE4, "false", OK)],
)
def test_a_second_compactor_is_named_where_nothing_keeps_it_out(
    generation: Generation, value: str, level: Level
) -> None:
    assert judged(generation, **{INITIATOR_ON: value})["initiator"] is level


@pytest.mark.parametrize(
    ("on", "by_write_id", "level"),
    [
        ("false", "true", OK), ("true", "false", WARNING), ("true", "", WARNING), ("", "false", WARNING),
        ("true", "true", FAILED), ("", "true", FAILED),
    ],
)  # fmt: skip
def test_hives_own_cleaner(on: str, by_write_id: str, level: Level) -> None:
    """By Hive 4.2's defaults it deletes what queries read: docs/safety.md."""
    assert judged(HIVE4, **{CLEANER_ON: on, BY_WRITE_ID: by_write_id})["cleaner"] is level
    assert "cleaner" not in judged(HIVE3, **{CLEANER_ON: on})


def test_a_folder_that_can_be_published_to_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "sales.db").mkdir()
    found = list(check_storage(warehouse(folder=str(tmp_path)), lambda _: LocalStorage()))
    assert [(one.level, one.message) for one in found] == [(OK, f"{tmp_path} can be listed, written and cleaned")]
    assert [path.name for path in tmp_path.iterdir()] == ["sales.db"]


def test_a_folder_that_is_not_there_fails_and_is_not_made(tmp_path: Path) -> None:
    (found,) = check_storage(warehouse(folder=str(tmp_path / "lake")), lambda _: LocalStorage())
    assert (found.level, str(tmp_path / "lake") in found.message, bool(found.change)) == (FAILED, True, True)
    assert not (tmp_path / "lake").exists()


def test_an_empty_bucket_is_a_folder_for_tables(tmp_path: Path) -> None:
    """Object stores have no empty folders, and a new warehouse is empty."""
    folder = str(tmp_path / "lake")
    (found,) = check_storage(warehouse(folder=folder), lambda _: ObjectStore())
    assert (found.level, found.message) == (OK, f"{folder} can be listed, written and cleaned")


def test_receipts_are_checked_where_their_folder_will_be_made(tmp_path: Path) -> None:
    place = Receipts(location=f"{tmp_path}/receipts")
    first, second = check_storage(warehouse(folder=str(tmp_path), receipts=place), lambda _: LocalStorage())
    assert second.message == f"{first.message}; the controller makes {place.location} when it needs it"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "receipts").mkdir()
    *_, there = check_storage(warehouse(folder=str(tmp_path), receipts=place), lambda _: LocalStorage())
    assert there.message.startswith(f"{tmp_path}/receipts can be")


@pytest.mark.parametrize("below", ["", "/receipts", "/.hoodie/receipts", "/day=1/receipts"])
@pytest.mark.parametrize("made", [False, True])
def test_receipts_in_a_hudi_table_fail(tmp_path: Path, below: str, *, made: bool) -> None:
    """Hudi's cleaner and readers take its folders for partitions. Nothing is written there for a check."""
    (tmp_path / "orders/.hoodie").mkdir(parents=True)
    (tmp_path / "orders/day=1").mkdir()
    if made:
        (tmp_path / f"orders{below}").mkdir(exist_ok=True)
    before = sorted(tmp_path.rglob("*"))
    place = Receipts(location=f"{tmp_path}/orders{below}")
    *_, found = check_storage(warehouse(folder=str(tmp_path), receipts=place), lambda _: LocalStorage())
    assert (found.level, f"lies in the Hudi table {tmp_path}/orders" in found.message) == (FAILED, True)
    assert sorted(tmp_path.rglob("*")) == before


def test_receipts_in_a_table_of_no_warehouse_fail(tmp_path: Path) -> None:
    (tmp_path / "other/.hoodie").mkdir(parents=True)
    (tmp_path / "hive").mkdir()
    place = Receipts(location=f"{tmp_path}/other/receipts")
    main = warehouse(folder=str(tmp_path), locations=(f"{tmp_path}/hive",), receipts=place)
    *_, found = check_storage(main, lambda _: LocalStorage())
    assert (found.level, found.message) == (FAILED, f"{tmp_path}/other is a Hudi table, not a folder for receipts")


def test_receipts_beside_a_hudi_table_are_fine(tmp_path: Path) -> None:
    (tmp_path / "orders/.hoodie").mkdir(parents=True)
    place = Receipts(location=f"{tmp_path}/receipts")
    *_, found = check_storage(warehouse(folder=str(tmp_path), receipts=place), lambda _: LocalStorage())
    assert found.level is OK


@pytest.mark.parametrize("locations", [("/warehouse",), ("file:/warehouse",), ("file:///warehouse/", "/")])
@pytest.mark.parametrize(("table", "level"), [("receipts", FAILED), ("other", OK)])
def test_receipts_are_looked_up_to_the_root_of_the_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locations: tuple[str, ...], table: str, level: Level
) -> None:
    (tmp_path / "warehouse" / table / ".hoodie").mkdir(parents=True)
    monkeypatch.setattr(storage_checks, "_folder", lambda report, folder, *_, **__: report.ok(folder))
    main = warehouse(locations=locations, receipts=Receipts(location="/warehouse/receipts"))
    *_, found = check_storage(main, lambda _: LocalStorage(root=str(tmp_path)))
    assert found.level is level, found.message


def test_a_warehouse_without_any_folder_fails() -> None:
    bare = Warehouse(name="main", metastore=Metastore(uris=("thrift://one:9083",)), namespaces=("etl",))
    assert levels(check_storage(bare, lambda _: LocalStorage())) == [FAILED]


def test_nothing_is_written_into_a_hudi_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its base path may be configured itself. The table's readers and writers list it."""
    table = tmp_path / "orders"
    (table / ".hoodie").mkdir(parents=True)
    monkeypatch.setattr(LocalStorage, "make_directory", lambda *_: pytest.fail("written"))
    hudi = HudiSettings(options={}, locations=(str(table),))
    *_, found = check_storage(warehouse(folder=str(table), hudi=hudi), lambda _: LocalStorage())
    assert (found.level, "is a Hudi table, so nothing is written" in found.message) == (OK, True)
    assert [path.name for path in table.iterdir()] == [".hoodie"]


class Denying(LocalStorage):
    """A store on which only Hive's user makes folders in the root of the warehouse."""

    def make_directory(self, path: str) -> None:
        raise StorageError(f"{path}: Permission denied", denied=True)


def test_a_root_that_only_hives_user_may_write_is_a_warning(tmp_path: Path) -> None:
    """The tables below may be the operator's to write: that is known of each table only."""
    (found,) = check_storage(warehouse(folder=str(tmp_path)), lambda _: Denying())
    assert (found.level, "can be listed, not written" in found.message) == (WARNING, True)
    assert found.change.startswith("nothing, if only Hive's user makes folders there")
    receipts = Receipts(location=f"{tmp_path}/receipts")
    *_, last = check_storage(warehouse(folder=str(tmp_path), receipts=receipts), lambda _: Denying())
    assert last.level is FAILED


class Hidden(Denying):
    """A store that does not even list its root."""

    def list(self, path: str) -> list[Entry]:
        raise StorageError(f"{path}: Permission denied", denied=True)


def test_a_root_that_may_not_be_listed_fails(tmp_path: Path) -> None:
    (found,) = check_storage(warehouse(folder=str(tmp_path)), lambda _: Hidden())
    assert found.level is FAILED


class Replacing(LocalStorage):
    """A store whose renames replace what is there."""

    def rename(self, source: str, target: str) -> None:
        with_all = Path(target)
        if with_all.exists():
            self.delete_tree(target)
        super().rename(source, target)


class Refusing(LocalStorage):
    """A store that fails a step after the first ones."""

    def rename(self, source: str, target: str) -> None:
        if Path(target).exists():
            raise AlreadyExistsError(target)
        raise StorageError(f"{source}: no right")


def test_a_store_whose_renames_replace_is_unfit(tmp_path: Path) -> None:
    assert probe_renames(Replacing(), str(tmp_path)) == "a rename replaces a directory that exists"
    assert list(tmp_path.iterdir()) == []


def test_a_probe_that_is_refused_midway_leaves_nothing(tmp_path: Path) -> None:
    (found,) = check_storage(warehouse(folder=str(tmp_path)), lambda _: Refusing())
    assert (found.level, "no right" in found.message) == (FAILED, True)
    assert list(tmp_path.iterdir()) == []


def rights_of(page: str, kind: str, name: str) -> set[tuple[str, ...]]:
    """Return the rights that a role in a manifest gives."""
    documents = [one for one in yaml.safe_load_all((ROOT / "manifests" / page).read_text()) if one]
    (role,) = [one for one in documents if one["kind"] == kind and one["metadata"]["name"] == name]
    return {
        (group, resource, verb_, name_)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb_ in rule["verbs"]
        for name_ in rule.get("resourceNames", [""])
    }


def asked(*rules: Rule) -> set[tuple[str, ...]]:
    return {
        (rule.group, resource, one, rule.name) for rule in rules for resource in rule.resources for one in rule.verbs
    }


@pytest.mark.parametrize(
    ("page", "kind", "name", "rules"),
    [
        ("default/rbac.yaml", "ClusterRole", "compaction-operator", EVERYWHERE),
        ("default/rbac.yaml", "Role", "compaction-operator-election", of_the_lease("compaction-operator")),
        ("tenant/controller-role.yaml", "Role", "compaction-operator", IN_EACH_NAMESPACE),
    ],
)
def test_the_rights_are_those_of_the_manifests(page: str, kind: str, name: str, rules: tuple[Rule, ...]) -> None:
    assert asked(*rules) == rights_of(page, kind, name)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration of two warehouses in a folder, whose metastores are in memory."""
    monkeypatch.setattr(
        "compaction_operator.cli.metastore_checks.check_metastores.__defaults__",
        (connected(FakeMetastore(hive=HIVE4, settings=GOOD4)),),
    )
    (tmp_path / "lake").mkdir()
    main = warehouse(folder=str(tmp_path / "lake"))
    other = main.model_copy(update={"name": "other", "namespaces": ("bi",)})
    profiles = tuple(SparkProfile(name=name, image="x") for name in ("default", "large"))
    settings = OperatorConfig(warehouses=(main, other), profiles=profiles).to_json()
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps({**settings, "leaderElection": {"lease": "compaction-operator"}}))
    return path


def test_a_healthy_installation_ends_with_0(config: Path, api: FakeApi) -> None:
    done = verb("doctor", "--config", str(config))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "warehouse main"
    assert "warehouse other" in lines
    assert "  ok       rights     kubeconfig's account has the 18 rights of the controller in all namespaces" in lines
    assert lines[-1] == "0 failed, 0 warning, 0 info, 24 ok"


def test_a_failure_ends_with_1_and_says_what_to_change(config: Path, api: FakeApi) -> None:
    api.refused = lambda right: (right["namespace"], right["verb"], right["resource"]) == ("bi", "create", "jobs")
    done = verb("doctor", "--config", str(config))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    failed = lines.index("  failed   rights     kubeconfig's account may not create jobs in namespace bi")
    assert lines[failed + 1].startswith("           change     install the chart's roles")
    assert lines[-1] == "1 failed, 0 warning, 0 info, 23 ok"
    as_json = verb("doctor", "--config", str(config), "--json", "--warehouse", "other")
    assert as_json.returncode == 1
    found = json.loads(as_json.stdout)
    assert [one["message"] for one in found if one["level"] == "failed"] == [
        "kubeconfig's account may not create jobs in namespace bi"
    ]
    assert {one["warehouse"] for one in found} == {"", "other"}


def test_where_each_namespace_is_watched_by_itself_nothing_is_asked_of_the_cluster(config: Path, api: FakeApi) -> None:
    config.write_text(json.dumps({**json.loads(config.read_text()), "watch": "Namespaces"}))
    api.refused = lambda right: right["namespace"] == "" or (right["namespace"], right["verb"]) == ("bi", "watch")
    done = verb("doctor", "--config", str(config))
    lines = [line for line in done.stdout.splitlines() if "rights" in line]
    assert lines[1:] == [
        "  ok       rights     kubeconfig's account has the 21 rights of the controller in namespace etl",
        "  failed   rights     kubeconfig's account may not watch tablecompactions, watch compactioncleanups, "
        "watch compactionpolicies, watch jobs, watch pods in namespace bi",
    ]


def judged_tenants(api: FakeApi, main: Warehouse) -> list[tuple[Level, str]]:
    config = OperatorConfig(warehouses=(main,), profiles=(SparkProfile(name="default", image="x"),))
    return [(one.level, one.message) for one in check_tenants(Cluster(), config)]


def kerberized(**more: Any) -> Warehouse:
    """A warehouse with a claim, tables on HDFS, and two secrets."""
    secrets = {name: {"name": name, "mountPath": f"/{name}"} for name in ("login", "keytab")}
    hdfs = {"configMap": "hadoop", "secret": secrets["keytab"]}
    metastore = Metastore.model_validate({"uris": ["thrift://one:9083"], "secret": secrets["login"]})
    stores = StoreSettings.model_validate({"hdfs": hdfs})
    return warehouse(locations=("hdfs://n/w",), stores=stores, **more).model_copy(update={"metastore": metastore})


def test_each_namespace_has_what_drivers_mount_and_run_as(api: FakeApi) -> None:
    """Else a driver's pod does not start. The content of a secret is not asked for."""
    api.absent = {"bi/persistentvolumeclaims/lake", "bi/serviceaccounts/compaction-driver", "bi/secrets/keytab"}
    main = kerberized().model_copy(update={"namespaces": ("etl", "bi")})
    assert judged_tenants(api, main) == [
        (OK, "claim lake is in namespace etl"),
        (OK, "service account compaction-driver is in namespace etl"),
        (OK, "ConfigMap hadoop is in namespace etl"),
        (OK, "secret login is in namespace etl"),
        (OK, "secret keytab is in namespace etl"),
        (FAILED, "claim lake is missing in namespace bi"),
        (FAILED, "service account compaction-driver is missing in namespace bi"),
        (OK, "ConfigMap hadoop is in namespace bi"),
        (OK, "secret login is in namespace bi"),
        (FAILED, "secret keytab is missing in namespace bi"),
    ]
    secrets = {path: accept for path, accept in api.accepted.items() if "/secrets/" in path}
    assert len(secrets) == 4
    assert all("PartialObjectMetadata" in accept for accept in secrets.values())


@pytest.mark.parametrize(("phase", "level"), [("Bound", OK), ("Pending", WARNING), ("Lost", FAILED)])
def test_a_claim_without_its_volume(api: FakeApi, phase: str, level: Level) -> None:
    """A class may bind at the first pod."""
    api.phases = {"etl/persistentvolumeclaims/lake": phase}
    ((found, message), _) = judged_tenants(api, warehouse())
    assert (found, phase in message) == (level, level is not OK)


@pytest.mark.parametrize(("pod", "level"), [("", WARNING), ("compaction-system", INFO)])
def test_what_the_account_may_not_read_is_one_line(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, pod: str, level: Level
) -> None:
    """The controller itself has no such right, and needs none: in its pod, a healthy install has no warning."""
    monkeypatch.setattr("compaction_operator.cli.cluster.own_namespace", lambda: pod)
    api.refused = lambda right: right["resource"] in ("persistentvolumeclaims", "secrets")
    api.absent = {"etl/persistentvolumeclaims/lake"}
    *_, last = found = judged_tenants(api, kerberized())
    account = "this pod's account" if pod else "kubeconfig's account"
    assert last == (
        level,
        f"{account} may not read, so not checked: claim lake in namespace etl, "
        "secret login in namespace etl, secret keytab in namespace etl",
    )
    assert [level for level, _ in found[:-1]] == [OK, OK]


def test_the_controller_has_no_right_to_read_what_tenants_have() -> None:
    """By its manifests, which the chart equals: it could read each secret of a namespace."""
    pages = ("default/rbac.yaml", "ClusterRole"), ("tenant/controller-role.yaml", "Role")
    every = {right[1] for page, kind in pages for right in rights_of(page, kind, "compaction-operator")}
    assert every.isdisjoint({"secrets", "persistentvolumeclaims", "serviceaccounts", "configmaps"})


def test_an_api_server_that_is_away_is_a_warning(config: Path, api: FakeApi, tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    done = verb("doctor", "--config", str(config))
    assert (done.returncode, "  warning  rights     not checked: " in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--config", "/nowhere"), "/nowhere"),
        (("--config", "CONFIG", "--warehouse", "lake"), "--warehouse lake: "),
        (("--operator", "x"), "write NAMESPACE/SERVICE"),
    ],
)
def test_what_cannot_be_checked_is_one_line(arguments: tuple[str, ...], says: str, config: Path) -> None:
    done = verb("doctor", *(str(config) if one == "CONFIG" else one for one in arguments))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert says in done.stderr


def test_one_at_a_time_runs_in_the_controllers_pod(config: Path, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several would fill the memory that the controller has. Elsewhere it is not the controller's."""
    for place, code, says in (config, 1, "another doctor or plan runs in the controller's pod"), ("/x", 0, ""):
        monkeypatch.setattr("compaction_operator.cli.configured.IN_POD", str(place))
        with alone_in_pod(config):
            second = verb("doctor", "--config", str(config))
        assert (second.returncode, says in second.stderr, len(second.stderr.splitlines())) == (code, True, code)
        assert verb("doctor", "--config", str(config)).returncode == 0


def test_one_that_goes_on_in_the_pod_is_named(
    config: Path, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its `kubectl exec` may have been interrupted. Since when it runs is the process's own age."""
    monkeypatch.setattr("compaction_operator.cli.configured.IN_POD", str(config))
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    holds = (
        f"import fcntl, sys; f = open('{config}', 'rb'); fcntl.flock(f, fcntl.LOCK_EX); open('{ready}', 'w').close()"
    )
    code = f"{holds}; sys.stdin.read()"
    began = datetime.now(UTC)
    with subprocess.Popen([sys.executable, "-c", code, "plan", "sales.orders"], stdin=subprocess.PIPE) as holder:
        ready.read_text()
        done = verb("doctor", "--config", str(config))
        holder.communicate(timeout=60)
    assert done.returncode == 1
    found = re.search(rf"\(plan sales.orders, process {holder.pid}, since (\S+)\); if it was interrupted", done.stderr)
    assert found
    assert abs(parse_time(found[1]) - began) < timedelta(minutes=1)


TERMINATED = """
import signal, sys
from contextlib import nullcontext
from compaction_operator.cli import metastore_checks, storage_checks
from compaction_operator.cli.entry import main
from compaction_operator.metastore import Generation
from tests.support.metastore import FakeMetastore

source = FakeMetastore(hive=Generation.HIVE4)

def hang(_):
    print(len(source.locks), flush=True)
    while True:
        signal.pause()

source.on("lock", hang, after=True)
metastore_checks.check_metastores.__defaults__ = (lambda _: nullcontext(source.client()),)
sys.argv[1:] = ["doctor", "--config", sys.argv[1]]
try:
    main()
finally:
    print(len(source.locks))
"""


def test_sigterm_releases_the_lock_as_an_interruption_does(config: Path) -> None:
    """Kubernetes ends a pod so, `kill` a process. Else cleanups would wait for a reader that there never was."""
    command = [sys.executable, "-c", TERMINATED, str(config)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert "1\n" in iter(process.stdout.readline, "")
        process.terminate()
        out, _ = process.communicate(timeout=60)
    assert (out.splitlines()[-1], process.returncode) == ("0", 143)


def fake_kubectl(folder: Path, answer: str, *, code: int = 0) -> Path:
    """Write a kubectl that notes its arguments and answers so; return where it notes them."""
    script = folder / "kubectl"
    script.write_text(f'#!/bin/sh\necho "$@" > {folder}/arguments\n{answer}\nexit {code}\n')
    script.chmod(0o755)
    return folder / "arguments"


def test_from_elsewhere_it_runs_in_the_controllers_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding(subject="storage", warehouse="main", level=FAILED, message="no", change="so")
    noted = fake_kubectl(tmp_path, f"echo '{json.dumps([finding.to_json()])}'", code=1)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = verb("doctor", "--context", "there", "--operator", "ops/op", "--warehouse", "main")
    assert noted.read_text().strip() == (
        f"--context there exec -n ops deploy/op -- compaction-operator doctor --json --warehouse main --config {IN_POD}"
    )
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "warehouse main",
        "  failed   storage    no",
        "           change     so",
        "1 failed, 0 warning, 0 info, 0 ok",
    ]


def test_a_newer_controller_may_find_what_is_not_known_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = {"subject": "storage", "level": "grave", "message": "no", "change": "so", "later": 1}
    fake_kubectl(tmp_path, f"echo '{json.dumps([finding])}'", code=1)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert "0 failed, 1 warning, 0 info, 0 ok" in verb("doctor").stdout


def test_what_kubectl_says_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_kubectl(tmp_path, "echo 'deployments.apps is forbidden' >&2", code=1)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = verb("doctor")
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        "kubectl exec in compaction-system/compaction-operator answered: deployments.apps is forbidden" in done.stderr
    )


def test_without_kubectl_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = verb("doctor")
    assert (done.returncode, "without it give --config" in done.stderr) == (1, True)
