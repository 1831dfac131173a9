"""Jobs a minute, CPU and memory of the controller: `python -m bench.controller [--lengths 100 1000 5000]`.

The real controller, pinned to one core, on a real etcd and API server without a node. Metastore and drivers are done at
once (`bench/instant.py`), so what is measured is the controller and the API server. Rates: so many TableCompactions of
different tables, with no limit in effect and with the default `maxConcurrentJobs` of 10, from the first Job to the last
end. CPU: with the default limit and so many compactions that wait, the controller's CPU time for each of the next ones
that end. Idle: its memory, and its CPU while nothing happens, with one compaction that has ended and with so many that
wait. Requests: how many of the controller's requests the API server's audit log has for each of these compactions,
from the controller's start to the last end. The result is in `bench/out/controller.json` under `rates`; the exit code
is 1 when a target is missed.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kubernetes
import yaml
from sandbox.harness.ports import free_ports
from sandbox.harness.settings import WAREHOUSE
from sandbox.plane.control import ControlPlane
from sandbox.plane.install import CONTROLLER_ACCOUNT, NAMESPACE, SYSTEM_NAMESPACE, Installed, install
from sandbox.plane.mirror import Mirror, Raw
from sandbox.plane.processes import Launch, PythonProcess, inherited

from bench.controller_result import RESULT, record
from bench.instant import Drivers, controller
from compaction_operator.api import compaction as api
from compaction_operator.api.model import GROUP, VERSION

TARGETS = {
    "jobs_per_minute": 1000.0,
    "jobs_per_minute_capped": 600.0,
    "cpu_growth": 1.25,
    "requests_each": 12.0,
    "memory_mb": 250.0,
}
"""`cpu_growth`: CPU for each compaction at the longest queue, against the shortest. `memory_mb`: at each length."""
ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}"
CAP = 10
NO_CAP = 1_000_000
JOBS = 500
WINDOW = 300
"""Compactions that end while CPU is measured, at most. No more than half of those that wait: the line never empties."""
IDLE_SECONDS = 20.0
PATIENCE = 600.0
CREATORS = 8
_MEMORY = {"memory_mb": "VmRSS", "memory_peak_mb": "VmHWM"}
TICKS = os.sysconf("SC_CLK_TCK")


class Bench:
    """An API server with the operator's chart, and compactions in one namespace."""

    def __init__(self, folder: Path, control: ControlPlane, installed: Installed) -> None:
        self._folder = folder
        self._port = control.port
        self._audit_log = control.audit_log
        self._installed = installed
        self._client = control.client()
        self._client.configuration.connection_pool_maxsize = CREATORS
        self._custom = kubernetes.client.CustomObjectsApi(control.client())
        self.drivers = Drivers(control.client())
        self.mirror = Mirror(self._client, NAMESPACE)
        self.mirror.listen("jobs", self.drivers.saw)
        self.mirror.listen(api.PLURAL, self._saw)
        self.mirror.start()
        self._phases: dict[str, str] = {}
        self.ended = 0
        self.queued = 0

    def create(self, number: int) -> None:
        """Create so many compactions, each of a table of its own, and forget earlier ones."""
        self._phases.clear()
        self.ended = self.queued = 0
        with ThreadPoolExecutor(CREATORS) as threads:
            list(threads.map(self._create, range(number)))

    def clear(self) -> None:
        """Delete all compactions and Jobs."""
        self._custom.delete_collection_namespaced_custom_object(GROUP, VERSION, NAMESPACE, api.PLURAL)
        batch = kubernetes.client.BatchV1Api(self._client)
        batch.delete_collection_namespaced_job(NAMESPACE, propagation_policy="Background", _preload_content=False)
        self.wait(lambda: not any(map(self.mirror.all, (api.PLURAL, "jobs"))), "everything to go")

    @contextmanager
    def running(self, cap: int) -> Iterator[PythonProcess]:
        """Run a controller with this limit of Jobs."""
        settings = yaml.safe_load(self._installed.config.read_text()) | {"maxConcurrentJobs": cap}
        config = self._folder / f"config-{cap}.yaml"
        config.write_text(yaml.safe_dump(settings))
        launch = Launch(
            arguments=("compaction-operator", "run", "--config", str(config)),
            environment={
                **inherited(),
                "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                "KUBERNETES_SERVICE_PORT": str(self._port),
            },
            log=self._folder / "controller.log",
            secrets=self._installed.controller_secrets,
            termination_message=self._folder / "termination",
            port=free_ports(1)[0],
        )
        process = PythonProcess(controller, launch)
        try:
            yield process
        finally:
            process.kill()

    def requests(self) -> Counter[str]:
        """Return how many requests the controller has made so far, by verb and resource."""
        with self._audit_log.open(encoding="utf-8") as log:
            return Counter(map(request_of, filter(str.strip, log)))

    def wait(self, reached: Any, what: str) -> None:
        """Wait until that is so."""
        self.mirror.wait(reached, timeout=PATIENCE, what=what)

    def _create(self, number: int) -> None:
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": api.KIND,
            "metadata": {"name": f"c{number:06d}"},
            "spec": {"warehouse": WAREHOUSE, "table": {"database": "bench", "name": f"t{number}"}, "type": "Major"},
        }
        self._custom.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, api.PLURAL, body)

    def _saw(self, event: str, raw: Raw) -> None:
        phase = "" if event == "DELETED" else (raw.get("status") or {}).get("phase", "")
        old, self._phases[raw["metadata"]["name"]] = self._phases.get(raw["metadata"]["name"], ""), phase
        if old != phase:
            self.ended += phase in ("Succeeded", "Failed")
            self.queued += phase == "Queued"


