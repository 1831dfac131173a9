"""How the runner and the processes that are to break speak to each other: files in one folder."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from compaction_operator.api.model import Model
from tests.soak.crash.plan import Fault, Role, Step

FOLDER_VARIABLE = "CRASH_FOLDER"
BIRTH_VARIABLE = "CRASH_BIRTH"
"""Environment variable: the how-manieth process of its role this one is since the plane was started."""


class Orders(Model):
    """What is to break in a run. `born` is how many processes of each role there had been when it began."""

    run: str
    warehouse: str
    faults: tuple[Fault, ...] = ()
    born: Mapping[Role, int]


class Report(Model):
    """A line that a process writes: a step is about to be done, or (with `fault`, its index) something breaks now."""

    run: str
    life: int
    step: Step
    fault: int | None = None


class Signals:
    """The folder. Processes read the orders and write reports; the runner does the opposite."""

    def __init__(self, folder: Path) -> None:
        self._orders = folder / "orders.json"
        self._reports = folder / "reports.jsonl"
        self._folder = folder
        self._read = 0

    def give(self, orders: Orders) -> None:
        """Replace the orders of all processes, those that run too."""
        new = self._orders.with_suffix(".new")
        new.write_text(orders.model_dump_json())
        new.rename(self._orders)

    def stamp(self) -> tuple[int, int]:
        """Return what changes with the orders."""
        status = self._orders.stat()
        return status.st_ino, status.st_mtime_ns

    def orders(self) -> Orders:
        """Return the orders."""
        return Orders.model_validate_json(self._orders.read_text())

    def report(self, report: Report) -> None:
        """Write a line; whole lines of several processes never mix."""
        line = (report.model_dump_json() + "\n").encode()
        file = os.open(self._reports, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, line)
        finally:
            os.close(file)

    def new_reports(self) -> Iterator[Report]:
        """Yield what was written since the last call."""
        if not self._reports.exists():
            return
        with self._reports.open() as file:
            file.seek(self._read)
            while (line := file.readline()).endswith("\n"):
                self._read = file.tell()
                found: Any = json.loads(line)
                yield Report.model_validate(found)

    def allow(self, run: str, fault: int) -> None:
        """Let the process that waits at a fault go on."""
        self._permit(run, fault).touch()

    def allowed(self, run: str, fault: int) -> bool:
        """Whether the process that waits at a fault may go on."""
        return self._permit(run, fault).exists()

    def _permit(self, run: str, fault: int) -> Path:
        return self._folder / f"go-{run}-{fault}"
