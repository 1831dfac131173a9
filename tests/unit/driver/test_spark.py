"""The Spark settings of a driver: what its sizes and profile become."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from compaction_operator.api.compaction import DriverResources, ExecutorResources, SparkOptions
from compaction_operator.api.config import SparkProfile, Volume, Warehouse
from compaction_operator.api.request import JobRequest
from compaction_operator.api.stores import StoreSettings
from compaction_operator.driver.hadoop import Hadoop
from compaction_operator.driver.spark import FEW_RIGHTS, executor_template, hudi_settings, slots, spark_settings

from .support import REQUEST

POD = {"POD_IP": "10.0.0.7", "POD_NAME": "orders-minor-2-abcde"}


def test_without_executors_the_driver_works_alone_with_its_own_cores() -> None:
    request = REQUEST.model_copy(update={"spark": SparkOptions(driver=DriverResources(cores=4))})
    settings = spark_settings(request, POD, executors=0)
    assert settings["spark.master"] == "local[4]"
    assert not [key for key in settings if key.startswith("spark.kubernetes")]


def test_executors_are_pods_that_find_the_driver_by_its_address_and_die_with_it() -> None:
    options = SparkOptions(executors=ExecutorResources(cores=2, memory="4g"))
    settings = spark_settings(REQUEST.model_copy(update={"spark": options}), POD, executors=3)
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "10.0.0.7"
    assert settings["spark.kubernetes.driver.pod.name"] == "orders-minor-2-abcde"
    assert settings["spark.kubernetes.namespace"] == "team"
    assert [settings[f"spark.executor.{key}"] for key in ("instances", "cores", "memory")] == ["3", "2", "4g"]
    written = yaml.safe_load(Path(settings["spark.kubernetes.executor.podTemplateFile"]).read_text())
    assert written["kind"] == "Pod"
    assert written["metadata"]["labels"]["app.kubernetes.io/component"] == "executor"


def test_an_executors_pod_has_room_for_what_its_tasks_may_hold() -> None:
    """Each core runs one task at a time; the administrator may say otherwise."""
    options = SparkOptions(executors=ExecutorResources(instances=3, cores=2))
    profile = SparkProfile(name="x", image="i", task_memory=2**30)
    request = REQUEST.model_copy(update={"spark": options, "profile": profile})
    assert spark_settings(request, POD, executors=3)["spark.executor.memoryOverhead"] == "2560m"
    own = profile.model_copy(update={"spark_conf": {"spark.executor.memoryOverhead": "9g"}})
    request = request.model_copy(update={"profile": own})
    assert spark_settings(request, POD, executors=3)["spark.executor.memoryOverhead"] == "9g"


FAILURES = "spark.executor.maxNumFailures"


@pytest.mark.parametrize(
    ("instances", "profile", "most"), [("Auto", {}, str(2**31 - 1)), ("Auto", {FAILURES: "7"}, "7"), (3, {}, None)]
)
def test_only_with_auto_executors_may_fail_without_end(
    instances: object, profile: dict[str, str], most: str | None
) -> None:
    """Beyond the number Spark ends its JVM, and with it an attempt that could do the work without executors."""
    options = SparkOptions(executors=ExecutorResources.model_validate({"instances": instances}))
    own = SparkProfile(name="x", image="i", spark_conf=profile)
    request = REQUEST.model_copy(update={"spark": options, "profile": own})
    assert spark_settings(request, POD, executors=3).get(FAILURES) == most


@pytest.mark.parametrize(("executors", "running"), [(0, 4), (3, 6)])
def test_as_many_tasks_run_as_there_are_cores_for_them(executors: int, running: int) -> None:
    options = SparkOptions(driver=DriverResources(cores=4), executors=ExecutorResources(cores=2))
    assert slots(REQUEST.model_copy(update={"spark": options}), executors=executors) == running


def test_a_profile_may_add_settings_but_not_change_the_master() -> None:
    profile = SparkProfile(name="x", image="i", spark_conf={"spark.master": "yarn", "spark.task.maxFailures": "1"})
    settings = spark_settings(REQUEST.model_copy(update={"profile": profile}), POD, executors=0)
    assert settings["spark.master"] == "local[1]"
    assert settings["spark.task.maxFailures"] == "1"


def test_sparks_page_is_off_until_a_profile_asks_for_it() -> None:
    asked = SparkProfile(name="x", image="i", spark_conf={"spark.ui.enabled": "true"})
    assert spark_settings(REQUEST, POD, executors=0)["spark.ui.enabled"] == "false"
    assert spark_settings(REQUEST.model_copy(update={"profile": asked}), POD, executors=0)["spark.ui.enabled"] == "true"


def test_executors_that_come_and_go_are_never_more_than_the_compaction_may_have() -> None:
    """Spark's own default of the maximum has no end, and Spark does not start with a minimum above the maximum."""
    names = ("min", "initial", "max")
    for least, expected in (("1", "1"), ("99", "3")):
        own = {f"spark.dynamicAllocation.{name}Executors": "99" for name in names}
        own["spark.dynamicAllocation.minExecutors"] = least
        profile = SparkProfile(name="x", image="i", spark_conf=own)
        settings = spark_settings(REQUEST.model_copy(update={"profile": profile}), POD, executors=3)
        assert [settings[f"spark.dynamicAllocation.{name}Executors"] for name in names] == [expected, "3", "3"]
        assert settings["spark.executor.instances"] == "3"