def rate(bench: Bench, *, cap: int, number: int) -> dict[str, Any]:
    """Return the Jobs a minute of so many compactions, and the controller's CPU and requests for each."""
    bench.create(number)
    bench.drivers.hold()
    before = bench.requests()
    with bench.running(cap) as process:
        bench.wait(lambda: bench.drivers.started, "the first Job")
        found = _until(bench, process, number)
        made = bench.requests() - before
    each = {what: round(count / number, 2) for what, count in made.most_common()}
    return {**found, "requests_each": round(made.total() / number, 2), "requests": each}


def request_of(line: str) -> str:
    """Return what a line of the audit log is about: a verb and a resource, such as `update tablecompactions/status`."""
    event = json.loads(line)
    what = event.get("objectRef")
    if what is None:
        return f"{event['verb']} {event['requestURI']}"
    return f"{event['verb']} {'/'.join(what[name] for name in ('resource', 'subresource') if name in what)}"


def alone(bench: Bench) -> dict[str, float]:
    """Return the controller's memory and idle CPU with one compaction, which has ended."""
    bench.create(1)
    bench.drivers.let_go()
    with bench.running(CAP) as process:
        bench.wait(lambda: bench.ended, "one to end")
        return idle(process)


def cost(bench: Bench, *, length: int) -> dict[str, float]:
    """Return the CPU for the first that end of so many, and memory and idle CPU, once all others are known to wait."""
    bench.create(length)
    bench.drivers.hold()
    with bench.running(CAP) as process:
        bench.wait(lambda: bench.queued >= length - CAP and bench.drivers.started >= CAP, f"{length} to wait")
        return {**idle(process), **_until(bench, process, min(WINDOW, length // 2))}


def idle(process: PythonProcess) -> dict[str, float]:
    """Return a process's memory now and at most, and its CPU milliseconds a second while nothing is asked of it."""
    began, cpu = time.perf_counter(), cpu_seconds(process.pid)
    time.sleep(IDLE_SECONDS)
    used = 1000 * (cpu_seconds(process.pid) - cpu) / (time.perf_counter() - began)
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    memory = {name: round(int(status[key].split()[0]) / 1000, 1) for name, key in _MEMORY.items()}
    return {**memory, "idle_cpu_ms_per_second": round(used, 1)}


def _until(bench: Bench, process: PythonProcess, number: int) -> dict[str, float]:
    """Let the drivers go, and measure until so many compactions have ended."""
    began, cpu = time.perf_counter(), cpu_seconds(process.pid)
    bench.drivers.let_go()
    bench.wait(lambda: bench.ended >= number, f"{number} to end")
    ended, seconds = bench.ended, time.perf_counter() - began
    return {
        "ended": ended,
        "seconds": round(seconds, 2),
        "jobs_per_minute": round(60 * ended / seconds),
        "cpu_ms_each": round(1000 * (cpu_seconds(process.pid) - cpu) / ended, 2),
    }


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measured(bench: Bench, lengths: Sequence[int], *, jobs: int) -> list[dict[str, Any]]:
    """Return all figures, one after another."""
    found: list[dict[str, Any]] = []
    for cap in (NO_CAP, CAP):
        found.append({"measure": "rate", "cap": cap if cap == CAP else None, **rate(bench, cap=cap, number=jobs)})
        print(found[-1], flush=True)
        bench.clear()
    found.append({"measure": "alone", "cap": CAP, **alone(bench)})
    print(found[-1], flush=True)
    bench.clear()
    for length in lengths:
        found.append({"measure": "cost", "cap": CAP, "waiting": length, **cost(bench, length=length)})
        print(found[-1], flush=True)
        bench.clear()
    return found


def misses(found: Sequence[dict[str, Any]]) -> list[str]:
    """Return which targets are missed."""
    rates = {one["cap"]: one["jobs_per_minute"] for one in found if one["measure"] == "rate"}
    costs = [one["cpu_ms_each"] for one in found if one["measure"] == "cost"]
    missed = []
    if rates[None] < TARGETS["jobs_per_minute"]:
        missed.append(f"{rates[None]} Jobs a minute without a limit")
    if rates[CAP] < TARGETS["jobs_per_minute_capped"]:
        missed.append(f"{rates[CAP]} Jobs a minute, {CAP} at a time")
    missed += [
        f"{one['requests_each']} requests for each compaction"
        for one in found
        if one["measure"] == "rate" and not 1 <= one["requests_each"] <= TARGETS["requests_each"]
    ]
    missed += [
        f"{one['memory_peak_mb']} MB with {one.get('waiting', 0)} that wait"
        for one in found
        if one.get("memory_peak_mb", 0) > TARGETS["memory_mb"]
    ]
    if costs[-1] > TARGETS["cpu_growth"] * costs[0]:
        missed.append(f"CPU for each grows from {costs[0]} to {costs[-1]} ms with the queue")
    return missed


@contextmanager
def _bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="bench-controller-") as name:
        folder = Path(name)
        # Without the job controller: the benchmark's drivers write the status of Jobs.
        control = ControlPlane(folder / "control", controllers=(), audited=ACCOUNT)
        try:
            control.launch()
            control.await_ready()
            warehouse = {"metastore": {"uris": ["thrift://127.0.0.1:9083"]}}
            installed = install(control, warehouse=warehouse, folder=folder, values={})
            bench = Bench(folder, control, installed)
            yield bench
            bench.mirror.stop()
        finally:
            control.stop()


def main() -> int:
    """Measure, leave the result, and print it; returns 1 when a target is missed."""
    options = _options()
    with _bench() as bench:
        found = measured(bench, options.lengths, jobs=options.jobs)
    missed = misses(found)
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    record(options.out, "rates", {"targets": TARGETS, "machine": machine, "measured": found, "missed": missed})
    print(f"bench-controller: {'; '.join(missed) or 'ok'}")
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[100, 1000, 5000], help="compactions that wait")
    parser.add_argument("--jobs", type=int, default=JOBS, help="compactions for the rates")
    parser.add_argument("--out", type=Path, default=RESULT, help="the result's file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
