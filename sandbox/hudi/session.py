"""A Spark session with one of Hudi's bundles, in a JVM of its own that ends with it."""

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark import SparkContext
from pyspark.sql import SparkSession

from compaction_operator.driver.hadoop import Hadoop, trust
from compaction_operator.driver.hudi.setup import s3_jars
from compaction_operator.driver.spark import hudi_settings
from compaction_operator.hudi import BUNDLES

HERE = Path(__file__).parent

SETTINGS = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.driver.memory": "1200m",
    # Small tables: what is compiled for them is never repaid.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Instants are local times by default, and tables go from here to pods, whose time is UTC.
    # Hudi measures objects by JOL, which otherwise starts JVMs that may not attach themselves to this one.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC "
    "-Djol.skipHotspotSAAttach=true -Djol.skipDynamicAttach=true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

FEW_DEFAULTS = {"spark.driver.extraClassPath": str(HERE / "few-defaults")}
"""Takes Hadoop's defaults for MapReduce and YARN away. They are two thirds of a configuration, and no table needs them.

Hudi writes a whole configuration into each task and each closure that Spark checks: a quarter of all CPU time.
"""

KNOWN_NAMES = ("java.lang", "java.util", "scala", "org.apache.spark", "org.apache.hudi.common.table")


@cache
def bundles(*alone: str) -> Path:
    """Return the folder of the operator's bundles, in the user's cache; fetches them when they are not there.

    With a version it is the folder of that bundle, which the operator does not use.
    """
    done = subprocess.run([HERE / "fetch.sh", *alone], check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip().splitlines()[-1])


def bundle_jar(version: str) -> Path:
    """Return the bundle of a version of Hudi: one of the operator's, or 0.15.0."""
    return bundles(*(() if version in BUNDLES else (version,))) / f"hudi-spark3.5-bundle_2.12-{version}.jar"


class HudiSession:
    """Spark with the bundle of one version of Hudi.

    Two bundles cannot share a JVM and PySpark knows one JVM at a time, so only one session may be open; a JVM that an
    earlier, ended context of this process left is ended first. `cores` are the tasks that run at a time. `hadoop` says
    how the JVM reaches HDFS or S3.
    """

    def __init__(self, version: str, *, cores: int = 2, hadoop: Hadoop | None = None) -> None:
        self.version = version
        store = hadoop or Hadoop()
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.update(store.environment)
        _end_jvm()
        builder = SparkSession.builder.master(f"local[{cores}]").appName(f"hudi-{version}")
        builder = builder.config("spark.sql.warehouse.dir", tempfile.mkdtemp(prefix="spark-warehouse-"))
        jars = [bundle_jar(version), *s3_jars(bundles(), image="none: this machine")]
        own = SETTINGS if hadoop else SETTINGS | FEW_DEFAULTS
        for key, value in (own | hudi_settings(jars, SETTINGS, store)).items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        if store.authorities:
            trust(self.spark, store.authorities)
        self.spark.sparkContext.setLogLevel("ERROR")
        _remember(self.jvm)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def jvm(self) -> Any:
        """The JVM's packages, by py4j."""
        return self.spark._jvm

    def close(self) -> None:
        """Stop Spark and end the JVM."""
        self.spark.stop()
        _end_jvm()


def _remember(jvm: Any) -> None:
    """Keep the packages that are named most: for each part of a name py4j asks the JVM, which looks into 250 jars."""
    for name in KNOWN_NAMES:
        place = jvm
        for part in name.split("."):
            setattr(place, part, getattr(place, part))
            place = getattr(place, part)


def _end_jvm() -> None:
    """End the JVM that PySpark keeps for the next context of this process."""
    if SparkContext._active_spark_context is not None:
        raise RuntimeError("another Spark context is open in this process, and a JVM holds one bundle of Hudi")
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    # The JVM lives as long as its standard input.
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
