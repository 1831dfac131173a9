"""What the controllers are in these tests: the product, whose every change is noted, and one that stops itself."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sandbox.plane import pod
from sandbox.plane.processes import Launch

from tests.soak.crash.entry import observe

STOP = "stop"
"""A file with the beginning of a step's label: the first controller that has done such a step stops (SIGSTOP)."""
STEPS = "steps"
WAREHOUSE = "warehouse"


class Step(NamedTuple):
    """A change of files, of the metastore or of the API server; `after` once it was done."""

    process: int
    label: str
    after: bool


class Recorder:
    """Notes the steps of this process in a file that all controllers share."""

    def __init__(self, folder: Path, warehouse: str) -> None:
        self._warehouse = warehouse
        self._folder = folder
        self._lock = threading.Lock()

    @property
    def warehouse(self) -> str:
        """The folder whose files count."""
        return self._warehouse

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """Do one operation within."""
        finish = self.begin(label)
        yield
        finish()

    def begin(self, label: str) -> Callable[[], None]:
        """Note an operation that is about to be done; return what is to be called once it is done."""
        self._note(label, after=False)
        return lambda: self._done(label)

    def _done(self, label: str) -> None:
        self._note(label, after=True)
        stop = self._folder / STOP
        with self._lock:
            stops = stop.exists() and label.startswith(stop.read_text())
            if stops:
                stop.rename(self._folder / "stopped")
        if stops:
            # NB: to this thread, which so goes no further. One to the process may be delivered a moment later.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    def _note(self, label: str, *, after: bool) -> None:
        with (self._folder / STEPS).open("a") as file:
            file.write(f"{os.getpid()}\t{label}\t{after:d}\n")


def steps(folder: Path, process: int) -> list[Step]:
    """Return the steps of a process, without the renewals of the lease."""
    lines = (line.split("\t") for line in (folder / STEPS).read_text().splitlines())
    found = (Step(int(pid), label, after == "1") for pid, label, after in lines)
    return [step for step in found if step.process == process and not step.label.endswith(" leases")]


def run(launch: Launch) -> None:
    """Be the command line. A controller is under observation once its folder names the warehouse."""
    named = launch.log.parent / WAREHOUSE
    if "run" in launch.arguments and named.exists():
        observe(Recorder(launch.log.parent, named.read_text()))
    pod.run(launch)
