"""The same compactions as plans of Spark DataFrames, in a session that stays warm: `python -m bench.engine.spark_plan`.

What one would write without this project: read the events, leave out the deleted rows, sort by ROW__ID, write one file.
The output has neither Hive's key index nor its statistics of events, so it is somewhat less than the others' work.
"""

import shutil
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.engine.processes import cpu_of
from bench.engine.serve import Answer, own_cpu, peak_rss_mb, serve

INSERTS, DELETES = ("base_", "delta_"), ("delete_delta_",)
KEYS = ["originalTransaction", "bucket", "rowId"]
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Duser.timezone=UTC",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session() -> tuple[SparkSession, int]:
    """Return a session of one core, and the process id of the JVM behind it."""
    builder = SparkSession.builder.master("local[1]").appName("bench")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark, spark.sparkContext._gateway.proc.pid


class SparkPlan:
    """A session, and the JVM behind it."""

    def __init__(self) -> None:
        self._spark, self._jvm = session()

    def handle(self, request: Answer) -> Answer:
        """Compact a table of one bucket into directories of `output` that are named as Hive names them."""
        began, cpu = time.perf_counter(), self._cpu()
        self._compact(Path(request["table"]), Path(request["output"]), request)
        cpu, wall = self._cpu() - cpu, time.perf_counter() - began
        return {"cpu_s": cpu, "wall_s": wall, "peak_rss_mb": peak_rss_mb("self") + peak_rss_mb(self._jvm)}

    def _compact(self, table: Path, output: Path, request: Answer) -> None:
        highest, codec = request["highest"], request["compress"].lower()
        inserts, deletes = self._events(table, INSERTS), self._events(table, DELETES)
        if request["major"]:
            if inserts is not None and deletes is not None:
                # NB: Spark fails to read some columns of an ACID file only; what is cached has been read whole.
                keys = deletes.cache().select(KEYS)
                inserts = inserts.join(keys, KEYS, "left_anti").select(*inserts.columns)
            _write(inserts, output / f"base_{highest:07d}", codec)
            self._spark.catalog.clearCache()
            return
        _write(inserts, output / f"delta_0000001_{highest:07d}", codec)
        _write(deletes, output / f"delete_delta_0000001_{highest:07d}", codec)

    def _events(self, table: Path, prefixes: tuple[str, ...]) -> DataFrame | None:
        """Return the events of the directories whose names begin so; None if there are none."""
        files = sorted(str(path) for path in table.glob("*/bucket_00000") if path.parent.name.startswith(prefixes))
        return self._spark.read.orc(files) if files else None

    def _cpu(self) -> float:
        return own_cpu() + cpu_of(self._jvm)


def _write(events: Any, directory: Path, codec: str) -> None:
    if events is None:
        return
    aside = directory.with_name(f"_{directory.name}")
    ordered = events.coalesce(1).sortWithinPartitions(*KEYS)
    ordered.write.option("compression", codec).orc(str(aside))
    directory.mkdir()
    (part,) = aside.glob("part-*.orc")
    part.rename(directory / "bucket_00000")
    shutil.rmtree(aside)


if __name__ == "__main__":
    serve(SparkPlan().handle)
