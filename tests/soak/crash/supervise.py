"""Sees one run through: restarts what broke, resumes what was paused, and ends the reader in the end."""

import math
import time
from collections.abc import Iterator

from sandbox.harness.wait import WaitTimeoutError
from sandbox.plane import EndedOtherwiseError, Plane

from tests.soak.crash.happening import Happening
from tests.soak.crash.paused import PausedProcesses
from tests.soak.crash.plan import Action, Plan, Step, Wake
from tests.soak.crash.reader import Reader
from tests.soak.crash.signals import Report, Signals
from tests.soak.crash.table import Table
from tests.soak.crash.verify import Before, misread

READER_SECONDS = 5.0
"""A reader goes when a cleanup waits for it, or so long after the compaction: what broke may keep it from saying so."""

STALL_SECONDS = 3.0


class Supervision:
    """The cluster's part in a run, and the user's: `until_settled` returns when nothing is left to happen."""

    def __init__(
        self,
        plane: Plane,
        signals: Signals,
        *,
        run: str,
        compaction: str,
        plan: Plan,
        table: Table,
        before: Before,
        reader: Reader,
        happening: Happening | None,
        seconds: float,
    ) -> None:
        self.steps: list[Step] = []
        self.broken: set[int] = set()
        self._plane = plane
        self._signals = signals
        self._run = run
        self._name = compaction
        self._plan = plan
        self._table = table
        self._before = before
        self._reader = reader
        self._happening = happening
        self.happened = False
        self._seconds = seconds
        # NB: moved on by the time in which a metastore starts, which is the machine's and not the operator's.
        self._deadline = time.monotonic() + seconds
        self._reader_leaves: float | None = None
        self._paused = PausedProcesses(plane)
        self._problems: list[str] = []

    def until_settled(self) -> Iterator[str]:
        """Do all that, and yield what went wrong on the way."""
        try:
            self._plane.wait(self._settled, timeout=math.inf, what=f"tcomp/{self._name} and all that follows")
            if not self.happened:
                self._plane.wait_ended(self._name)
                self._plane.wait_cleaned(self._name)
        except (WaitTimeoutError, EndedOtherwiseError) as error:
            yield str(error)
        self._reader.release()
        yield from self._problems

    def _settled(self) -> bool:
        if time.monotonic() > self._deadline:
            what = f"waited {self._seconds:g} s for tcomp/{self._name} and all that follows"
            raise WaitTimeoutError(f"{what}{self._paused.tell()}")
        # NB: asked first: a process says so before it stops, so that of this run is among the reports.
        stopped = self._plane.controller.paused
        for report in self._signals.new_reports():
            if report.run == self._run:
                self._heed(report)
            elif report.fault is not None:
                self._signals.allow(report.run, report.fault)
        if stopped and self._plane.controller.paused:
            # The step was the last one of the run before, which had ended by then.
            self._plane.controller.resume()
        self._plane.controller.start()
        paused_ended = self._paused.step(self._is_time)
        if self._reader.waiting and self._reader_may_leave():
            self._reader_leave()
        return self._is_over() and paused_ended and not self._reader.waiting

    def _is_over(self) -> bool:
        if not self.happened or self._happening is None:
            return self._cleaned()
        now = self._plane.compaction(self._name), self._plane.cleanups(self._name)
        self._happening.step(*now)
        return self._happening.is_over(*now)

    def _heed(self, report: Report) -> None:
        """Note a step. What the process does not do to itself is done here."""
        if report.fault is None:
            if report.life == 1:
                self.steps.append(report.step)
            return
        self.broken.add(report.fault)
        fault = self._plan.faults[report.fault]
        began = time.monotonic()
        if fault.action is Action.METASTORE:
            self._plane.metastore.kill()
            self._signals.allow(self._run, report.fault)
            self._plane.restart_metastore()
        elif fault.action in (Action.STORE, Action.STALL):
            self._break_store(fault.action, report.fault)
        elif fault.action is Action.PAUSE:
            self._paused.lose(fault.step.role, fault.wake or Wake.CLEANED)
        elif self._happening is not None and fault.action in (Action.RENAME, Action.WORKER):
            self._happening.begin()
            self.happened = True
            self._signals.allow(self._run, report.fault)
        self._deadline += time.monotonic() - began

    def _break_store(self, action: Action, index: int) -> None:
        store = self._plane.store
        assert store is not None
        if action is Action.STORE:
            store.kill()
            self._signals.allow(self._run, index)
            store.start()
            return
        store.pause()
        self._signals.allow(self._run, index)
        time.sleep(STALL_SECONDS)
        store.resume()

    def _is_time(self, wake: Wake) -> bool:
        if wake is Wake.RUNNING and self._plane.drivers.current():
            return True
        return self._cleaned() if wake is Wake.CLEANED else self._plane.compaction(self._name).ended

    def _cleaned(self) -> bool:
        ended = self._plane.compaction(self._name).ended
        return ended and all(cleanup.ended for cleanup in self._plane.cleanups(self._name))

    def _reader_may_leave(self) -> bool:
        if not self._plane.compaction(self._name).ended:
            return False
        if self._reader_leaves is None:
            self._reader_leaves = time.monotonic() + READER_SECONDS
        waiting = any(cleanup.status.blocker_count for cleanup in self._plane.cleanups(self._name))
        return waiting or time.monotonic() > self._reader_leaves

    def _reader_leave(self) -> None:
        """Let the reader read once more what it saw at first, then go."""
        if self._reader.snapshot:
            wrong = misread(self._table, self._reader.snapshot, self._before.rows)
            self._problems += [f"the reader from before sees, in {place}: {seen}" for place, seen in wrong.items()]
        self._reader.release()
