"""The Spark session of a driver in client mode. Executors are pods that the driver requests, or there are none."""

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from compaction_operator.api.compaction import AUTO
from compaction_operator.api.pods import container_security, pod_environment, pod_security, volume_mounts, volumes
from compaction_operator.api.request import JobRequest
from compaction_operator.driver.hadoop import Hadoop, trust

EXECUTOR_CONTAINER = "spark-kubernetes-executor"
LEAST_EXECUTORS = "spark.dynamicAllocation.minExecutors"
LABELS = {"app.kubernetes.io/name": "compaction-operator", "app.kubernetes.io/component": "executor"}
"""Labels of executors' pods, by which a NetworkPolicy finds them. NB: not the compaction's: only drivers have that."""
PYTHON_MIB = 512
"""Memory for the Python interpreters, their libraries, and the JVM's use outside its heap."""

ENDLESS = 2**31 - 1
"""As many executors may fail as there is time for. NB: beyond the number the JVM ends at once, and with it the attempt.

With Auto the driver gives up itself: it waits for the first executor, and does the work without any if none comes.
"""

FEW_RIGHTS = {
    "spark.kubernetes.executor.disableConfigMap": "true",
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
}
"""Settings with which Spark touches no object but pods: KubernetesClusterSchedulerBackend, ExecutorPodsAllocator.

By default it lists and deletes config maps, services and claims by label, which takes a right on all of a namespace.
There are none: executors get their settings from the driver, whose pod they reach by its address.
"""

LISTS = {
    "spark.jars": ",",
    "spark.sql.extensions": ",",
    "spark.driver.extraJavaOptions": " ",
    "spark.executor.extraJavaOptions": " ",
}
"""Settings whose values are lists, and what separates them. The driver appends its own values to the profile's."""


def spark_context(request: JobRequest, environment: Mapping[str, str], *, executors: int) -> Any:
    """Start Spark with the request's profile and sizes and so many executors; return its SparkContext."""
    return _session(request.job, spark_settings(request, environment, executors=executors)).sparkContext


def hudi_session(request: JobRequest, environment: Mapping[str, str], jars: Iterable[Path], hadoop: Hadoop) -> Any:
    """Start Spark with Hudi's jars in its JVM and return its SparkSession, a context manager that stops it.

    It has executors only if the compaction asks for a number: what Hudi has to merge is known only once Spark runs.
    """
    settings = spark_settings(request, environment, executors=request.spark.executors.asked)
    os.environ.update(hadoop.environment)
    session = _session(request.job, settings | hudi_settings(jars, settings, hadoop))
    if hadoop.authorities:
        trust(session, hadoop.authorities)
    return session


def hudi_settings(jars: Iterable[Path], settings: Mapping[str, str], hadoop: Hadoop) -> dict[str, str]:
    """Return the Spark settings that Hudi and its file systems need, merged with the lists in the given settings."""
    needed = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        **hadoop.settings,
    }
    joined = {key: f"{settings[key]}{LISTS[key]}{needed[key]}" for key in LISTS & needed.keys() if settings.get(key)}
    return needed | joined


