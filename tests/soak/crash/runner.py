"""Runs plans on one plane, one after another: breaks what the plan says, restarts it as a cluster would, compares."""

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from sandbox.harness.places import StorageKind
from sandbox.metastore.server import WORKER, Hive
from sandbox.plane import Plane
from sandbox.plane.pod import SPARK_VARIABLE

from tests.integration.oracle.hive import HiveOracle
from tests.soak.crash import entry
from tests.soak.crash.happening import Happening
from tests.soak.crash.hive_worker import HiveWorker
from tests.soak.crash.plan import Action, Plan, Role, Step
from tests.soak.crash.reader import Reader
from tests.soak.crash.receipts import unrecorded
from tests.soak.crash.renaming import Renaming
from tests.soak.crash.scenarios import SCENARIOS
from tests.soak.crash.signals import BIRTH_VARIABLE, FOLDER_VARIABLE, Orders, Signals
from tests.soak.crash.supervise import Supervision
from tests.soak.crash.table import Table
from tests.soak.crash.verify import Before, Ideal, differences, normal

CLEANUP_INTERVAL = "300ms"
BACKOFF = "500ms"
MAX_ATTEMPTS = 10
RUN_SECONDS = 180.0
"""What a run may take after the compaction was applied: several times what it takes on a busy machine."""

_MORE_ATTEMPTS = {
    Action.KILL: 1,
    Action.TERMINATE: 1,
    Action.PAUSE: 3,
    Action.METASTORE: 5,
    Action.STORE: 3,
    Action.STALL: 3,
    Action.RENAME: 1,
    Action.WORKER: 2,
}
"""How many attempts a fault may cost: several find that the metastore only starts, or that a late driver is at work."""


HAPPENINGS: Mapping[Action, Callable[[Table, Before], Happening]] = {
    Action.RENAME: Renaming,
    Action.WORKER: HiveWorker,
}


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `problems` is empty when it passed; `broken` are the indices of the faults that came about."""

    plan: Plan
    problems: tuple[str, ...]
    broken: tuple[int, ...]
    steps: tuple[Step, ...]
    attempts: int
    seconds: float
    ideal: Ideal


class PlanRunner:
    """A plane of one generation and storage, and Hive's reader."""

    def __init__(
        self,
        folder: Path,
        *,
        hive: Hive,
        oracle: HiveOracle,
        storage: StorageKind = "file",
        seconds: float = RUN_SECONDS,
    ) -> None:
        self.folder = folder
        self._seconds = seconds
        self._oracle = oracle
        self._births = dict.fromkeys(Role, 0)
        self._born = threading.Lock()
        self._runs = itertools.count(1)
        self._spark = False
        folder.mkdir(parents=True)
        self._signals = Signals(folder)
        self._order("", Plan(scenario=""))
        self.plane = Plane(
            folder / "plane",
            hive=hive,
            # NB: on Derby, calls of Hive 4 that lock wait for each other's rows, and try again, without an end.
            database="derby" if hive == "3.1.3" else "postgres",
            storage=storage,
            entry=entry.run,
            environment=self._environment,
            values={"cleanup": {"interval": CLEANUP_INTERVAL}},
            overrides=WORKER if hive == "3.1.3" else {},
            receipts=True,
        )

    def __enter__(self) -> Self:
        self.plane.__enter__()
        self._admin = self.plane.admin(user="crash-test")
        if self.plane.store:
            self._oracle.configure(self.plane.store.hadoop)
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.plane.stop()

    def run(self, plan: Plan, *, ideal: Ideal | None) -> Outcome:
        """Run a plan and return how it ended; nothing is raised for what goes wrong in it.

        Without an ideal it is not held against one: that is how the ideal itself is recorded.
        """
        started = time.monotonic()
        run = f"r{next(self._runs)}"
        table = self._table(run, plan)
        table.create()
        scenario = SCENARIOS[plan.scenario]
        scenario.history(table)
        snapshot = table.now()
        before = Before(rows=table.rows(snapshot), files=table.files())
        reader = Reader(table, scenario.reader)
        happening = HAPPENINGS[scenario.happens](table, before) if scenario.happens else None
        self._order(run, plan)
        name = self._apply(run, plan, table)
        supervision = Supervision(
            self.plane,
            self._signals,
            run=run,
            compaction=name,
            plan=plan,
            table=table,
            before=before,
            reader=reader,
            happening=happening,
            seconds=self._seconds,
        )
        problems = [*supervision.until_settled()]
        compaction = self.plane.compaction(name)
        cleanups = self.plane.cleanups(name)
        if not problems:
            if happening is not None and supervision.happened:
                problems += happening.differences(compaction, cleanups)
            else:
                problems += differences(table, before, compaction, cleanups, ideal=ideal)
                problems += unrecorded(table, before, compaction, self.plane.receipts)
            problems += self._too_many_attempts(plan, compaction.status.attempt)
        outcome = Outcome(
            plan=plan,
            problems=tuple(problems),
            broken=tuple(sorted(supervision.broken)),
            steps=tuple(supervision.steps),
            attempts=compaction.status.attempt,
            seconds=time.monotonic() - started,
            ideal=Ideal(names=normal(table.names()), totals=compaction.status.totals),
        )
        if not problems:
            self._clear(name, table)
        return outcome

    def _table(self, run: str, plan: Plan) -> Table:
        database = f"crash_{run}"
        # NB: not where the name would have it: it stays there when it gets another one.
        location = self.plane.metastore.warehouse / f"{database}.db" / "data"
        return Table(self._oracle, self._admin, database, location, SCENARIOS[plan.scenario].places)

    def _apply(self, run: str, plan: Plan, table: Table) -> str:
        scenario = SCENARIOS[plan.scenario]
        return self.plane.compact(
            table.full_name,
            scenario.type,
            name=f"{plan.scenario}-{run}",
            cleanup=dict(scenario.cleanup),
            retry={"backoff": BACKOFF, "maxAttempts": MAX_ATTEMPTS},
        )

    def _clear(self, name: str, table: Table) -> None:
        self._order("", Plan(scenario=""))
        self.plane.delete(name)
        table.drop()

    def _order(self, run: str, plan: Plan) -> None:
        self._spark = plan.spark
        warehouse = f"{self.plane.metastore.warehouse}/crash_{run}.db/" if run else "/nowhere"
        with self._born:
            # The controller that runs lives its first life of this run.
            born = {**self._births, Role.CONTROLLER: self._births[Role.CONTROLLER] - 1}
            self._signals.give(Orders(run=run, warehouse=warehouse, faults=plan.faults, born=born))

    def _environment(self, arguments: Sequence[str]) -> Mapping[str, str]:
        """Number the processes of each role."""
        role = Role.DRIVER if "job" in arguments else Role.CONTROLLER
        with self._born:
            self._births[role] += 1
            return {
                FOLDER_VARIABLE: str(self.folder),
                BIRTH_VARIABLE: str(self._births[role]),
                SPARK_VARIABLE: "yes" if self._spark else "no",
            }

    def _too_many_attempts(self, plan: Plan, attempts: int) -> list[str]:
        allowed = 1 + sum(_MORE_ATTEMPTS[fault.action] for fault in plan.faults)
        return [f"it took {attempts} attempts, not at most {allowed}"] if attempts > allowed else []
