"""What a policy's look at many tables costs: `python -m bench.look [--tables 10000]`.

A real metastore has so many tables in ten databases, each written to once. One in a hundred is then partitioned,
written to, and has deltas to merge. Measured are the looks after a restart, which read all tables, then a look after
those writes and one after which nothing has changed: seconds, calls to the metastore, and memory. The result is
`bench/out/look.json`; the exit code is 1 when a target is missed.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import Hive, MetastoreServer

from bench.acid_table import make_directory
from bench.engine.serve import peak_rss_mb
from compaction_operator.api.config import Warehouse
from compaction_operator.api.policy import CompactionPolicySpec
from compaction_operator.controller.survey import Surveyor
from compaction_operator.metastore import MetastoreClient
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import Memory, PartitionState, TableState
from compaction_operator.storage import open_storage

RESULT = Path(__file__).parent / "out" / "look.json"
TARGETS = {"seconds": 20.0, "calls": 40.0, "memory_mb": 300.0}
"""Seconds and calls are those of the look at what has changed, without `CALLS_PER_TABLE` for each changed table. The
memory is that of 100,000 partitions which have something to merge."""
CALLS_PER_TABLE = 2
"""The names of its partitions, and the partitions."""
DATABASES = 10
CHANGED = 100
"""One table in so many."""
DELTAS = 12
PARTITIONS = 10
"""Of each changed table."""
KNOWN = 100_000
THREADS = 8
COLUMNS = [("id", "int")]
WRITER = "bench"


@dataclass(frozen=True)
class Look:
    """One look, or all looks until no table is unread."""

    what: str
    looks: int
    seconds: float
    cpu_s: float
    calls: int
    tables: int
    partitions: int


class CountingClient(MetastoreClient):
    """A client that counts its calls."""

    calls = 0

    def _call(self, request: Callable[[Any], Any], *, table: str | None = None) -> Any:
        self.calls += 1
        return super()._call(request, table=table)


class Fleet:
    """The tables of a metastore, below a folder."""

    def __init__(self, server: MetastoreServer, folder: Path, tables: int) -> None:
        self._server = server
        self._folder = folder
        self.names = [(f"db{number % DATABASES}", f"t{number:05d}") for number in range(tables)]

    def make(self) -> None:
        """Create all tables, each with one committed write."""
        with closing(MetastoreAdmin(self._server.settings())) as admin:
            for number in range(DATABASES):
                admin.create_database(f"db{number}", location=f"file:{self._folder}/db{number}")
        self._beside(self._make, range(len(self.names)))

    def change(self) -> list[tuple[str, str]]:
        """Commit a write to one table in a hundred; return these."""
        changed = self.names[::CHANGED]
        self._beside(self._write, changed)
        return changed

    def _beside(self, work: Callable[[MetastoreAdmin, Any], None], items: Sequence[Any]) -> None:
        def part(number: int) -> None:
            with closing(MetastoreAdmin(self._server.settings())) as admin:
                for item in items[number::THREADS]:
                    work(admin, item)

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(part, range(THREADS)))

    def _make(self, admin: MetastoreAdmin, number: int) -> None:
        database, name = self.names[number]
        location = self._folder / database / name
        location.mkdir(parents=True)
        keys = [("day", "string")] if number % CHANGED == 0 else []
        admin.create_table(database, name, location=f"file:{location}", columns=COLUMNS, partition_keys=keys)
        admin.start_write_ids(database, name, highest=DELTAS)
        if keys:
            days = [f"2026-01-{day:02d}" for day in range(1, PARTITIONS + 1)]
            admin.add_partitions(database, name, [[day] for day in days])
            for day in days:
                for write_id in range(1, DELTAS + 1):
                    delta = make_directory(location / f"day={day}", f"delta_{write_id:07d}_{write_id:07d}_0000")
                    (delta / "bucket_00000").write_bytes(bytes(64))
        else:
            base = make_directory(location, f"base_{DELTAS:07d}")
            (base / "bucket_00000").write_bytes(bytes(64))

    def _write(self, admin: MetastoreAdmin, table: tuple[str, str]) -> None:
        txn = admin.open_txn(user=WRITER, agent=WRITER)
        write_id = admin.allocate_write_id(txn, *table)
        partition = self._folder / table[0] / table[1] / "day=2026-01-01"
        make_directory(partition, f"delta_{write_id:07d}_{write_id:07d}_0000")
        admin.commit_txn(txn)


def looked(surveyor: Surveyor, client: CountingClient, memory: Memory, what: str) -> tuple[Memory, Look]:
    """Look until all tables are read; return the memory, and what that took."""
    client.calls, looks = 0, 0
    began, cpu = time.perf_counter(), time.process_time()
    while True:
        memory = surveyor.look(memory, {}, ())
        looks += 1
        if not memory.unread:
            break
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    partitions = sum(len(one.partitions) for one in memory.tables.values())
    return memory, Look(what, looks, round(seconds, 2), round(cpu, 2), client.calls, memory.matched, partitions)


def memory_of(partitions: int) -> float:
    """Return the MB that so many partitions with something to merge take, ten in a table."""
    before, tables = _resident_mb(), {}
    now = datetime.now(UTC)
    for number in range(partitions // PARTITIONS):
        parts = tuple(
            PartitionState(
                f"day=2026-01-{day:02d}/hour={number:05d}",
                1_700_000_000 + number,
                Measure(
                    base_files=number + 300,
                    base_bytes=2**30 + number,
                    deltas=300 + day,
                    delta_files=400 + day,
                    delta_bytes=2**20 + number,
                    delete_bytes=2**10 + number,
                    buckets=300 + day,
                    delta_buckets=300 + day,
                    aborted=0,
                ),
            )
            for day in range(1, PARTITIONS + 1)
        )
        name = f"db.t{number:06d}"
        tables[name] = TableState(
            name, f"{name}:{number}:9223372036854775807::", now, ("day", "hour"), partitions=parts
        )
    held = Memory(tables)
    return _resident_mb() - before if held.tables else 0.0


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measured(tables: int, hive: Hive) -> Iterator[Look]:
    """Yield the looks at a new metastore's tables."""
    with _server(hive) as (server, folder):
        fleet = Fleet(server, folder, tables)
        fleet.make()
        spec = CompactionPolicySpec.model_validate({"warehouse": "main", "tables": {"include": ["*.*"]}})
        warehouse = Warehouse(
            name="main", metastore=server.settings(), namespaces=("*",), locations=(f"file:{folder}",)
        )
        with CountingClient(server.settings()) as client:
            surveyor = Surveyor(client, open_storage, warehouse, spec, datetime.now(UTC))
            memory, look = looked(surveyor, client, Memory(), "all, after a restart")
            yield look
            fleet.change()
            memory, look = looked(surveyor, client, memory, "one in a hundred changed")
            yield look
            yield looked(surveyor, client, memory, "nothing changed")[1]


