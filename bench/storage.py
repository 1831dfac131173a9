"""Listing and compaction on each kind of store: `python -m bench.storage [--partitions 10000] [--runs 3]`.

A local disk, a real HDFS and MinIO, side by side in one run. Listing: all partitions of a table, as a batch of a driver
lists them. Compaction: one partition with large stripes, by the steps of a driver on Hive 4, in this process: CPU time
against the local disk's, and for S3 the requests and the bytes that went through the process. The result is
`bench/out/storage.json`; the exit code is 1 when a target is missed.

Compaction is measured on two sizes of one partition's bucket, and every target holds for both. In the smaller table (64
MB) a fixed cost, that of each file and request, shows most: it is the harder one. The larger one (256 MB, a stripe of a
block in each file) is what users compact.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from sandbox.harness.places import Place, copy_tree, location_of
from sandbox.hdfs.path import HdfsPath
from sandbox.hdfs.server import HdfsServer
from sandbox.s3.path import make_bucket
from sandbox.s3.server import S3Server

from bench.acid_table import make_table, snapshot
from bench.traffic import Traffic
from compaction_operator.acid.listing import Listing
from compaction_operator.acid.plan import Layout
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.stores import S3, STORES_VARIABLE, StoreSettings
from compaction_operator.driver.hive.publish import leave, move_outputs
from compaction_operator.driver.merge.execute import merge
from compaction_operator.driver.merge.partition import OpenTarget, Request, assemble, make_staging, prepare
from compaction_operator.driver.merge.row_counts import verify
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.storage import open_storage

RESULT = Path(__file__).parent / "out" / "storage.json"
TARGETS = {
    "directories_per_second": 2500.0,
    "minor_share_of_bytes_through_the_process": 0.02,
    "major_cpu_against_local": 1.5,
    "requests_for_an_output_file": 12,
}
DELTAS = 4
ROWS = {"64 MB": 200_000, "256 MB": 800_000}
"""Rows of each delta, by the size of the table."""
TXN = 7
AT_ONCE = 64


def main() -> int:
    """Measure, leave the result, and print it; returns 1 when a target is missed."""
    options = _options()
    with _places() as places:
        listing = {name: list_table(place / "listed", options.partitions) for name, place in places.items()}
        compaction = {
            size: compact_everywhere(places, size=size, rows=rows, runs=options.runs) for size, rows in ROWS.items()
        }
    result = judged(listing, compaction)
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"targets": TARGETS, "machine": machine, **result}, indent=1) + "\n")
    print(f"bench-storage: {'; '.join(result['missed']) or 'ok'}")
    return 1 if result["missed"] else 0


def list_table(table: Place, partitions: int) -> dict[str, float]:
    """Make a table of so many partitions, each with a base and a delta, and list them all."""
    places = [table / f"p={number:06d}" for number in range(partitions)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(_fill, places))
    locations = [location_of(place) for place in places]
    began, cpu = time.perf_counter(), time.process_time()
    found = open_storage(locations[0]).list_partitions(locations)
    seconds = time.perf_counter() - began
    if any(not isinstance(one, Listing) or len(one.directories) != 2 for one in found.values()):
        raise RuntimeError(f"{table}: not every partition was listed whole")
    figures = {
        "partitions": partitions,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "directories_per_second": round(3 * partitions / seconds),
    }
    print(f"listing {table}: {figures}", flush=True)
    return figures


def compact_everywhere(places: Mapping[str, Place], *, size: str, rows: int, runs: int) -> dict[str, dict[str, Any]]:
    """Compact the same table on each store, minor and major, so many times in turn."""
    with tempfile.TemporaryDirectory(prefix="bench-storage-") as folder:
        make_table(Path(folder) / "t", deltas=DELTAS, rows=rows)
        name_of_table = size.replace(" ", "_")
        tables = {name: copy_tree(Path(folder) / "t", place / name_of_table) for name, place in places.items()}
    found: dict[str, dict[str, list[dict[str, Any]]]] = {name: {} for name in tables}
    for kind in (CompactionType.MINOR, CompactionType.MAJOR):
        for _ in range(runs + 1):
            for name, table in tables.items():
                found[name].setdefault(str(kind), []).append(compact(location_of(table), kind))
    # The first run of each warms connections and libraries.
    return {name: {kind: _medians(all_[1:]) for kind, all_ in kinds.items()} for name, kinds in found.items()}


def compact(location: str, kind: CompactionType) -> dict[str, Any]:
    """Compact a table once by the steps of a driver, and remove the output; return the figures."""
    target = OpenTarget("", location, 0, "_compaction_bench-1-pod")
    write_ids = ValidWriteIdList.parse(snapshot(DELTAS + 1))
    cpu = time.process_time()
    with Traffic.of(target.storage) as traffic:
        make_staging(target)
        request = Request(kind, Layout.HIVE4, visibility_txn=TXN)
        prepared = prepare(target, target.storage.list_partition(location), write_ids=write_ids, request=request)
        (merged,) = merge([prepared], LocalRunner())
        verify(merged)
        move_outputs(prepared, uploads=assemble(merged), guard=lambda: None)
        leave(prepared)
    figures = {
        "cpu_seconds": time.process_time() - cpu,
        "bytes_in": prepared.bytes_in,
        "files_out": len(merged.published) + len(prepared.plan.outputs),
        **traffic.figures(),
    }
    for output in prepared.plan.outputs:
        target.storage.delete_tree(f"{location}/{output.name}")
    print(f"{kind} {location}: {figures}", flush=True)
    return figures


def judged(listing: Mapping[str, Mapping[str, float]], compaction: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return all figures, of compaction by the table's size, and what misses its target."""
    missed = [
        f"listing on {name}: {figures['directories_per_second']} directories a second"
        for name, figures in listing.items()
        if figures["directories_per_second"] < TARGETS["directories_per_second"]
    ]
    for size, stores in compaction.items():
        missed += [f"{miss} ({size})" for miss in _missed(stores)]
    return {"listing": dict(listing), "compaction": dict(compaction), "missed": missed}


