"""A driver in the environment that its Job's manifest gives it, and all that a person could see of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from compaction_operator.api.compaction import ExecutorResources, SparkOptions
from compaction_operator.api.request import JobRequest
from compaction_operator.controller.kube.job import job_manifest
from compaction_operator.driver.spark import executor_template

DRIVER = """
import os, sys
from compaction_operator.api.request import REQUEST_VARIABLE, JobRequest
from compaction_operator.driver.spark import spark_context
from compaction_operator.storage import open_storage

def read(place):
    return open_storage(place).read(place)

place = sys.argv[1]
assert read(place) == b"rows"
spark = spark_context(JobRequest.model_validate_json(os.environ[REQUEST_VARIABLE]), os.environ, executors=0)
assert spark.parallelize([place]).map(read).collect() == [b"rows"]
print(spark.getConf().toDebugString())
print(spark._jvm.System.getProperties().toString())
print(spark._jvm.System.getenv().toString())
spark.stop()
try:
    read(sys.argv[2])
except Exception as error:
    print(error)
"""
"""It reads a file itself and in a task of Spark, prints all of Spark's settings, then reads what it cannot."""

EXECUTORS = SparkOptions(executors=ExecutorResources(instances=2))


def read_as_pod(request: JobRequest, file: str, *, missing: str, folder: Path) -> str:
    """Read a file that holds `rows` as the driver's pod and its tasks do; return all that shows of it.

    That is its output, with the error about what is missing, the Job's manifest, and the pods of executors. Secrets and
    ConfigMaps must be where the manifest mounts them.
    """
    manifest = job_manifest(request, ttl=1.0)
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    own = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ}
    # As the image does, it names the Python of Spark's tasks.
    own |= {"PYSPARK_PYTHON": sys.executable}
    script = folder / "driver.py"
    script.write_text(DRIVER)
    done = subprocess.run(
        [sys.executable, script, file, missing],
        env=own | {one["name"]: one["value"] for one in container["env"] if "value" in one},
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    template = executor_template(request.model_copy(update={"spark": EXECUTORS}))
    return "\n".join([done.stdout, done.stderr, json.dumps(manifest), yaml.safe_dump(template)])
