"""What the image's entry point starts: an executor's JVM as Spark wants it, or any other command as it is."""

import os
import subprocess
from pathlib import Path

import pytest

ENTRYPOINT = Path(__file__).parents[2] / "operator" / "entrypoint.sh"
EXECUTOR = {
    "SPARK_HOME": "/opt/spark",
    "SPARK_JAVA_OPT_1": "-Db=c",
    "SPARK_JAVA_OPT_0": "-Da=b -Dc=d",
    **{
        f"SPARK_{name}": name.lower()
        for name in (
            "EXECUTOR_MEMORY",
            "DRIVER_URL",
            "EXECUTOR_ID",
            "EXECUTOR_CORES",
            "APPLICATION_ID",
            "EXECUTOR_POD_IP",
            "RESOURCE_PROFILE_ID",
            "EXECUTOR_POD_NAME",
        )
    },
}


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A folder with a `java` that prints its arguments."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    return tmp_path


def arguments(folder: Path, **environment: str) -> list[str]:
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", ENTRYPOINT, "executor"], env=EXECUTOR | path | environment, check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()


def test_an_executor_gets_its_options_each_as_one_argument(started: Path) -> None:
    assert arguments(started)[:3] == ["-Da=b -Dc=d", "-Db=c", "-Xmsexecutor_memory"]


def test_an_executor_has_hadoops_configuration_before_sparks(started: Path) -> None:
    """So it knows that HDFS requires Kerberos."""
    without = arguments(started)
    assert without[without.index("-cp") + 1] == "/opt/spark/conf:/opt/spark/jars/*"
    having = arguments(started, HADOOP_CONF_DIR="/etc/hadoop/conf", SPARK_CONF_DIR="/opt/conf")
    assert having[having.index("-cp") + 1] == "/etc/hadoop/conf:/opt/conf:/opt/spark/jars/*"


def test_any_other_command_is_run_as_it_is() -> None:
    done = subprocess.run(["bash", ENTRYPOINT, "echo", "a b"], check=True, capture_output=True, text=True)
    assert done.stdout == "a b\n"