def _missed(stores: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield which targets the compactions of one table miss."""
    local = stores["file"]["Major"]["cpu_seconds"]
    for name, kinds in stores.items():
        times = kinds["Major"]["cpu_seconds"] / local
        if times > TARGETS["major_cpu_against_local"]:
            yield f"a major on {name} takes {times:.2f} times the CPU of a local one"
    minor = stores["s3"]["Minor"]
    share = minor["bytes_through"] / minor["bytes_in"]
    if share > TARGETS["minor_share_of_bytes_through_the_process"]:
        yield f"a minor on s3 moves {share:.1%} of the bytes"
    requests = (minor["requests"] - minor["reads"]) / minor["files_out"]
    if requests > TARGETS["requests_for_an_output_file"]:
        yield f"a minor on s3 makes {requests:.1f} requests for each output file"


def _medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: median(run[name] for run in runs) for name in runs[0]}


def _fill(partition: Place) -> None:
    for name in ("base_0000001_v0000001", "delta_0000002_0000002_0000"):
        (partition / name).mkdir(parents=True, exist_ok=True)
        (partition / name / "bucket_00000").write_bytes(b"rows")


@contextmanager
def _places() -> Iterator[dict[str, Place]]:
    """Start the servers and yield a folder on each store, which this process can reach."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-storage-")))
        for name in ("file", "hdfs", "s3"):
            (folder / name).mkdir()
        hdfs = stack.enter_context(HdfsServer(folder / "hdfs"))
        s3 = stack.enter_context(S3Server(folder / "s3"))
        settings = StoreSettings(s3=S3(**s3.settings().model_dump()))
        os.environ[STORES_VARIABLE] = json.dumps(settings.to_json())
        yield {"file": folder / "file", "hdfs": HdfsPath(hdfs.uri) / "bench", "s3": make_bucket(s3, "bench")}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=10_000, help="partitions of the listed table")
    parser.add_argument("--runs", type=int, default=3, help="compactions of each kind on each store")
    parser.add_argument("--out", type=Path, default=RESULT, help="the result's file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
