"""How soon directories go once their last reader has ended: `python -m bench.released [--cleanups 1000 --tables 20]`.

The real controller with the chart's defaults, on a real etcd, API server and metastore of Hive 3.1. The tables lie on
this machine's disk. Each cleanup is for one partition, and waits for the lock of a reader of that partition. No driver
makes them: the journals, partitions and directories are written as drivers leave them. Measured is the time from before
the call that releases a lock until its partition's obsolete directories are gone from the disk, to 20 ms:

- `single`: readers end one by one, at any time, while all other cleanups wait.
- `burst`: all readers of one table end at once.

The result is in `bench/out/controller.json` under `released`; the exit code is 1 when the target is missed, which is of
`single`.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import kubernetes
from sandbox.harness.settings import WAREHOUSE
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.plane import Plane
from sandbox.plane.install import NAMESPACE

from bench.controller_result import RESULT, record
from compaction_operator.api import cleanup as api
from compaction_operator.api import compaction
from compaction_operator.api.cleanup import (
    CompactionCleanupSpec,
    CompactionRef,
    ObsoleteEntry,
    PartitionEntry,
    TableIdentity,
)
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.metastore import LockKind, LockWish, Partition

INTERVAL = 2.0
"""The chart's `cleanup.interval`."""
ALLOWED = 1.0
"""Seconds beyond the interval, at the 99th percentile."""
DATABASE = "bench"
DELTAS = tuple(f"delta_{number:07d}_{number:07d}_0000" for number in range(1, 6))
BASE = "base_0000005"
CREATORS = 8
PATIENCE = 900.0
LOOK = 0.02
SINGLE = 200
"""Readers that end one by one, at most; the table of the burst is not among theirs."""
PAUSE = 1.0
"""The longest time between two of them: all phases of the interval occur."""


@dataclass(frozen=True)
class Held:
    """A partition of a table with directories to delete, and the lock of its reader."""

    identity: TableIdentity
    entry: PartitionEntry
    lock: int

    @property
    def clean(self) -> bool:
        """Whether nothing is left but the base."""
        place = Path(self.entry.location.removeprefix("file:"))
        return [path.name for path in place.iterdir()] == [BASE]


def held_table(admin: MetastoreAdmin, warehouse: Path, *, name: str, partitions: int) -> Iterator[Held]:
    """Make a table of so many partitions as a major compaction leaves them, and let each have a reader."""
    location = warehouse / f"{DATABASE}.db" / name
    admin.create_table(
        DATABASE, name, location=location.as_uri(), columns=[("id", "int")], partition_keys=[("p", "string")]
    )
    names = admin.add_partitions(DATABASE, name, [(f"{number:03d}",) for number in range(partitions)])
    admin.start_write_ids(DATABASE, name, highest=len(DELTAS))
    for directory in (location / partition / one for partition in names for one in (*DELTAS, BASE)):
        directory.mkdir(parents=True)
        (directory / "bucket_00000").write_bytes(b"ORC")
    table = admin.get_table(DATABASE, name)
    identity = TableIdentity(
        database=DATABASE, name=name, create_time=table.create_time, location=table.location, table_id=table.table_id
    )
    for partition in admin.get_partitions(DATABASE, name, names):
        wish = LockWish(
            database=DATABASE,
            table=name,
            partition=partition.name,
            kind=LockKind.SHARED_READ,
            agent="bench-reader",
            txn=0,
        )
        yield Held(identity, _entry(partition), admin.lock(wish).lock_id)


def _entry(partition: Partition) -> PartitionEntry:
    return PartitionEntry(
        partition=partition.name,
        location=partition.location,
        create_time=partition.create_time,
        outputs=(BASE,),
        highest_write_id=len(DELTAS),
        obsolete=tuple(ObsoleteEntry(name=name, reason=f"obsolete by {BASE}") for name in DELTAS),
    )


