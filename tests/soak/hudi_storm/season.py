"""One storm from its first process to its figures: locks, a plane, a live writer, compactions, the calm after it."""

import json
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from sandbox.harness.wait import wait_until
from sandbox.hudi.session import FEW_DEFAULTS, SETTINGS, bundles
from sandbox.hudi.zookeeper import LOCK_KEY, ZooKeeper
from sandbox.plane import Plane
from sandbox.plane.install import LOOPBACK
from sandbox.plane.processes import Program

from tests.soak.hudi_storm import entry
from tests.soak.hudi_storm.compactor import REMOVED, Compactor, Work
from tests.soak.hudi_storm.killer import Killer, Moment
from tests.soak.hudi_storm.table import KINDS, Kind
from tests.soak.hudi_storm.timeline import pending_services
from tests.soak.hudi_storm.writer import CALM, FIGURES, OPTIONS, OVER

log = logging.getLogger(__name__)

SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
PATIENCE = {
    # A dead process is taken for dead after 24 seconds, not 2 minutes; NB: too little would fail a writer that is slow.
    "hoodie.client.heartbeat.interval_in_ms": "8000",
    "hoodie.client.heartbeat.tolerable.misses": "3",
    "hoodie.write.lock.client.num_retries": "50",
}
"""Options of Hudi's that writer and drivers share, beside those of the locks."""
FAST = {
    key: value
    for key, value in SETTINGS.items()
    if ".sql.codegen." in key or key.endswith((".parallelism", ".partitions", ".extraJavaOptions"))
} | FEW_DEFAULTS
"""Settings of the drivers' Spark. NB: writer and drivers need one time zone."""
FIRST_WRITES_SECONDS = 400.0
LAST_READS_SECONDS = 300.0


class StormError(AssertionError):
    """What must not be: a writer that failed, rows that are wrong, too little that happened, something left behind."""


@dataclass(frozen=True)
class Figures:
    """What a storm came to."""

    version: str
    seconds: float
    writer: Counter[str]
    compactions: Counter[str]
    kills: Counter[str]

    def __str__(self) -> str:
        kills = ", ".join(f"{number} {moment}" for moment, number in sorted(self.kills.items()))
        writer, done = self.writer, self.compactions
        return (
            f"Hudi {self.version}: {self.seconds / 60:.0f} minutes, "
            f"{writer['writes']} writes ({writer['tried again']} tried again), "
            f"{writer['came back']} deleted keys written again, "
            f"{writer['reads by Spark']} reads by Spark and {writer['reads by the native reader']} without a JVM, "
            f"{self.kills.total()} drivers killed ({kills}), "
            + ", ".join(f"{done[work]} {work}" for work in (*Work, REMOVED))
        )


class LiveWriter:
    """The writer's process, in a folder of its own. NB: it ends with the thread that starts it."""

    def __init__(self, folder: Path, *, version: str, seed: int, options: dict[str, dict[str, str]]) -> None:
        folder.mkdir()
        (folder / OPTIONS).write_text(json.dumps(options))
        self._folder = folder
        command = [sys.executable, "-m", "tests.soak.hudi_storm.writer", str(folder), version, str(seed)]
        self._program = Program(command, log=folder / "log")

    def figures(self) -> dict[str, Any]:
        """Return what it has done so far; raises StormError when it has failed."""
        path = self._folder / FIGURES
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        if found.get("error") or not (self._program.running or found.get("ended")):
            raise StormError(f"the writer has failed: {found.get('error') or 'see its log'}")
        return found

    def wait_written(self, writes: int, *, timeout: float) -> None:
        """Wait until there are that many writes."""
        wait_until(lambda: self.figures().get("writes", 0) >= writes, timeout=timeout, what=f"{writes} writes")

    def be_calm(self) -> None:
        """Let it write no more."""
        (self._folder / CALM).touch()

    def end(self) -> Counter[str]:
        """Let it read everything once more and end; return its figures. Raises StormError."""
        (self._folder / OVER).touch()
        wait_until(lambda: self.figures().get("ended"), timeout=LAST_READS_SECONDS, what="the writer's last reads")
        return Counter({name: number for name, number in self.figures().items() if type(number) is int})

    def stop(self) -> None:
        """Kill it."""
        self._program.stop()


