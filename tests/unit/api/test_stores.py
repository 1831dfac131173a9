"""Settings of HDFS and S3: what a configuration must say of them, and what it must not."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from compaction_operator.api.config import OperatorConfig, Warehouse
from compaction_operator.api.stores import S3, StoreSettings
from compaction_operator.controller.app import load_config

KERBEROS = {"clientPrincipal": "c@R", "keytab": "/etc/hdfs/keytab", "configFile": "/etc/hdfs/krb5.conf"}
HDFS = {"configMap": "hadoop-conf", "kerberos": KERBEROS, "secret": {"name": "hdfs", "mountPath": "/etc/hdfs"}}
ON_HDFS = {"stores": {"hdfs": HDFS}, "locations": ["hdfs://ns/warehouse"]}
ON_S3 = {"stores": {"s3": {}}, "locations": ["s3a://bucket/warehouse"]}
VOLUME = {"claimName": "w", "mountPath": "/warehouse"}
METASTORE = {"uris": ["thrift://m:9083"]}
OTHER_METASTORE = {"uris": ["thrift://n:9083"]}
OF_METASTORE = {"principal": "hive/_HOST@R", "clientPrincipal": "c@R", "keytab": "/etc/hive/keytab"}


def raw(**settings: Any) -> dict[str, Any]:
    return {"name": "main", "metastore": METASTORE, "namespaces": ["team"]} | settings


def warehouse(**settings: Any) -> Warehouse:
    return Warehouse.model_validate(raw(**settings))


def problem(**settings: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        warehouse(**settings)
    (error,) = caught.value.errors()
    return ": ".join([".".join(map(str, error["loc"])), error["msg"]])


@pytest.mark.parametrize(
    "location",
    [
        "hdfs://nn:8020/warehouse", "hdfs://ns/", "hdfs:///warehouse", "viewfs://cluster/warehouse",
        "s3a://bucket", "s3://bucket/", "s3n://bucket/warehouse", "/warehouse", "file:/w", "file:///w",
    ],
)  # fmt: skip
def test_locations_of_each_store(location: str) -> None:
    settings = {"hdfs": HDFS if "fs://" in location else None, "s3": {} if location.startswith("s3") else None}
    for place in ({"locations": [location]}, {"locations": ["/w"], "hudi": {"locations": [location]}}):
        assert warehouse(stores=settings, **place)


@pytest.mark.parametrize(
    "location", ["hdfs://nn:8020", "hdfs:/w", "s3a:///w", "s3://", "gs://b/w", "abfs://c@a/w", "w"]
)
def test_a_location_that_names_no_place_is_refused(location: str) -> None:
    assert problem(**(ON_HDFS | {"locations": [location]})).startswith("locations.0: String should match")
    assert problem(**ON_HDFS, hudi={"locations": [location]}).startswith("hudi.locations.0: String should match")


@pytest.mark.parametrize(
    ("location", "needed"),
    [
        ("hdfs://ns/w", "stores.hdfs"),
        ("viewfs://c/w", "stores.hdfs"),
        ("s3://b/w", "stores.s3"),
        ("s3n://b", "stores.s3"),
    ],
)
def test_a_location_needs_the_settings_of_its_store(location: str, needed: str) -> None:
    said = f"locations: {location} needs the settings {needed}"
    assert said in problem(locations=[location])
    assert said in problem(volume=VOLUME, hudi={"locations": [location]})


@pytest.mark.parametrize(("stores", "name"), [({"hdfs": HDFS}, "hdfs"), ({"s3": {}}, "s3")])
@pytest.mark.parametrize("place", [{}, {"volume": VOLUME}, {"locations": ["/warehouse"]}])
def test_a_store_needs_a_location(stores: dict[str, Any], name: str, place: dict[str, Any]) -> None:
    """The default is the volume's mount path, so tables on the store would be refused one by one."""
    assert f"locations: list the folders of tables on {name}, which stores.{name}" in problem(stores=stores, **place)


def test_without_a_volume_a_store_has_no_default_for_locations() -> None:
    """Otherwise no location would mean all: whatever the pods' identity may reach."""
    hudi = {"locations": ["s3a://bucket/lake"]}
    assert "without a volume they have no default" in problem(stores={"s3": {}}, hudi=hudi)
    assert warehouse(stores={"s3": {}}, hudi=hudi, volume=VOLUME).allowed_locations == ("/warehouse",)
    assert warehouse(**ON_S3).allowed_locations == ("s3a://bucket/warehouse",)


@pytest.mark.parametrize(
    "settings",
    [
        ON_HDFS | {"volume": VOLUME | {"mountPath": "/etc/hdfs"}},
        ON_HDFS | {"stores": {"hdfs": HDFS | {"mountPath": "/etc/hdfs/"}}},
        ON_HDFS | {"metastore": METASTORE | {"secret": {"name": "hive", "mountPath": "/etc/hdfs"}}},
        ON_HDFS | {
            "stores": {"hdfs": HDFS, "s3": {"secret": {"name": "s3", "mountPath": "/etc/hdfs"}}},
            "locations": ["hdfs://ns/w", "s3://b"],
        },
    ],
)  # fmt: skip
def test_two_things_cannot_be_mounted_at_one_path(settings: dict[str, Any]) -> None:
    said = problem(**settings)
    assert "mountPath /etc/hdfs" in said
    assert "secret hdfs" in said


def test_the_controller_mounts_what_all_warehouses_need() -> None:
    """Equal things once; different ones cannot have one path, though each warehouse is right on its own."""
    one, two = raw(**ON_HDFS), raw(**ON_HDFS) | {"name": "two"}
    assert OperatorConfig.model_validate({"warehouses": [one, two], "profiles": []})
    two["stores"] = {"hdfs": HDFS | {"configMap": "other"}}
    with pytest.raises(
        ValidationError, match=r"ConfigMap hadoop-conf and ConfigMap other cannot be mounted at one path"
    ):
        OperatorConfig.model_validate({"warehouses": [one, two], "profiles": []})


