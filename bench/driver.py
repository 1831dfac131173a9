"""What a driver's process costs for a tiny table: `python -m bench.driver [--rounds 5]`.

Three kinds of processes, in turns, each with a real metastore: the start alone (a driver whose metastore is away), a
minor compaction of three inserts in the driver's own process, and the same by Spark without executors. Measured are CPU
time and memory of all processes that it starts. The result is `bench/out/driver.json`; the exit code is 1 when a
target is missed. A busy machine lengthens CPU time: the ratios of one run say more than its seconds.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from sandbox.driver.api_server import ApiServer
from sandbox.driver.process import Ran, run_driver
from sandbox.harness.places import copy_tree, location_of
from sandbox.harness.ports import free_ports
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.compaction import CompactionType, ExecutorResources, SparkOptions, TableRef
from compaction_operator.api.config import Metastore, SparkProfile, Warehouse
from compaction_operator.api.request import JobRequest, Reason

RESULT = Path(__file__).parent / "out" / "driver.json"
FIXTURE = Path(__file__).parents[1] / "tests/fixtures/hive-3.1.3/table_txn_001/before"
COLUMNS = [("id", "int"), ("name", "string")]
DATABASE = "bench"
START, LOCAL, SPARK = "start", "local", "spark"
TARGETS = {
    START: {"cpu_s": 0.6},
    LOCAL: {"cpu_s": 1.5, "peak_rss_mb": 200.0},
}
"""The most that the median of a kind may take."""


class Tables:
    """Tiny tables of a metastore, each with three inserts; a driver for the next one."""

    def __init__(self, server: MetastoreServer, admin: MetastoreAdmin, api: ApiServer, folder: Path) -> None:
        self._server = server
        self._admin = admin
        self._api = api
        self._folder = folder
        self._number = 0
        admin.create_database(DATABASE, location=location_of(server.warehouse / "bench.db"))

    def start(self) -> Ran:
        """Run a driver that finds no metastore; raises RuntimeError if it ends otherwise."""
        (port,) = free_ports(1)
        return self._ended(Reason.METASTORE_UNAVAILABLE, uri=f"thrift://127.0.0.1:{port}")

    def local(self) -> Ran:
        """Compact a table in the driver's process."""
        return self._compacted(spark=False)

    def spark(self) -> Ran:
        """Compact a table by Spark."""
        return self._compacted(spark=True)

    def _compacted(self, *, spark: bool) -> Ran:
        name = f"t{self._number}"
        directory = self._server.warehouse / "bench.db" / name
        self._admin.create_table(DATABASE, name, location=location_of(directory), columns=COLUMNS)
        self._admin.start_write_ids(DATABASE, name, highest=3)
        copy_tree(FIXTURE, directory)
        return self._ended(Reason.COMPACTED, uri=self._server.uri, table=name, spark=spark)

    def _ended(self, reason: Reason, *, uri: str, table: str = "none", spark: bool = False) -> Ran:
        self._number += 1
        ran = run_driver(_request(uri, table), self._api, self._folder / str(self._number), spark=spark)
        if ran.result.reason is not reason:
            raise RuntimeError(f"the driver ended with {ran.result}; its log:\n{ran.log}")
        return ran


def main() -> int:
    """Measure, leave the result, and print it; returns 1 when a target is missed."""
    options = _options()
    runs = measured(options.rounds)
    result = judged(runs)
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    text = {"targets": TARGETS, "machine": machine, **result, "runs": runs}
    options.out.write_text(json.dumps(text, indent=1) + "\n")
    for kind, figures in result["medians"].items():
        print(f"{kind:6} {figures['cpu_s']:6.2f} CPU s {figures['peak_rss_mb']:6.0f} MB")
    print(
        f"bench-driver: local takes 1/{result['cpu_ratio']:.1f} of Spark's CPU; {'; '.join(result['missed']) or 'ok'}"
    )
    return 1 if result["missed"] else 0


def measured(rounds: int) -> list[dict[str, Any]]:
    """Run all kinds in turns; a first round, in which files are read from the disk, does not count."""
    with tempfile.TemporaryDirectory(prefix="bench-driver-") as name, ExitStack() as stack:
        folder = Path(name)
        server = stack.enter_context(MetastoreServer(folder / "metastore"))
        api = stack.enter_context(ApiServer(folder / "api"))
        admin = stack.enter_context(MetastoreAdmin(server.settings()))
        tables = Tables(server, admin, api, folder / "drivers")
        kinds: dict[str, Callable[[], Ran]] = {START: tables.start, LOCAL: tables.local, SPARK: tables.spark}
        found = [_figures(kind, number, run()) for number in range(rounds + 1) for kind, run in kinds.items()]
    return [one for one in found if one["round"]]


def judged(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of each kind, how they compare, and the targets that they miss."""
    medians = {kind: _medians([run for run in runs if run["kind"] == kind]) for kind in (START, LOCAL, SPARK)}
    missed = [
        f"{kind}: {name} {medians[kind][name]}, not at most {most}"
        for kind, targets in TARGETS.items()
        for name, most in targets.items()
        if medians[kind][name] > most
    ]
    jvms = sum(run["jvm"] for run in runs if run["kind"] != SPARK)
    if jvms:
        missed.append(f"{jvms} runs without Spark started a JVM")
    local, spark = medians[LOCAL], medians[SPARK]
    return {
        "medians": medians,
        "cpu_ratio": round(spark["cpu_s"] / local["cpu_s"], 1),
        "rss_ratio": round(spark["peak_rss_mb"] / local["peak_rss_mb"], 1),
        "missed": missed,
    }


def _medians(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {name: round(median(run[name] for run in runs), 2) for name in ("cpu_s", "wall_s", "peak_rss_mb")}


def _figures(kind: str, number: int, ran: Ran) -> dict[str, Any]:
    return {
        "kind": kind,
        "round": number,
        "cpu_s": round(ran.cpu_seconds, 2),
        "wall_s": round(ran.wall_seconds, 2),
        "peak_rss_mb": round(ran.peak_rss / 1024**2, 1),
        "jvm": "java" in ran.programs,
    }


def _request(uri: str, table: str) -> JobRequest:
    metastore = Metastore(uris=(uri,), timeout=5.0)
    return JobRequest(
        name="bench",
        namespace="bench",
        uid="bench",
        attempt=1,
        job="bench",
        warehouse=Warehouse(name="main", metastore=metastore, namespaces=("bench",), locations=("file:/",)),
        profile=SparkProfile(name="default", image="none"),
        table=TableRef(database=DATABASE, name=table),
        type=CompactionType.MINOR,
        spark=SparkOptions(executors=ExecutorResources(instances=0)),
        allow_auto_compaction=True,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="CPU time and memory of a driver's process for a tiny table.")
    parser.add_argument("--rounds", type=int, default=5, help="how often each kind runs (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULT, help="where the result goes (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