@contextmanager
def _server(hive: Hive) -> Iterator[tuple[MetastoreServer, Path]]:
    with tempfile.TemporaryDirectory(prefix="bench-look-") as name:
        server = MetastoreServer(Path(name), hive=hive, database="postgres")
        try:
            server.start()
            yield server, Path(name) / "warehouse"
        finally:
            server.stop()


def misses(looks: Sequence[Look], *, tables: int, memory_mb: float) -> list[str]:
    """Return which targets are missed."""
    look = looks[1]
    calls = look.calls - CALLS_PER_TABLE * (tables // CHANGED)
    found = {"seconds": look.seconds, "calls": calls, "memory_mb": memory_mb}
    return [f"{name} {found[name]:g}, target {limit:g}" for name, limit in TARGETS.items() if found[name] > limit]


def main() -> int:
    """Measure, leave the result, and print it; returns 1 when a target is missed."""
    options = _options()
    memory_mb = round(memory_of(KNOWN), 1)
    print(f"{KNOWN} partitions: {memory_mb} MB", flush=True)
    looks = []
    for look in measured(options.tables, options.hive):
        looks.append(look)
        print(asdict(look), flush=True)
    missed = misses(looks, tables=options.tables, memory_mb=memory_mb)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "peak_rss_mb": round(peak_rss_mb("self"))}
    result = {"targets": TARGETS, "machine": machine, "looks": [asdict(look) for look in looks], "missed": missed}
    options.out.write_text(json.dumps({**result, "memory_mb": memory_mb}, indent=1) + "\n")
    print(f"bench-look: {'; '.join(missed) or 'ok'}")
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", type=int, default=10_000, help="how many (default: %(default)s)")
    parser.add_argument("--hive", default="4.0.1", help="the metastore's release (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULT, help="the result's file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