def test_the_controller_has_each_claim_in_a_folder_of_its_own() -> None:
    """So two Hives may have one mount path. Without such folders the controller could see the files of one only."""
    one = raw(volume=VOLUME)
    two = one | {"name": "two", "volume": VOLUME | {"claimName": "v"}, "metastore": OTHER_METASTORE}
    config = OperatorConfig.model_validate({"warehouses": [one, two], "profiles": [], "volumesPath": "/volumes/"})
    assert [config.volume_root(warehouse) for warehouse in config.warehouses] == ["/volumes/w", "/volumes/v"]
    assert [config.local_folders(warehouse) for warehouse in config.warehouses] == [("/warehouse",)] * 2
    with pytest.raises(ValidationError, match="claim w and claim v cannot be mounted at one path"):
        OperatorConfig.model_validate({"warehouses": [one, two], "profiles": []})


def test_a_warehouse_without_a_volume_is_in_no_folder() -> None:
    config = OperatorConfig.model_validate({"warehouses": [raw(**ON_S3)], "profiles": [], "volumesPath": "/volumes"})
    assert config.volume_root(config.warehouses[0]) == ""
    assert config.local_folders(config.warehouses[0]) == ()


@pytest.mark.parametrize("path", ["/warehouse", "/warehouse/sub"])
def test_a_path_of_one_metastore_lies_in_one_claim(path: str) -> None:
    """The sweep of one of them would look for what a lost attempt left in the wrong claim."""
    one = raw(volume=VOLUME)
    two = one | {"name": "two", "volume": VOLUME | {"claimName": "v", "mountPath": path}}
    both = {"warehouses": [one, two], "profiles": [], "volumesPath": "/volumes"}
    with pytest.raises(ValidationError, match=r"claims w at /warehouse and v at .* are for one metastore"):
        OperatorConfig.model_validate(both)
    two["volume"] = VOLUME | {"claimName": "v", "mountPath": "/warehouse2"}
    assert OperatorConfig.model_validate(both)


@pytest.mark.parametrize("kind", ["warehouses", "profiles"])
def test_names_are_unique(kind: str) -> None:
    """A compaction names one of them; it must be clear which."""
    given = {"warehouses": [raw()], "profiles": [{"name": "default", "image": "i"}]}
    given[kind] *= 2
    with pytest.raises(ValidationError, match=f"{kind}: two have the name {given[kind][0]['name']}"):
        OperatorConfig.model_validate(given)


def test_hdfs_and_metastore_share_one_kerberos_configuration() -> None:
    """A process has one KRB5_CONFIG."""
    metastore = METASTORE | {"kerberos": OF_METASTORE | {"configFile": "/etc/hive/krb5.conf"}}
    said = "stores.hdfs.kerberos.configFile: must be that of metastore.kerberos"
    assert said in problem(**ON_HDFS, metastore=metastore)
    assert said in problem(**ON_HDFS, metastore=METASTORE | {"kerberos": OF_METASTORE})
    metastore["kerberos"] = OF_METASTORE | {"configFile": KERBEROS["configFile"]}
    assert warehouse(**ON_HDFS, metastore=metastore)


@pytest.mark.parametrize("name", ["keytab", "configFile"])
def test_executors_must_have_the_files_of_the_login(name: str) -> None:
    """They mount the secret of HDFS, not that of the metastore."""
    secret = {"name": "hive", "mountPath": "/etc/hive"}
    hdfs = HDFS | {"kerberos": KERBEROS | {name: "/etc/hive/file"}}
    settings = {"locations": ["hdfs://ns/w"], "metastore": METASTORE | {"secret": secret}}
    said = problem(stores={"hdfs": hdfs}, **settings)
    assert f"stores.hdfs.kerberos.{name}: only the metastore's secret has /etc/hive/file" in said
    hdfs |= {"secret": secret, "kerberos": {"clientPrincipal": "c@R", "keytab": "/etc/hive/file"}}
    assert warehouse(stores={"hdfs": hdfs}, **settings)


def test_a_bucket_with_settings_of_its_own_takes_nothing_from_the_others() -> None:
    s3 = S3.model_validate({"endpoint": "https://one", "pathStyle": True, "buckets": {"b": {"region": "eu-west-1"}}})
    assert (s3.bucket("a").endpoint, s3.bucket("a").path_style) == ("https://one", True)
    assert s3.bucket("b").to_json() == {"region": "eu-west-1", "pathStyle": False}


def test_settings_survive_the_way_through_the_environment() -> None:
    settings = warehouse(**ON_HDFS).stores
    assert StoreSettings.model_validate(settings.to_json()) == settings


@pytest.mark.parametrize(
    "stores",
    [
        {"s3": {"secretAccessKey": "CANARY"}},
        {"s3": {"endpoint": "https://key:CANARY@host"}},
        {"s3": {"buckets": {"b": {"endpoint": "http://key:CANARY@host/"}}}},
        {"hdfs": HDFS | {"kerberos": KERBEROS | {"password": "CANARY"}}},
    ],
)
def test_a_secret_has_no_place_in_the_settings(tmp_path: Path, stores: dict[str, Any]) -> None:
    """They are in a ConfigMap and in each Job. The error names the field and does not repeat the value."""
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"warehouses": [raw(stores=stores)], "profiles": []}))
    with pytest.raises(ValueError, match=r"warehouses\.0\.stores\.") as caught:
        load_config(path)
    assert "CANARY" not in str(caught.value)
