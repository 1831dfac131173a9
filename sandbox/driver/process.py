"""Runs a driver's process and measures it, with all processes that it starts: CPU time, memory, programs."""

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compaction_operator.api.progress import ANNOTATION_PROGRESS, Progress
from compaction_operator.api.request import REQUEST_VARIABLE, DriverResult, JobRequest
from sandbox.driver.api_server import ApiServer
from sandbox.driver.entry import MESSAGE_VARIABLE, SECRETS_VARIABLE, SPARK_VARIABLE

POLL_SECONDS = 0.1
_PR_SET_CHILD_SUBREAPER = 36
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Ran:
    """How a driver ended, and what it took: CPU and wall seconds, and bytes of memory at the peak.

    `programs` has the names of the processes that were seen, its own included. `progress` is its last report.
    """

    result: DriverResult
    log: str
    cpu_seconds: float
    wall_seconds: float
    peak_rss: int
    programs: frozenset[str]
    progress: Progress | None


def run_driver(request: JobRequest, api: ApiServer, folder: Path, *, spark: bool = False) -> Ran:
    """Run a driver to its end, and wait for the processes that it leaves; its log and last words lie in `folder`."""
    folder.mkdir(parents=True)
    message = folder / "termination-log"
    message.touch()
    api.seen.clear()
    own = {
        REQUEST_VARIABLE: request.model_dump_json(by_alias=True),
        "POD_NAME": "driver", "POD_UID": "0123abcd", "POD_IP": "127.0.0.1",
        "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api.port),
        SECRETS_VARIABLE: str(api.folder), MESSAGE_VARIABLE: str(message), SPARK_VARIABLE: "yes" if spark else "no",
        # As the image does, it names the Python of Spark's tasks.
        "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    measured = measure([sys.executable, "-m", "sandbox.driver.entry"], own, folder / "log")
    return Ran(
        result=DriverResult.model_validate_json(message.read_text()),
        log=(folder / "log").read_text(),
        cpu_seconds=measured.cpu_seconds,
        wall_seconds=measured.wall_seconds,
        peak_rss=measured.peak_rss,
        programs=measured.programs,
        progress=_progress(api),
    )


@dataclass
class Measured:
    """What a command and all that it started have taken so far."""

    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    peak_rss: int = 0
    programs: frozenset[str] = frozenset()


def measure(command: list[str], environment: Mapping[str, str], log: Path) -> Measured:
    """Run a command until it and all processes of its session have ended.

    NB: Spark's JVM outlives its driver. It becomes a child of this process, which alone learns its CPU time.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found, begun = Measured(), time.monotonic()
    with _adopting(), log.open("wb") as output:
        process = subprocess.Popen(
            command, env=inherited | dict(environment), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        while alive := _session(process.pid):
            found.peak_rss = max(found.peak_rss, sum(size for _, size in alive.values()))
            found.programs |= {name for name, _ in alive.values()}
            if process.pid in alive:
                found.wall_seconds = time.monotonic() - begun
            for pid in alive:
                _reap(pid, found)
            time.sleep(POLL_SECONDS)
    process.returncode = 0  # NB: it is reaped above
    return found


@contextmanager
def _adopting() -> Iterator[None]:
    """Let this process be the parent of its orphaned descendants."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)


def _session(leader: int) -> dict[int, tuple[str, int]]:
    """Return name and resident bytes of each process of a session, by its id."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        name, fields = text.partition("(")[2].rpartition(")")[0], text.rpartition(") ")[2].split()
        if int(fields[3]) == leader:
            found[int(path.parent.name)] = name, int(fields[21]) * _PAGE
    return found


def _reap(pid: int, found: Measured) -> None:
    """Add up what a process took, if it is a child of this one and has ended."""
    try:
        ended, _, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return
    if ended:
        found.cpu_seconds += usage.ru_utime + usage.ru_stime
        found.peak_rss = max(found.peak_rss, usage.ru_maxrss * 1024)


def _progress(api: ApiServer) -> Progress | None:
    """Return the newest progress that the driver reported on its pod."""
    for body in reversed(api.seen):
        if said := body["metadata"].get("annotations", {}).get(ANNOTATION_PROGRESS):
            return Progress.model_validate_json(said)
    return None
