"""Drivers as processes: the product's own, on a real store, without Kubernetes. One dies as a pod does, if asked to."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from sandbox.hudi.session import SETTINGS, bundles

from compaction_operator.api.compaction import CompactionType, ExecutorResources, SparkOptions, TableRef
from compaction_operator.api.config import HudiSettings, Metastore, SparkProfile, Warehouse
from compaction_operator.api.hudi import HudiOptions, HudiStatus
from compaction_operator.api.pods import HADOOP_VARIABLE, KERBEROS_VARIABLE, pod_environment
from compaction_operator.api.request import REQUEST_VARIABLE, DriverResult, JobRequest, Reason
from compaction_operator.api.stores import StoreSettings
from compaction_operator.driver import main as driver
from compaction_operator.driver import spark as spark_of_the_driver
from compaction_operator.driver.hudi import lease
from compaction_operator.storage import join, open_storage

RESULT = "TEST_RESULT"
DIES = "TEST_DIES"
"""Environment variables of such a process: the file for its result, and whether it dies before it commits."""

POD = {"POD_UID": "pod", "POD_NAME": "pod", "POD_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
SECONDS = 200

NO_EXECUTORS = SparkOptions()
EXECUTOR = SparkOptions(executors=ExecutorResources(instances=1, memory="1g"))
"""Has the tasks done in another JVM."""


@dataclass(frozen=True)
class Drivers:
    """Runs a table's drivers, one after another; `options` are Hudi's, `settings` are more of Spark's."""

    location: str
    stores: StoreSettings
    options: Mapping[str, str]
    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    def done(self, kind: CompactionType, *, spark: SparkOptions = NO_EXECUTORS, **hudi: Any) -> HudiStatus:
        """Compact, with these fields of `hudi`; return the status. Raises AssertionError unless it was compacted."""
        result = self.folder / "result"
        result.write_text("")
        process = self._run(self._request(kind, spark, hudi), {RESULT: str(result), "SPARK_HOME": self._spark_home()})
        assert result.read_text(), process.stderr
        found = DriverResult.model_validate_json(result.read_text())
        assert (process.returncode, found.reason) == (0, Reason.COMPACTED), f"{found}\n{process.stderr}"
        assert found.hudi is not None
        return found.hudi

    def dies(self, kind: CompactionType, **hudi: Any) -> str:
        """Begin to compact, and die with all that was done but the commit; return the instant."""
        process = self._run(self._request(kind, NO_EXECUTORS, hudi), {DIES: "yes"})
        assert process.returncode == -signal.SIGKILL, process.stderr
        (instant,) = begun(self.location)
        return instant

    def _run(self, request: JobRequest, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
        settings = {
            one["name"]: one["value"]
            for one in pod_environment(request.warehouse, request.profile, metastore=True)
            if "value" in one
        }
        asked = {REQUEST_VARIABLE: request.model_dump_json(by_alias=True), "HUDI_BUNDLES": str(bundles())}
        own = {name: value for name, value in os.environ.items() if name not in (HADOOP_VARIABLE, KERBEROS_VARIABLE)}
        return subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", __name__],
            env=own | POD | settings | asked | dict(environment),
            timeout=SECONDS,
            capture_output=True,
            text=True,
            check=False,
            # NB: so that its JVM dies with it.
            start_new_session=True,
        )

    def _spark_home(self) -> str:
        """Return a folder like PySpark's, as Spark makes its executors' working folders there."""
        home = self.folder / "spark"
        if not home.exists():
            home.mkdir()
            for path in Path(pyspark.__file__).parent.iterdir():
                (home / path.name).symlink_to(path)
        return str(home)

    def _request(self, kind: CompactionType, spark: SparkOptions, hudi: Mapping[str, Any]) -> JobRequest:
        warehouse = Warehouse(
            name="main",
            metastore=Metastore(uris=("thrift://unused:9083",)),
            namespaces=("team",),
            stores=self.stores,
            locations=(self.location,),
            hudi=HudiSettings(options=dict(self.options), locations=(self.location,)),
        )
        return JobRequest(
            name="orders-hudi",
            namespace="team",
            uid="job",
            attempt=1,
            job="orders-hudi-1",
            warehouse=warehouse,
            profile=SparkProfile(
                name="default", image="compaction-operator:1", spark_conf=SETTINGS | dict(self.settings)
            ),
            table=TableRef(location=self.location),
            type=kind,
            spark=spark,
            hudi=HudiOptions.model_validate(hudi),
        )


def begun(location: str) -> list[str]:
    """Return the instants of compactions and log compactions that have begun and not ended."""
    names = [entry.name for entry in open_storage(location).list(join(location, ".hoodie", "timeline"))]
    inflight = [name.partition(".")[0] for name in names if name.endswith("compaction.inflight")]
    return [time for time in inflight if not any(name.startswith(f"{time}_") for name in names)]


class Leases:
    """Leases that are always free."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def read(self, name: str) -> None:
        return None

    def create(self, body: Any) -> Any:
        return body

    def replace(self, body: Any) -> Any:
        return body


class Pod:
    """A pod without reports."""

    def __init__(self, namespace: str, name: str) -> None:
        self.name = f"{namespace}/{name}"

    def annotate(self, value: str) -> None:
        """Forget it."""


def _die_once_begun(held: lease.Lease) -> None:
    """Take the place of `Lease.confirm`, which the driver calls right before it commits."""
    location = JobRequest.model_validate_json(os.environ[REQUEST_VARIABLE]).table.location
    assert location
    if begun(location):
        os.killpg(0, signal.SIGKILL)


def _executors_are_processes(start: Callable[[str, Mapping[str, str]], Any], name: str, settings: Any) -> Any:
    """Take the place of what starts Spark: no cluster is there to run executors in pods."""
    own = {"spark.master": "local-cluster[1,1,1024]"} if settings["spark.master"].startswith("k8s") else {}
    return start(name, settings | own)


if __name__ == "__main__":
    driver.KubernetesLeases = Leases  # type: ignore[attr-defined, assignment]
    driver.OwnPod = Pod  # type: ignore[attr-defined, assignment]
    driver.TERMINATION_MESSAGE_PATH = os.environ.get(RESULT, "")  # type: ignore[attr-defined]
    spark_of_the_driver._session = partial(_executors_are_processes, spark_of_the_driver._session)
    if DIES in os.environ:
        lease.Lease.confirm = _die_once_begun  # type: ignore[assignment, method-assign]
    sys.exit(driver.main())
