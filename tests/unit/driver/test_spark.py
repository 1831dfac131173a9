"""The Spark settings of a driver: what its sizes and profile become."""

from pathlib import Path

import pytest
import yaml

from compaction_operator.api.compaction import DriverResources, ExecutorResources, SparkOptions
from compaction_operator.api.config import SparkProfile, Volume
from compaction_operator.driver.hadoop import Hadoop
from compaction_operator.driver.spark import executor_template, hudi_settings, slots, spark_settings

from .support import REQUEST

POD = {"POD_IP": "10.0.0.7", "POD_NAME": "orders-minor-2-abcde"}


def test_without_executors_the_driver_works_alone_with_its_own_cores() -> None:
    request = REQUEST.model_copy(update={"spark": SparkOptions(driver=DriverResources(cores=4))})
    settings = spark_settings(request, POD)
    assert settings["spark.master"] == "local[4]"
    assert not [key for key in settings if key.startswith("spark.kubernetes")]


def test_executors_are_pods_that_find_the_driver_by_its_address_and_die_with_it() -> None:
    options = SparkOptions(executors=ExecutorResources(instances=3, cores=2, memory="4g"))
    settings = spark_settings(REQUEST.model_copy(update={"spark": options}), POD)
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "10.0.0.7"
    assert settings["spark.kubernetes.driver.pod.name"] == "orders-minor-2-abcde"
    assert settings["spark.kubernetes.namespace"] == "team"
    assert [settings[f"spark.executor.{key}"] for key in ("instances", "cores", "memory")] == ["3", "2", "4g"]
    written = yaml.safe_load(Path(settings["spark.kubernetes.executor.podTemplateFile"]).read_text())
    assert written["kind"] == "Pod"


def test_an_executors_pod_has_room_for_what_its_tasks_may_hold() -> None:
    """Each core runs one task at a time; the administrator may say otherwise."""
    options = SparkOptions(executors=ExecutorResources(instances=3, cores=2))
    profile = SparkProfile(name="x", image="i", task_memory=2**30)
    request = REQUEST.model_copy(update={"spark": options, "profile": profile})
    assert spark_settings(request, POD)["spark.executor.memoryOverhead"] == "2560m"
    own = profile.model_copy(update={"spark_conf": {"spark.executor.memoryOverhead": "9g"}})
    request = request.model_copy(update={"profile": own})
    assert spark_settings(request, POD)["spark.executor.memoryOverhead"] == "9g"


@pytest.mark.parametrize(
    ("options", "running"),
    [
        (SparkOptions(driver=DriverResources(cores=4)), 4),
        (SparkOptions(driver=DriverResources(cores=4), executors=ExecutorResources(instances=3, cores=2)), 6),
    ],
)
def test_as_many_tasks_run_as_there_are_cores_for_them(options: SparkOptions, running: int) -> None:
    assert slots(REQUEST.model_copy(update={"spark": options})) == running


def test_a_profile_may_add_settings_but_not_change_the_master() -> None:
    profile = SparkProfile(name="x", image="i", spark_conf={"spark.master": "yarn", "spark.task.maxFailures": "1"})
    settings = spark_settings(REQUEST.model_copy(update={"profile": profile}), POD)
    assert settings["spark.master"] == "local[1]"
    assert settings["spark.task.maxFailures"] == "1"


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
