"""The engines: each compacts a table's directory into directories of an output folder, in child processes."""

import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from sandbox.harness.places import location_of
from sandbox.harness.wait import wait_until
from sandbox.metastore.admin import FULL_ACID, MetastoreAdmin
from sandbox.metastore.server import WORKER, MetastoreServer
from tests.integration.oracle.hive import HiveOracle

from bench.engine.jobs import Job, writer_settings
from bench.engine.processes import Child, cpu_of
from bench.engine.serve import peak_rss_mb
from compaction_operator.acid.names import parse_directory
from compaction_operator.metastore.compaction_queue import QueueState

HIVE_TUNING = ("-Xmx4g", "-Xms1g")
"""A heap that is never short, and a compiler that may take its time: what is best for Hive's loop."""
WORKER_TUNING = (*HIVE_TUNING, "-XX:TieredStopAtLevel=4")
WORKER_SECONDS = 1800.0
WORKER_POLL = 0.5
"""Seconds between questions, which cost the measured process a little too."""
DATABASE = "bench"
COPY = 'cp -r "$1/." "$2" && find "$2" -type f -exec sync {} +'


class Measured(NamedTuple):
    """What one compaction took."""

    cpu_s: float
    wall_s: float
    peak_rss_mb: float


@dataclass(frozen=True)
class Work:
    """A job, a table that is made for one compaction of it, and the empty folder for what comes out."""

    job: Job
    table: Path
    output: Path


class Engine(ABC):
    """One engine for all runs of one job. `name` is that of the results; `is_warm` says whether it has a warm-up."""

    name: str
    is_warm = True

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @abstractmethod
    def run(self, work: Work) -> Measured:
        """Compact the table once."""


class Copy(Engine):
    """`cp` of all that is read, made durable as a compaction is."""

    name = "cp"
    is_warm = False

    def __init__(self) -> None:
        super().__init__()
        self._launcher = self._stack.enter_context(Child("bench.engine.launcher"))

    def run(self, work: Work) -> Measured:
        """Copy all directories."""
        return Measured(**self._launcher.ask(command=["sh", "-c", COPY, "sh", work.table, work.output]))


class Ours(Engine):
    """The engine in a warm process."""

    name = "ours"

    def __init__(self) -> None:
        super().__init__()
        self._child = self._stack.enter_context(Child("bench.engine.warm"))
        self.idle = Measured(**self._child.ask())

    def run(self, work: Work) -> Measured:
        """Compact in place, and move what came out."""
        job = work.job
        with _moved(work):
            answer = self._child.ask(table=work.table, type=job.type, write_ids=job.write_ids, row_type=job.row_type)
        return Measured(**answer)


class CommandLine(Engine):
    """The offline command as a process."""

    name = "ours-cli"
    is_warm = False

    def __init__(self) -> None:
        super().__init__()
        self._launcher = self._stack.enter_context(Child("bench.engine.launcher"))

    def run(self, work: Work) -> Measured:
        """Compact in place, and move what came out."""
        job = work.job
        command = [Path(sys.executable).with_name("compaction-operator"), "compact", "--location", work.table]
        options = ["--type", job.type.lower(), "--write-ids", job.write_ids, "--schema", job.row_type]
        with _moved(work):
            answer = self._launcher.ask(command=[*command, *options])
        return Measured(**answer)


class HiveLoop(Engine):
    """The loop of Hive 3.1.3's compactor that reads, merges and writes, in a warm JVM; nothing is published."""

    name = "hive-loop"

    def __init__(self) -> None:
        super().__init__()
        self.hive = self._stack.enter_context(HiveOracle(3, tuning=HIVE_TUNING))
        self._pid = self.hive.pid

    def run(self, work: Work) -> Measured:
        """Merge the one bucket."""
        job = work.job
        base, deltas = _base_and_deltas(work.table)
        began, cpu = time.perf_counter(), cpu_of(self._pid)
        self.hive.compact(
            deltas,
            work.output,
            major=job.is_major,
            bucket=0,
            row_type=job.row_type,
            min_write_id=1,
            max_write_id=job.highest,
            base=base,
            settings=writer_settings(job.compress),
        )
        return Measured(cpu_of(self._pid) - cpu, time.perf_counter() - began, peak_rss_mb(self._pid))

    def rows(self, job: Job, directory: Path) -> tuple[int, str]:
        """Return number and checksum of the rows that Hive's reader sees in a directory's base and deltas."""
        base, deltas = _base_and_deltas(directory)
        return self.hive.checksum(deltas, major=job.is_major, row_type=job.row_type, base=base)


