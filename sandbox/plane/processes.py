"""Processes of the plane: programs, and Python processes that begin with their imports done; they end with this one."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import connection, get_context
from pathlib import Path

from sandbox.harness.wait import wait_until

END_SECONDS = 10.0
PRELOADED = (
    "compaction_operator.driver.main",
    "compaction_operator.controller.app",
    "compaction_operator.cli",
    "compaction_operator.storage.s3",
    "compaction_operator.storage.hdfs",
)
"""What most of the processes import; the last two only once they use such a store."""
_PR_SET_PDEATHSIG = 1

_context = get_context("forkserver")
_context.set_forkserver_preload(list(PRELOADED))
_starting = threading.Lock()
"""NB: the exit code of a process can be read once, and starting another reads those of all that have ended."""


class Program:
    """A program that runs until `stop`. NB: it also ends with the thread that started it."""

    def __init__(self, command: Sequence[str], *, log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Kill it, without a word, and wait for its end."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Make it hang (SIGSTOP)."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        """End a pause."""
        self._process.send_signal(signal.SIGCONT)


@dataclass(frozen=True)
class Launch:
    """What a container would have been started with, and where on this machine it finds what a kubelet mounts."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    secrets: Path
    """Folder of `token` and `ca.crt` of its service account."""
    termination_message: Path
    port: int
    """Free for its HTTP endpoint."""


Entry = Callable[[Launch], None]
"""A function of a module (it is found by its name in the new process) that becomes the process."""


class PythonProcess:
    """A process that `entry` becomes, the leader of a process group that is killed and paused as one."""

    def __init__(self, entry: Entry, launch: Launch) -> None:
        self.launch = launch
        self._process = _context.Process(target=_become, args=(entry, launch))
        with _starting:
            self._process.start()
        pid = self._process.pid
        assert pid
        self.pid: int = pid
        self._code: int | None = None

    @property
    def running(self) -> bool:
        """Whether it has not ended; a paused one has not."""
        return self._code is None and not self._ended(0)

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return None if self.running else self._code

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end; return whether it came in time."""
        return self._code is not None or self._ended(timeout)

    def kill(self) -> None:
        """Kill the group at once (SIGKILL) and wait for the end."""
        self._signal(signal.SIGKILL)
        self.wait(END_SECONDS)

    def terminate(self) -> None:
        """Ask it to end (SIGTERM), as a kubelet does."""
        if self.running:
            os.kill(self.pid, signal.SIGTERM)

    def pause(self) -> None:
        """Stop the group (SIGSTOP) and return when it does nothing any more."""
        self._signal(signal.SIGSTOP)
        wait_until(lambda: self.paused or not self.running, timeout=END_SECONDS, what=f"process {self.pid} to stop")

    def resume(self) -> None:
        """Let a paused group go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    @property
    def paused(self) -> bool:
        """Whether it is stopped."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].startswith("T")
        except FileNotFoundError:
            return False

    def _signal(self, number: signal.Signals) -> None:
        """Signal the group; a process that has only just begun is not its leader yet."""
        if not self.running:
            return
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            os.kill(self.pid, number)

    def _ended(self, timeout: float | None) -> bool:
        if not connection.wait([self._process.sentinel], timeout):
            return False
        with _starting:
            self._code = self._process.exitcode
        return True


def _become(entry: Entry, launch: Launch) -> None:
    """Leave the starter's session, end with it, write into the log, then be the entry."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    with launch.log.open("ab") as output:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(output.fileno(), stream.fileno())
    os.environ.clear()
    os.environ.update(launch.environment)
    sys.argv = list(launch.arguments)
    entry(launch)


def inherited(names: Sequence[str] = ("PATH", "PYTHONPATH", "HOME", "LANG", "JAVA_HOME", "TZ")) -> dict[str, str]:
    """Return what a process needs of this one's environment; a container has its own of these."""
    return {name: os.environ[name] for name in names if name in os.environ}