def test_nothing_can_be_ended_from_sparks_page() -> None:
    asked = SparkProfile(name="x", image="i", spark_conf={"spark.ui.killEnabled": "true"})
    settings = spark_settings(REQUEST.model_copy(update={"profile": asked}), POD, executors=0)
    assert settings["spark.ui.killEnabled"] == "false"


def test_executor_pods_obey_the_restricted_profile_and_share_the_warehouse() -> None:
    warehouse = REQUEST.warehouse.model_copy(update={"volume": Volume(claim_name="wh", mount_path="/warehouse")})
    spec = executor_template(REQUEST.model_copy(update={"warehouse": warehouse}))["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert {"name": "warehouse", "mountPath": "/warehouse"} in container["volumeMounts"]
    assert {"name": "warehouse", "persistentVolumeClaim": {"claimName": "wh"}} in spec["volumes"]
    assert spec["automountServiceAccountToken"] is False


HDFS: dict[str, Any] = {
    "configMap": "hadoop-conf",
    "kerberos": {"clientPrincipal": "c@R", "keytab": "/etc/hdfs/c.keytab", "configFile": "/etc/hdfs/krb5.conf"},
    "secret": {"name": "hdfs-client", "mountPath": "/etc/hdfs"},
}
METASTORE = {"uris": ["thrift://m:9083"], "secret": {"name": "hive-client", "mountPath": "/etc/hive"}}


def on(stores: dict[str, Any], *locations: str, **metastore: Any) -> JobRequest:
    raw = {"name": "main", "metastore": METASTORE | metastore, "namespaces": ["team"], "locations": locations}
    return REQUEST.model_copy(update={"warehouse": Warehouse.model_validate(raw | {"stores": stores})})


def test_executors_reach_the_stores_but_not_the_metastore() -> None:
    """They read and write files by the same settings as the driver, from the same secrets, and lock nothing."""
    stores = {"hdfs": HDFS, "s3": {"secret": {"name": "s3-client", "mountPath": "/etc/s3"}}}
    request = on(stores, "hdfs://ns/w", "s3a://bucket/w")
    spec = executor_template(request)["spec"]
    assert {volume["name"]: volume for volume in spec["volumes"]} == {
        "tmp": {"name": "tmp", "emptyDir": {}},
        "hadoop": {"name": "hadoop", "configMap": {"name": "hadoop-conf"}},
        "hdfs": {"name": "hdfs", "secret": {"secretName": "hdfs-client", "defaultMode": 0o440}},
        "s3": {"name": "s3", "secret": {"secretName": "s3-client", "defaultMode": 0o440}},
    }
    (container,) = spec["containers"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == [
        "/tmp", "/etc/hadoop/conf", "/etc/hdfs", "/etc/s3",
    ]  # fmt: skip
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert StoreSettings.model_validate_json(environment.pop("COMPACTION_STORES")) == request.warehouse.stores
    assert environment == {"HADOOP_CONF_DIR": "/etc/hadoop/conf", "KRB5_CONFIG": "/etc/hdfs/krb5.conf"}


def test_executors_do_not_look_for_the_metastores_kerberos_configuration() -> None:
    """They do not mount it, and no library could log in where KRB5_CONFIG names a file that is not there."""
    login = {"principal": "hive/_HOST@R", "clientPrincipal": "c@R", "keytab": "/k", "configFile": "/etc/hive/krb5.conf"}
    spec = executor_template(on({"s3": {}}, "s3a://bucket", kerberos=login))["spec"]
    assert {one["name"] for one in spec["containers"][0]["env"]} == {"COMPACTION_STORES"}


def test_executors_have_the_drivers_identity_in_a_cloud_but_not_its_rights_in_the_cluster() -> None:
    """A cloud's web-hook gives pods of this account a token for the object store. None is for the API server."""
    profile = SparkProfile(name="x", image="i", service_account="lake-writer")
    spec = executor_template(REQUEST.model_copy(update={"profile": profile}))["spec"]
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("lake-writer", False)


def test_spark_touches_no_object_but_pods() -> None:
    """Whatever the profile says: the driver's role allows nothing else. tests/integration/chart runs it so."""
    profile = SparkProfile(name="x", image="i", spark_conf=dict.fromkeys(FEW_RIGHTS, "default"))
    settings = spark_settings(REQUEST.model_copy(update={"profile": profile}), POD, executors=1)
    assert settings.items() >= FEW_RIGHTS.items()


def test_jvms_know_the_realm_where_hadoop_requires_kerberos() -> None:
    """Without it no JVM starts that finds such a core-site.xml. The profile's own options stay."""
    own = "spark.driver.extraJavaOptions"
    profile = SparkProfile(name="x", image="i", spark_conf={own: "-Duser.timezone=UTC"})
    request = on({"hdfs": HDFS}, "hdfs://ns/w").model_copy(update={"profile": profile})
    settings = spark_settings(request, POD, executors=2)
    assert settings[own] == "-Duser.timezone=UTC -Djava.security.krb5.conf=/etc/hdfs/krb5.conf"
    assert settings["spark.executor.extraJavaOptions"] == "-Djava.security.krb5.conf=/etc/hdfs/krb5.conf"
    plain = on({"hdfs": {"configMap": "hadoop-conf"}}, "hdfs://ns/w")
    assert own not in spark_settings(plain, POD, executors=2)


@pytest.mark.parametrize("executors", [0, 2])
def test_sparks_settings_and_page_show_nothing_secret(tmp_path: Path, executors: int) -> None:
    """What is secret stays in its file: in no setting, no environment variable and no pod template."""
    secrets = {name: tmp_path / name for name in ("keytab", "credentials")}
    for path in secrets.values():
        path.write_text("aws_secret_access_key = CANARY")
    kerberos = HDFS["kerberos"] | {"keytab": str(secrets["keytab"])}
    stores = {"hdfs": HDFS | {"kerberos": kerberos}, "s3": {"credentialsFile": str(secrets["credentials"])}}
    request = on(stores, "hdfs://ns/w", "s3://bucket")
    settings = spark_settings(request, POD, executors=executors)
    assert "CANARY" not in repr(settings) + yaml.safe_dump(executor_template(request))
    assert settings["spark.ui.enabled"] == "false"


def test_hudis_bundle_is_added_to_what_a_profile_has_of_its_own() -> None:
    jars = [Path("/bundles/hudi.jar"), Path("/bundles/s3.jar")]
    assert hudi_settings(jars, {}, Hadoop())["spark.jars"] == "/bundles/hudi.jar,/bundles/s3.jar"
    own = {"spark.jars": "/mine.jar", "spark.sql.extensions": "My", "spark.serializer": "Java"}
    settings = hudi_settings(jars, own, Hadoop())
    assert settings["spark.jars"] == "/mine.jar,/bundles/hudi.jar,/bundles/s3.jar"
    assert settings["spark.sql.extensions"] == "My,org.apache.spark.sql.hudi.HoodieSparkSessionExtension"
    assert settings["spark.serializer"] == "org.apache.spark.serializer.KryoSerializer"


def test_java_options_for_a_store_are_added_to_those_of_a_profile() -> None:
    store = Hadoop({"spark.driver.extraJavaOptions": "-Da=b", "spark.hadoop.x": "y"})
    settings = hudi_settings([], {"spark.driver.extraJavaOptions": "-Duser.timezone=UTC"}, store)
    assert settings["spark.driver.extraJavaOptions"] == "-Duser.timezone=UTC -Da=b"
    assert settings["spark.hadoop.x"] == "y"