class Journals:
    """Writes compactions that have ended, and their journals, with the administrator's rights."""

    def __init__(self, client: kubernetes.client.ApiClient) -> None:
        client.configuration.connection_pool_maxsize = CREATORS
        self._custom = kubernetes.client.CustomObjectsApi(client)

    def write(self, held: Held) -> None:
        """Write a journal of one partition, and the compaction that owns it."""
        name = f"{held.identity.name}-{held.entry.partition.partition('=')[2]}"
        uid = self._compaction(held, name)
        spec = CompactionCleanupSpec(
            warehouse=WAREHOUSE,
            table=held.identity,
            compaction=CompactionRef(name=name, uid=uid, attempt=1, job=name, pod_uid="none"),
            partitions=(held.entry,),
            grace_period=0,
        )
        owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": compaction.KIND, "name": name, "uid": uid}
        labels = {api.LABEL_COMPACTION_UID: uid, api.LABEL_ATTEMPT: "1"}
        metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
        body = {"kind": api.KIND, "metadata": metadata, "spec": spec.to_json()}
        self._create(api.PLURAL, body)

    def _compaction(self, held: Held, name: str) -> str:
        spec = {"warehouse": WAREHOUSE, "table": held.identity.ref().to_json(), "partitions": [held.entry.partition]}
        body = {"kind": compaction.KIND, "metadata": {"name": name}, "spec": {**spec, "type": "Major"}}
        made = self._create(compaction.PLURAL, body)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        verdict = {
            "type": "Succeeded",
            "status": "True",
            "reason": "Compacted",
            "message": "",
            "lastTransitionTime": now,
        }
        status = {"phase": "Succeeded", "attempt": 1, "job": name, "completionTime": now, "conditions": [verdict]}
        self._custom.patch_namespaced_custom_object_status(
            GROUP, VERSION, NAMESPACE, compaction.PLURAL, name, {"status": status}
        )
        return str(made["metadata"]["uid"])

    def _create(self, plural: str, body: dict[str, Any]) -> Any:
        body = {"apiVersion": f"{GROUP}/{VERSION}", **body}
        return self._custom.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, plural, body)


def seconds_to_go(admin: MetastoreAdmin, readers: Sequence[Held], *, pauses: Iterator[float]) -> list[float]:
    """Let readers end, each after its pause; return how many seconds later the directories of each were gone."""
    began: dict[int, float] = {}
    left, found, due = list(readers), list[float](), time.perf_counter()
    waiting: list[Held] = []
    while left or waiting:
        while left and time.perf_counter() >= due:
            waiting.append(left.pop())
            began[waiting[-1].lock] = time.perf_counter()
            admin.unlock(waiting[-1].lock)
            due = began[waiting[-1].lock] + next(pauses)
        for one in [one for one in waiting if one.clean]:
            found.append(time.perf_counter() - began[one.lock])
            waiting.remove(one)
        if waiting and time.perf_counter() - began[waiting[0].lock] > PATIENCE:
            raise TimeoutError(f"{len(waiting)} partitions still have directories")
        time.sleep(LOOK)
    return found


def measured(folder: Path, *, cleanups: int, tables: int) -> dict[str, Any]:
    """Let so many cleanups wait, end readers, and return the seconds."""
    values = {"cleanup": {"interval": f"{INTERVAL:g}s"}}
    with Plane(folder, hive="3.1.3", spark=False, values=values, txn_timeout_seconds=7200) as plane:
        plane.controller.kill()  # until all is there
        admin, warehouse = plane.admin(), Path(str(plane.metastore.warehouse))
        admin.create_database(DATABASE, location=(warehouse / f"{DATABASE}.db").as_uri())
        names = [f"t{number:02d}" for number in range(tables)]
        made = {name: list(held_table(admin, warehouse, name=name, partitions=cleanups // tables)) for name in names}
        held = [one for those in made.values() for one in those]
        with ThreadPoolExecutor(CREATORS) as threads:
            list(threads.map(Journals(plane.client()).write, held))
        plane.controller.start()
        plane.wait(lambda: _waiting(plane) == len(held), timeout=PATIENCE, what=f"{len(held)} cleanups to wait")
        print(f"{len(held)} cleanups wait", flush=True)
        random = Random(1)  # noqa: S311 - reproducible
        others = [one for one in held if one.identity.name != names[0]]
        chosen = random.sample(others, min(SINGLE, len(others) // 2))
        single = seconds_to_go(admin, chosen, pauses=(random.uniform(0, PAUSE) for _ in chosen))
        burst = seconds_to_go(admin, made[names[0]], pauses=(0.0 for _ in held))
    return {
        "cleanups": len(held),
        "tables": tables,
        "interval": INTERVAL,
        "single": percentiles(single),
        "burst": percentiles(burst),
    }


def _waiting(plane: Plane) -> int:
    return sum(bool((raw.get("status") or {}).get("blockerCount")) for raw in plane.mirror.all(api.PLURAL))


def percentiles(found: Sequence[float]) -> dict[str, float]:
    """Return the usual percentiles: the smallest values that so many percent do not exceed."""
    ordered = sorted(found)
    ranks = {percent: -(-len(ordered) * percent // 100) for percent in (50, 90, 99, 100)}
    return {f"p{percent}": round(ordered[rank - 1], 2) for percent, rank in ranks.items()}


def main() -> int:
    """Measure, leave the result, and print it; returns 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cleanups", type=int, default=1000, help="cleanups that wait")
    parser.add_argument("--tables", type=int, default=20, help="tables that are read")
    parser.add_argument("--out", type=Path, default=RESULT, help="the result's file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-released-") as name:
        found = measured(Path(name), cleanups=options.cleanups, tables=options.tables)
    target = INTERVAL + ALLOWED
    record(options.out, "released", {**found, "target_p99": target})
    missed = found["single"]["p99"] > target
    print(f"bench-controller: released: {found}: {'missed' if missed else 'ok'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
