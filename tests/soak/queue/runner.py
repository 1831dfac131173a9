"""A plane whose warehouse has a pool of the queue, and processes that are killed at steps of their work."""

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from sandbox.harness.wait import WaitTimeoutError, wait_until
from sandbox.plane import Plane
from sandbox.plane.install import NAMESPACE

from compaction_operator.api.request import queue_worker
from compaction_operator.metastore import LockInfo, QueueEntry
from tests.soak.crash import entry
from tests.soak.crash.plan import Action, Fault, Role
from tests.soak.crash.signals import BIRTH_VARIABLE, FOLDER_VARIABLE, Orders, Signals
from tests.soak.queue.fleet import POOL, Enqueued, History, enqueue

WAREHOUSE = "main"
TEMPLATE = {"spark": {"driver": {"memory": "512m"}}, "retry": {"backoff": "500ms", "maxAttempts": 20}}
SLOTS = 3
LEFT_SECONDS = 30.0
"""NB: far below hive.txn.timeout (300 s), which would hide a lock that nothing ends."""


class QueueRunner:
    """Everything of one run; `overrides` are those of the metastore."""

    def __init__(self, folder: Path, *, overrides: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._births = dict.fromkeys(Role, 0)
        self._born = threading.Lock()
        self._runs = itertools.count(1)
        self._signals = Signals(folder)
        self._give("", ())
        self.plane = Plane(
            folder / "plane",
            hive="4.0.1",
            # NB: on Derby, calls that lock wait for each other's rows (see tests/soak/crash).
            database="postgres",
            spark=False,
            entry=entry.run,
            environment=self._environment,
            values={"cleanup": {"interval": "500ms"}, "maxConcurrentJobs": SLOTS},
            warehouse={"queue": {"pool": POOL, "namespace": NAMESPACE, "interval": "500ms", "template": TEMPLATE}},
            overrides=overrides,
        )

    def __enter__(self) -> Self:
        self.plane.__enter__()
        self.admin = self.plane.admin(user="hive")
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.plane.stop()

    def run(self, number: int, faults: Sequence[Fault] = (), *, seconds: float) -> tuple[list[str], set[int]]:
        """Enqueue so many entries and wait until each has ended; return the problems, and the faults that happened."""
        run = f"q{next(self._runs)}x"
        self._give(run, faults)
        enqueued = enqueue(self.admin, self.plane.metastore, number, prefix=run)
        history, broken = History(queue_worker(WAREHOUSE)), set[int]()

        def ended() -> bool:
            broken.update(self._break(run, faults))
            self.plane.controller.start()
            return history.look(self._lines(enqueued))

        try:
            wait_until(ended, timeout=seconds, what=f"the end of {number} entries", poll=0.1)
        except WaitTimeoutError as error:
            return [str(error), *self._problems(enqueued)], broken
        self._give("", ())
        return [*history.problems(), *self._problems(enqueued)], broken

    def _break(self, run: str, faults: Sequence[Fault]) -> Iterator[int]:
        """Yield the faults that have happened by now. What the process does not do to itself is done here."""
        for report in self._signals.new_reports():
            if report.run == run and report.fault is not None:
                yield report.fault
                if faults[report.fault].action is Action.METASTORE:
                    self.plane.metastore.kill()
                    self._signals.allow(run, report.fault)
                    self.plane.restart_metastore()

    def _lines(self, enqueued: Sequence[Enqueued]) -> list[QueueEntry]:
        ids = {one.queue_id for one in enqueued}
        return [line for line in self.admin.pool_compactions(POOL) if line.queue_id in ids]

    def _problems(self, enqueued: Sequence[Enqueued]) -> Iterator[str]:
        lines = self._lines(enqueued)
        for one in enqueued:
            yield from one.problems([line for line in lines if line.queue_id == one.queue_id])
            every = self.admin.compactions(one.table.database, one.table.name)
            if len(every) != 1:
                yield f"{one.queue_id}: other entries of the table: {every}"
        try:
            # NB: an entry ends shortly before what belongs to it: a driver marks it as refused, then it commits.
            wait_until(lambda: not any(self._held()), timeout=LEFT_SECONDS, what="the end of locks and transactions")
        except WaitTimeoutError:
            locks, txns = self._held()
            yield f"left: locks {locks}, transactions {txns}"

    def _held(self) -> tuple[Sequence[LockInfo], Sequence[int]]:
        """Return what the metastore shows as held or open."""
        return self.admin.all_locks(), [txn.txn for txn in self.admin.open_transactions().open]

    def _give(self, run: str, faults: Sequence[Fault]) -> None:
        warehouse = str(self.plane.metastore.warehouse) if hasattr(self, "plane") else ""
        with self._born:
            born = {**self._births, Role.CONTROLLER: self._births[Role.CONTROLLER] - 1}
            self._signals.give(Orders(run=run, warehouse=warehouse, faults=tuple(faults), born=born))

    def _environment(self, arguments: Sequence[str]) -> Mapping[str, str]:
        role = Role.DRIVER if "job" in arguments else Role.CONTROLLER
        with self._born:
            self._births[role] += 1
            birth = self._births[role]
        return {FOLDER_VARIABLE: str(self._folder), BIRTH_VARIABLE: str(birth)}
