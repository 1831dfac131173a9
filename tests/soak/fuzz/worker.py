"""A process of its own, with little memory, in which cases are examined: what it dies of is a finding."""

import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.soak.fuzz.examine import End, Verdict

MEMORY = 1 << 30
"""How many bytes a case may take beyond what the process has before the first one."""

CPU_SECONDS = 10.0
WALL_SECONDS = 120.0
"""After that long a case hangs; a busy machine may take long for what needs little."""

_READY = "ready"
Examine = Callable[[Any, Path], Verdict]


class Worker:
    """Examines one case after the other; a context manager. After a crash or a hang it goes on in a new process."""

    def __init__(
        self, folder: Path, examine: Examine, *, wall_seconds: float = WALL_SECONDS, cpu_seconds: float = CPU_SECONDS
    ) -> None:
        self._folder = folder
        self._examine = examine
        self._wall_seconds = wall_seconds
        self._cpu_seconds = cpu_seconds
        self._context = multiprocessing.get_context("spawn")

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _start(self) -> None:
        # another memory pool of Arrow takes a lot of addresses in advance
        os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
        self._connection, child = self._context.Pipe()
        self._process = self._context.Process(
            target=_serve, args=(child, self._folder, self._examine, self._cpu_seconds), daemon=True
        )
        self._process.start()
        child.close()
        assert self._connection.recv() == _READY

    def _end(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()

    def examine(self, case: Any) -> Verdict:
        """Return how a case ends."""
        self._connection.send(case)
        try:
            if self._connection.poll(self._wall_seconds):
                verdict: Verdict = self._connection.recv()
                return verdict
            found = f"{case}\nhangs"
        except EOFError:
            self._process.join()
            found = f"{case}\nthe process ends with {self._process.exitcode}"
        self._end()
        self._start()
        return Verdict(End.FINDING, found)


def _serve(connection: Connection, folder: Path, examine: Examine, cpu_seconds: float) -> None:
    _limit_memory()
    connection.send(_READY)
    while True:
        try:
            case = connection.recv()
        except EOFError:
            return
        start = time.process_time()
        verdict = examine(case, folder)
        if time.process_time() - start > cpu_seconds:
            verdict = Verdict(End.FINDING, f"{case}\ntakes more than {cpu_seconds} s: {verdict}")
        connection.send(verdict)


def _limit_memory() -> None:
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
