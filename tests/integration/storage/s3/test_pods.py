"""A driver's pod and its Spark tasks reach a store by what the Job has of it, and nothing shows the keys."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from sandbox.s3.server import S3Server

from compaction_operator.api.compaction import ExecutorResources, SparkOptions
from compaction_operator.api.config import Warehouse
from compaction_operator.api.request import JobRequest
from compaction_operator.controller.kube.job import job_manifest
from compaction_operator.driver.spark import executor_template
from compaction_operator.storage import join
from compaction_operator.storage.s3 import S3Storage
from tests.integration.storage.s3.conftest import PLAIN
from tests.unit.driver.support import REQUEST

DRIVER = """
import os, sys
from compaction_operator.api.request import REQUEST_VARIABLE, JobRequest
from compaction_operator.driver.spark import spark_context
from compaction_operator.storage import open_storage

def read(place):
    return open_storage(place).read(place)

place = sys.argv[1]
assert read(place) == b"rows"
spark = spark_context(JobRequest.model_validate_json(os.environ[REQUEST_VARIABLE]), os.environ)
assert spark.parallelize([place]).map(read).collect() == [b"rows"]
print(spark.getConf().toDebugString())
print(spark._jvm.System.getProperties().toString())
print(spark._jvm.System.getenv().toString())
spark.stop()
try:
    read("s3a://no-such-bucket/file")
except Exception as error:
    print(error)
"""


def request_on(server: S3Server) -> JobRequest:
    settings = server.settings().to_json() | {"secret": {"name": "keys", "mountPath": str(server.folder)}}
    warehouse = REQUEST.warehouse.to_json() | {"locations": [f"s3a://{PLAIN}"], "stores": {"s3": settings}}
    return REQUEST.model_copy(update={"warehouse": Warehouse.model_validate(warehouse)})


def environment_of(manifest: dict[str, Any]) -> dict[str, str]:
    """What the container's process gets. As the image does, it names the Python of Spark's tasks."""
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    own = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ}
    return (
        own
        | {"PYSPARK_PYTHON": sys.executable}
        | {one["name"]: one["value"] for one in container["env"] if "value" in one}
    )


@pytest.mark.parametrize(("kind", "bucket"), [("minio", PLAIN)], scope="session")
def test_driver_and_tasks_read_with_the_mounted_keys(
    server: S3Server, storage: S3Storage, place: str, tmp_path: Path
) -> None:
    """The file of the secret is where the pod mounts it. Its content is in no manifest, setting, log or error."""
    storage.write(file := join(place, "rows"), b"rows")
    request = request_on(server)
    manifest = job_manifest(request, ttl=1.0)
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    done = subprocess.run(
        [sys.executable, script, file],
        env=environment_of(manifest), capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "s3a://no-such-bucket/file" in done.stdout
    executors = SparkOptions(executors=ExecutorResources(instances=2))
    template = executor_template(request.model_copy(update={"spark": executors}))
    shown = [done.stdout, done.stderr, json.dumps(manifest), yaml.safe_dump(template)]
    assert server.secret_key in server.credentials_file.read_text()
    assert not [text for text in shown if server.secret_key in text]