def _session(name: str, settings: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - slow to import, and only drivers need it

    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def spark_settings(request: JobRequest, environment: Mapping[str, str], *, executors: int) -> dict[str, str]:
    """Return the Spark configuration: the profile's own settings, overridden by the mandatory ones.

    With 0 executors, tasks run in the driver's pod.
    """
    settings = {"spark.executor.memoryOverhead": f"{_python_mib(request)}m", "spark.ui.enabled": "false"}
    if request.spark.executors.instances == AUTO:
        settings |= {"spark.executor.maxNumFailures": str(ENDLESS)}
    settings |= request.profile.spark_conf
    # The progress bar would overwrite lines of the pod's log.
    settings |= {"spark.ui.showConsoleProgress": "false", "spark.driver.memory": request.spark.driver.memory}
    # The page has no login, and its links to end jobs would make an attempt fail.
    settings |= {"spark.ui.killEnabled": "false"}
    settings |= _kerberos_settings(request, settings)
    if executors == 0:
        return settings | {"spark.master": f"local[{request.spark.driver.cores}]"}
    return settings | _dynamic_allocation(settings, executors) | _executor_settings(request, environment, executors)


def _kerberos_settings(request: JobRequest, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the JVMs' option for Kerberos, after the profile's own options.

    NB: a JVM that finds Hadoop's configuration with Kerberos does not start without a realm, whatever it works on.
    """
    hdfs = request.warehouse.stores.hdfs
    if hdfs is None or hdfs.kerberos is None or hdfs.kerberos.config_file is None:
        return {}
    option = f"-Djava.security.krb5.conf={hdfs.kerberos.config_file}"
    names = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
    return {name: f"{settings.get(name, '')} {option}".strip() for name in names}


def slots(request: JobRequest, *, executors: int) -> int:
    """Return the number of Spark tasks that run concurrently."""
    return executors * request.spark.executors.cores or request.spark.driver.cores


def _python_mib(request: JobRequest) -> int:
    """Return the MiB that an executor's pod needs outside the JVM's heap: its tasks' memory, and Python itself."""
    return PYTHON_MIB + request.spark.executors.cores * -(-request.profile.task_memory // 1024**2)


def _dynamic_allocation(settings: Mapping[str, str], instances: int) -> dict[str, str]:
    """Let a profile's dynamic allocation begin with all executors of the compaction, and never have more.

    NB: Spark does not start with a minimum above the maximum.
    """
    least = settings.get(LEAST_EXECUTORS, "0")
    capped = {LEAST_EXECUTORS: str(instances)} if least.isdigit() and int(least) > instances else {}
    names = ("spark.dynamicAllocation.initialExecutors", "spark.dynamicAllocation.maxExecutors")
    return dict.fromkeys(names, str(instances)) | capped


def _executor_settings(request: JobRequest, environment: Mapping[str, str], instances: int) -> dict[str, str]:
    executors = request.spark.executors
    template = Path(tempfile.mkdtemp(prefix="executor-")) / "template.yaml"
    # NB: JSON is YAML, too. The library for YAML would lengthen each driver's start.
    template.write_text(json.dumps(executor_template(request)))
    return {
        "spark.master": "k8s://https://kubernetes.default.svc",
        "spark.driver.host": environment["POD_IP"],
        "spark.driver.bindAddress": environment["POD_IP"],
        "spark.executor.instances": str(instances),
        "spark.executor.cores": str(executors.cores),
        "spark.executor.memory": executors.memory,
        "spark.kubernetes.namespace": request.namespace,
        "spark.kubernetes.driver.pod.name": environment["POD_NAME"],
        "spark.kubernetes.container.image": request.profile.image,
        "spark.kubernetes.container.image.pullPolicy": request.profile.image_pull_policy,
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.kubernetes.executor.podTemplateContainerName": EXECUTOR_CONTAINER,
        "spark.kubernetes.executor.request.cores": request.profile.executor_cpu_request or str(executors.cores),
        "spark.kubernetes.executor.podNamePrefix": request.job[:47].rstrip("-"),
        **FEW_RIGHTS,
    }


def executor_template(request: JobRequest) -> dict[str, Any]:
    """Return the executors' pod template: the restricted security profile, and what reaches the warehouse's files.

    They have the driver's service account, by which a cloud may give pods an identity for the object store, but no
    token for the API server.
    """
    warehouse, profile = request.warehouse, request.profile
    placement = profile.of_executor
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": placement.labels | LABELS, "annotations": placement.annotations},
        "spec": {
            "serviceAccountName": profile.service_account,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": pod_security(),
            "containers": [
                {
                    "name": EXECUTOR_CONTAINER,
                    "securityContext": container_security(),
                    "env": pod_environment(warehouse, profile, metastore=False),
                    "volumeMounts": volume_mounts(warehouse, profile, metastore=False),
                }
            ],
            "volumes": volumes(warehouse, profile, metastore=False),
            **profile.pod_spec_fields(placement),
        },
    }