class HiveWorker(Engine):
    """Hive 3.1.3's own Worker in the process of a real metastore, with Hadoop's local job runner.

    The wall time includes up to 5 s until the Worker looks into its queue.
    """

    name = "hive-worker"

    def __init__(self) -> None:
        super().__init__()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-worker-")))
        server = MetastoreServer(folder, overrides=WORKER, tuning=WORKER_TUNING)
        self._stack.enter_context(server)
        self._pid = server.pid
        self._admin = self._stack.enter_context(MetastoreAdmin(server.settings()))
        self._admin.create_database(DATABASE, location=location_of(server.warehouse / DATABASE))

    def run(self, work: Work) -> Measured:
        """Ask for the compaction, and wait until it is done."""
        name = work.table.parent.name.replace("-", "_").lower()
        parameters = {**FULL_ACID, **writer_settings(work.job.compress)}
        location = location_of(work.table)
        self._admin.create_table(DATABASE, name, location=location, columns=work.job.columns, parameters=parameters)
        self._admin.start_write_ids(DATABASE, name, highest=work.job.highest)
        with _moved(work):
            began, cpu = time.perf_counter(), cpu_of(self._pid)
            self._admin.compact(DATABASE, name, type_=work.job.type)
            wait_until(lambda: self._is_done(name), timeout=WORKER_SECONDS, what="Hive's Worker", poll=WORKER_POLL)
            return Measured(cpu_of(self._pid) - cpu, time.perf_counter() - began, peak_rss_mb(self._pid))

    def _is_done(self, name: str) -> bool:
        (entry,) = self._admin.compactions(DATABASE, name)
        if entry.state in (QueueState.FAILED, QueueState.SUCCEEDED):
            raise RuntimeError(f"Hive's Worker did not compact: {entry}, {entry.error}")
        return entry.state is QueueState.READY_FOR_CLEANING


class SparkPlan(Engine):
    """A plan of Spark DataFrames in a warm session."""

    name = "spark-plan"

    def __init__(self) -> None:
        super().__init__()
        self._child = self._stack.enter_context(Child("bench.engine.spark_plan"))

    def run(self, work: Work) -> Measured:
        """Compact the one bucket."""
        job = work.job
        asked = {"major": job.is_major, "highest": job.highest, "compress": job.compress}
        return Measured(**self._child.ask(table=work.table, output=work.output, **asked))


ENGINES: tuple[type[Engine], ...] = (Copy, Ours, CommandLine, HiveLoop, HiveWorker, SparkPlan)


def _directories(table: Path) -> set[Path]:
    return {path for path in table.iterdir() if path.is_dir()}


@contextmanager
def _moved(work: Work) -> Iterator[None]:
    """Move to the output folder what the context adds to the table."""
    before = _directories(work.table)
    yield
    for path in _directories(work.table) - before:
        path.rename(work.output / path.name)


def _base_and_deltas(folder: Path) -> tuple[Path | None, list[Path]]:
    """Return the directories as Hive's merge wants them, deltas in the order of their write ids."""
    found = {path: parse_directory(path.name) for path in _directories(folder)}
    bases = {name.max_write_id: path for path, name in found.items() if name is not None and name.is_base}
    deltas = [path for path, name in found.items() if name is not None and not name.is_base]
    # The engine's first base has an empty one beside it, for older snapshots.
    base = bases[max(bases)] if bases else None
    return base, sorted(deltas, key=lambda path: path.name.removeprefix("delete_"))