@dataclass(frozen=True)
class Stage:
    """Where a storm takes place: tables that one release of Hudi writes all the time, and the operator."""

    plane: Plane
    writer: LiveWriter
    locations: Sequence[Path]


@contextmanager
def staged(folder: Path, kinds: Mapping[str, Sequence[Kind]], *, seed: int) -> Iterator[list[Stage]]:
    """Start locks, a writer of each release, and a plane, with tables of the release's kinds; all lies in `folder`."""
    tables = folder / "tables"
    tables.mkdir(parents=True)
    with ZooKeeper(folder / "zookeeper") as locks, ExitStack() as writers:
        shared = {**SHARED, **PATIENCE, **locks.lock_options()}
        started = list[tuple[LiveWriter, Sequence[Path]]]()
        for version, own in kinds.items():
            locations = [tables / kind.name for kind in own]
            options = {str(location): {**shared, LOCK_KEY: location.name} for location in locations}
            writer = LiveWriter(folder / f"writer-{version}", version=version, seed=seed, options=options)
            writers.callback(writer.stop)
            started.append((writer, locations))
        plane = Plane(
            folder / "plane",
            values={"profiles": [{"name": "default", "sparkConf": {**LOOPBACK, **FAST}}]},
            warehouse={"hudi": {"options": {**PATIENCE, **locks.lock_options()}, "locations": [str(tables)]}},
            environment=lambda _arguments: {"HUDI_BUNDLES": str(bundles())},
            entry=entry.run,
        )
        with plane:
            stages = [Stage(plane, *one) for one in started]
            for stage in stages:
                stage.writer.wait_written(len(stage.locations), timeout=FIRST_WRITES_SECONDS)
            yield stages


def run(folder: Path, *, version: str, seed: int, kills: int, minutes: float) -> Figures:
    """Storm until that many drivers were killed and everything has happened, then see that all is well.

    Raises the first error; StormError when it did not come to that in that time.
    """
    start = time.monotonic()
    with staged(folder, {version: KINDS[version]}, seed=seed) as (stage,):
        killer = Killer(stage.plane, stage.locations, Random(f"{seed}/killer"))
        compactor = Compactor(stage.plane, stage.locations, Random(f"{seed}/compactor"))
        with acting(killer) as killing:
            while lacking := what_lacks(
                kills, killed=killer.kills, done=compactor.tally, unmerged=compactor.unmerged()
            ):
                if time.monotonic() - start > minutes * 60:
                    raise StormError(f"in {minutes:g} minutes there were not enough of these: {', '.join(lacking)}")
                compactor.step()
                stage.writer.figures()
                if killing.done():
                    killing.result()
        writes = settle(stage, compactor)
    return Figures(version, time.monotonic() - start, writes, compactor.tally, killer.kills)


def what_lacks(kills: int, *, killed: Counter[str], done: Counter[str], unmerged: Sequence[Path] = ()) -> list[str]:
    """Return what a storm is still short of: so many kills, one at each moment, each kind of work, all tables."""
    few = [f"drivers killed ({killed.total()} of {kills})"] if killed.total() < kills else []
    never = [f"drivers killed {moment}" for moment in Moment if not killed[moment]]
    tables = [f"{Work.LOG_COMPACTION} of {location.name}" for location in unmerged]
    return few + never + [str(work) for work in Work if not done[work]] + tables


def settle(stage: Stage, compactor: Compactor) -> Counter[str]:
    """End the storm: compact and clean all tables, require that nothing is pending, let the writer read all again."""
    stage.writer.be_calm()
    for location in stage.locations:
        if pending_services(location):
            compactor.log(location)
        compactor.full(location)
        if left := pending_services(location):
            raise StormError(f"{location.name}: left on the timeline after the last compaction: {sorted(left)}")
    return stage.writer.end()


@contextmanager
def acting(killer: Killer) -> Iterator[Future[None]]:
    """Let it kill meanwhile; yields what tells of its errors, and raises them at the end."""
    calm = threading.Event()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="killer") as pool:
        killing = pool.submit(killer.run, calm)
        try:
            yield killing
        finally:
            calm.set()
    killing.result()
