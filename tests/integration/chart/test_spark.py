"""Spark itself asks for executors, and gives them back, with no more rights than the driver's role has."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from sandbox.harness.wait import wait_until

from compaction_operator.api.config import SparkProfile
from compaction_operator.driver.spark import executor_template, spark_settings
from tests.support.profiles import EVERYTHING
from tests.unit.driver.support import REQUEST

from .conftest import TENANT, Cluster, require_classes, require_within

DRIVER = "driver"
SESSION = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder
for key, value in json.loads(sys.stdin.readline()).items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
sys.stdin.readline()
session.stop()
"""
EXECUTORS = ("get", "pods", "-n", TENANT, "-l", "spark-role=executor", "-o", "json")


def executors(cluster: Cluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cluster.plane.kubectl(*EXECUTORS))["items"]
    return found


def make_driver_pod(cluster: Cluster) -> None:
    """Make the pod that Spark takes for its own: running and ready, though no node has it."""
    rights = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "driver", "image": "none", "securityContext": rights}
    restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"serviceAccountName": "compaction-driver", "containers": [container], "securityContext": restricted}
    cluster.plane.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": DRIVER, "namespace": TENANT}, "spec": spec}
    )
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    how = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": ready}))
    cluster.plane.kubectl("patch", "pod", DRIVER, "-n", TENANT, *how)


def test_the_drivers_role_suffices_for_executors(installed: Cluster, tmp_path: Path) -> None:
    """They have the driver's account and all that the profile gives them, and go when Spark ends."""
    make_driver_pod(installed)
    token = installed.plane.kubectl("create", "token", "compaction-driver", "-n", TENANT).strip()
    require_classes(installed)
    profile = SparkProfile(name="default", image="none", **EVERYTHING)
    request = REQUEST.model_copy(update={"namespace": TENANT, "profile": profile})
    settings = spark_settings(request, {"POD_IP": "127.0.0.1", "POD_NAME": DRIVER}, executors=1)
    settings |= {
        "spark.master": f"k8s://https://127.0.0.1:{installed.plane.port}",
        "spark.kubernetes.authenticate.oauthToken": token,
        "spark.kubernetes.authenticate.caCertFile": str(installed.plane.authority),
    }
    log = tmp_path / "spark.log"
    with log.open("w") as output:
        command = [sys.executable, "-c", SESSION]
        spark = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=output, text=True)
    assert spark.stdin is not None
    try:
        spark.stdin.write(f"{json.dumps(settings)}\n")
        spark.stdin.flush()
        wait_until(lambda: executors(installed) or spark.poll() is not None, timeout=120, what="an executor")
        found = executors(installed)
        assert found, log.read_text()
        (pod,) = found
        assert pod["spec"]["serviceAccountName"] == "compaction-driver"
        require_within(executor_template(request), pod)
        spark.communicate("\n", timeout=120)
    finally:
        spark.kill()
        spark.wait()
    assert executors(installed) == []
    assert (spark.returncode, "orbidden" in log.read_text()) == (0, False), log.read_text()
