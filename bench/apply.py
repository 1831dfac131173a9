"""From `kubectl apply` to published for a tiny table, stage by stage: `python -m bench.apply [--rounds 5]`.

On the sandbox (`make sandbox-up`), with the chart's defaults and nothing else to do: a minor compaction of three
inserts of one row, without an executor (the driver does it alone) and with one (Spark does it). The image is on the
node. A first compaction of each kind is not counted. Stages are seconds since before the command, taken from watches of
this process, as times in Kubernetes' objects are whole seconds. A directory counts as published when it is on the disk.

The result is in `bench/out/controller.json` under `apply`; the exit code is 1 when a target is missed, which is of the
medians.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import kubernetes
from sandbox.cluster.running import running_sandbox
from sandbox.harness.compactions import ONE_EXECUTOR, SMALL_SPARK, manifest
from sandbox.harness.settings import SettingsError, load
from sandbox.harness.stage import Stage, Warehouse
from sandbox.harness.tables import TABLE_TXN_001, HiveTable
from sandbox.plane.mirror import Mirror, Raw

from bench.controller_result import RESULT, record
from compaction_operator.api import cleanup, compaction

TARGETS = {0: 8.0, 1: 20.0}
"""Seconds until a compaction is published, by the number of executors."""
DATABASE = "bench_apply"
PATIENCE = 180.0
LOOK = 0.02
PUBLISHED = "published"

Stages = dict[str, float]


class Stopwatch:
    """Notes when each stage of the one compaction that is under way was first seen."""

    def __init__(self, mirror: Mirror) -> None:
        self._lock = threading.Lock()
        self._began = 0.0
        self._found: Stages = {}
        for kind, stages_of in STAGES.items():
            mirror.listen(kind, self._listener(stages_of))

    def start(self) -> None:
        """Forget what was noted before."""
        with self._lock:
            self._began, self._found = time.perf_counter(), {}

    def note(self, stage: str) -> None:
        """Note a stage, unless it was seen before."""
        with self._lock:
            self._found.setdefault(stage, time.perf_counter() - self._began)

    def found(self) -> Stages:
        """Return the stages so far."""
        with self._lock:
            return dict(self._found)

    def _listener(self, stages_of: "StagesOf") -> Callable[[str, Raw], None]:
        def listen(event: str, raw: Raw) -> None:
            if event != "DELETED":
                for stage in stages_of(raw):
                    self.note(stage)

        return listen


StagesOf = Callable[[Raw], Sequence[str]]


def _of_compaction(raw: Raw) -> Sequence[str]:
    ended = (raw.get("status") or {}).get("phase") == "Succeeded"
    return ("created", "succeeded") if ended else ("created",)


def _role(pod: Raw) -> str | None:
    role: str | None = pod["metadata"].get("labels", {}).get("app.kubernetes.io/component")
    return role if role in ("driver", "executor") else None


def _of_pod(raw: Raw) -> Sequence[str]:
    role, phase = _role(raw), raw["status"].get("phase")
    if role is None:
        return ()
    return (f"{role} created", f"{role} runs") if phase in ("Running", "Succeeded") else (f"{role} created",)


STAGES: Mapping[str, StagesOf] = {
    compaction.PLURAL: _of_compaction,
    cleanup.PLURAL: lambda _: ("journal written",),
    "jobs": lambda _: ("job created",),
    "pods": _of_pod,
}


class Bench:
    """A cluster with the operator, on which nothing else is compacted."""

    def __init__(self, stage: Stage, warehouse: Warehouse, mirror: Mirror, files: Path) -> None:
        self._stage = stage
        self._warehouse = warehouse
        self._mirror = mirror
        self._watch = Stopwatch(mirror)
        self._files = files
        mirror.start()

    def compact(self, name: str, *, spark: Mapping[str, Any]) -> Stages:
        """Compact a new table; return when each stage was reached. Nothing of it is left."""
        table = self._warehouse.writer.create(TABLE_TXN_001, database=DATABASE, name=name.replace("-", "_"))
        before = self._directories(table)
        self._watch.start()
        self._stage.compactions.apply(manifest(name, table, "Minor", spark=spark))
        deadline = time.monotonic() + PATIENCE
        while self._directories(table) == before:
            if time.monotonic() > deadline:
                raise TimeoutError(f"tcomp/{name} published nothing in {PATIENCE:g} s: {self._watch.found()}")
            time.sleep(LOOK)
        self._watch.note(PUBLISHED)
        self._stage.compactions.wait_succeeded(name)
        found = self._watch.found()
        self._stage.compactions.delete_all()
        self._warehouse.writer.drop(table)
        self._mirror.wait(self._is_quiet, timeout=PATIENCE, what=f"all of tcomp/{name} to go")
        return found

    def _directories(self, table: HiveTable) -> set[str]:
        """Return the directories of a table that readers see and no compaction makes obsolete."""
        folder = self._files / table.location.partition("/warehouse/")[2]
        return {path.name for path in folder.iterdir() if path.name[0] not in "._"}

    def _is_quiet(self) -> bool:
        pods = [pod for pod in self._mirror.all("pods") if _role(pod)]
        return not pods and not any(map(self._mirror.all, (compaction.PLURAL, cleanup.PLURAL, "jobs")))


def summary(rounds: Sequence[Stages]) -> dict[str, Any]:
    """Return the median of each stage, in their order, and the slowest publication."""
    stages = {stage: round(median(one[stage] for one in rounds if stage in one), 2) for one in rounds for stage in one}
    ordered = dict(sorted(stages.items(), key=lambda stage: stage[1]))
    return {"rounds": len(rounds), "slowest": round(max(one[PUBLISHED] for one in rounds), 2), "stages": ordered}


def measured(rounds: int) -> dict[int, dict[str, Any]]:
    """Return what was found, by the number of executors."""
    stage = Stage(load())
    stage.prepare()
    stage.operator.install()
    api = kubernetes.config.new_client_from_config(stage.settings.environment["KUBECONFIG"])
    mirror, found = Mirror(api, stage.settings.namespace), {}
    with stage.connect() as warehouse:
        bench = Bench(stage, warehouse, mirror, running_sandbox().warehouse)
        for executors, spark in ((0, SMALL_SPARK), (1, ONE_EXECUTOR)):
            taken = [bench.compact(f"bench-{executors}-{number}", spark=spark) for number in range(rounds + 1)]
            found[executors] = summary(taken[1:])
            print(executors, "executors:", found[executors], flush=True)
    mirror.stop()
    return found


def main() -> int:
    """Measure, leave the result, and print it; returns 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="compactions of each kind that count")
    parser.add_argument("--out", type=Path, default=RESULT, help="the result's file")
    options = parser.parse_args()
    try:
        found = measured(options.rounds)
    except SettingsError as down:
        sys.exit(f"bench-apply: {down}")
    record(options.out, "apply", {"targets": TARGETS, "executors": found})
    missed = [
        f"{one['stages'][PUBLISHED]} s with {executors} executors"
        for executors, one in found.items()
        if one["stages"][PUBLISHED] > TARGETS[executors]
    ]
    print(f"bench-apply: {'; '.join(missed) or 'ok'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
