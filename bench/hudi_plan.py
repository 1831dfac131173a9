"""What planning on a large Hudi table costs: `python -m bench.hudi_plan [--files 10000] [--hudi 1.2.0]`.

Hudi writes a table of ten partitions with eight log files in each. Its file groups are then copied under other names
until the table has so many log files. Measured are a log compaction's plan and a full compaction's: seconds, and how
long the table's lock is held. The result is `bench/out/hudi-plan.json`; the exit code is 1 when a target is missed.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox.hudi.look import base_files, log_files
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import SmallTable

from compaction_operator.api.hudi import HudiOptions
from compaction_operator.hudi import BUNDLES, Choice, read_table, write_options
from compaction_operator.hudi.jvm import HudiClient
from compaction_operator.storage import LocalStorage

RESULT = Path(__file__).parent / "out" / "hudi-plan.json"
VERSIONS = tuple(BUNDLES)
TARGETS = {"seconds": 20.0, "locked_seconds": 2.0}
"""Of each plan."""
PARTITIONS = 10
COMMITS = 8
_FILE_ID = re.compile(r"^\.?([0-9a-f]{8}-[0-9a-f-]+-[0-9]+)_")


class TimedClient(HudiClient):
    """A client that knows how long it held the table's lock."""

    locked_seconds = 0.0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, and add up for how long."""
        with super().locked():
            begun = time.monotonic()
            try:
                yield
            finally:
                self.locked_seconds += time.monotonic() - begun


def main() -> int:
    """Measure, leave the result, and print it; returns 1 when a target is missed."""
    options = _options()
    versions = VERSIONS if options.hudi == "both" else (options.hudi,)
    found = {version: measure(version, options.files) for version in versions}
    plans = [plan for result in found.values() for plan in result["plans"].values()]
    ok = all(plan[name] <= limit for plan in plans for name, limit in TARGETS.items())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    text = {"targets": TARGETS, "cores": os.cpu_count(), "hudi": found, "ok": ok}
    options.out.write_text(json.dumps(text, indent=1) + "\n")
    print(f"bench-hudi-plan: {'ok' if ok else 'MISSED'}")
    return 0 if ok else 1


def measure(version: str, files: int) -> dict[str, Any]:
    """Plan both kinds of compaction on a table with so many log files; prints a line for each."""
    with tempfile.TemporaryDirectory(prefix="bench-hudi-plan-") as folder, HudiSession(version) as session:
        location = Path(folder) / "table"
        count = make_table(session, location, files)
        plans = {kind: _plan(session, location, kind) for kind in ("log compaction", "compaction")}
    for kind, plan in plans.items():
        print(f"Hudi {version}, {count} log files, {kind}: {plan}", flush=True)
    return {"log_files": count, "plans": plans}


def make_table(session: HudiSession, location: Path, files: int) -> int:
    """Write a table and copy its file groups; return how many log files it has."""
    table = SmallTable(session.spark, location, partitioned=True)
    rows = session.spark.range(PARTITIONS * 10).selectExpr(
        "id", "id ts", "'v' v", f"concat('p', id % {PARTITIONS}) part"
    )
    for _ in range(COMMITS + 1):
        rows.write.format("hudi").options(**table.options).mode("append").save(str(location))
    originals = [*base_files(location), *log_files(location)]
    for number in range(1, files // (PARTITIONS * COMMITS)):
        for path in originals:
            file_id = _FILE_ID.match(path.name)
            assert file_id is not None, path
            shutil.copyfile(path, path.with_name(path.name.replace(file_id[1], f"{number:08x}{file_id[1][8:]}")))
    return len(log_files(location))


def _plan(session: HudiSession, location: Path, kind: str) -> dict[str, float]:
    """Make a plan, and remove it if others would be in its way."""
    table = read_table(LocalStorage(), str(location))
    own = HudiOptions(
        single_writer=True,
        options={"hoodie.log.compaction.blocks.threshold": "2", "hoodie.compact.inline.max.delta.commits": "1"},
    )
    options = write_options(table, warehouse={}, own=own, partitions=())
    with TimedClient.open(session.spark, table, options, bundle=session.version, lock_provider=None) as client:
        begun = time.monotonic()
        if kind == "compaction":
            plan = client.plan_compaction(owner="bench", alone=False)
        else:
            choice = Choice(threshold=2, limit=None, partitions=(), newest_only=table.replays_merged_blocks_last)
            plan = client.plan_log_compaction(owner="bench", choose=choice, beside=False)
        seconds = time.monotonic() - begun
        assert plan is not None
        if kind == "log compaction":
            client.remove(next(one for one in client.instants() if one.time == plan.instant), confirm=lambda: None)
    planned = sum(len(operation.files) for operation in plan.operations)
    return {"files": planned, "seconds": round(seconds, 2), "locked_seconds": round(client.locked_seconds, 2)}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What planning on a large Hudi table costs.")
    parser.add_argument("--files", type=int, default=10_000, help="log files (default: %(default)s)")
    parser.add_argument("--hudi", choices=[*VERSIONS, "both"], default="both", help="default: one after the other")
    parser.add_argument("--out", type=Path, default=RESULT, help="where the result goes (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
