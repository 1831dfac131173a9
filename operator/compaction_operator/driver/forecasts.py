"""A child process of the controller that forecasts compactions for policies. It reads tables, and changes nothing.

The controller itself has none of the libraries that read ORC files, and not the memory for large delete events. What
goes wrong here goes wrong in a process of its own.
"""

import os
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from compaction_operator.acid.plan import why_nothing
from compaction_operator.api.compaction import TableRef
from compaction_operator.api.forecasting import ForecastAnswer, ForecastQuestion, ForecastRequest
from compaction_operator.api.stores import STORES_VARIABLE
from compaction_operator.cleanup.places import require_allowed
from compaction_operator.driver.live import PartitionPlan, Question, Seen, look_at, plan_partition
from compaction_operator.driver.merge.calibration import measured_factor
from compaction_operator.metastore import (
    MetastoreClient,
    MetastoreError,
    MetastoreUnavailable,
    Refused,
    Target,
    compactable_table,
)

TASK_MEMORY = 64 << 20
"""Bytes of rows at a time, as `plan` has it in the controller's pod."""
NICENESS = 19
"""The controller's own work goes first."""
FIRST_TO_DIE = "1000"
"""For the kernel's choice if the pod has too little memory: oom_score_adj."""


def main() -> int:
    """Answer the request on standard input, question by question; return the exit code.

    A question that cannot be answered has the reason in its answer. `EX_TEMPFAIL` says that the metastore is away.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else prints, prints no answer
    request = ForecastRequest.model_validate_json(sys.stdin.read())
    signal.alarm(request.seconds)
    os.nice(NICENESS)
    os.environ[STORES_VARIABLE] = request.warehouse.stores.model_dump_json(by_alias=True)
    measured_factor()
    _limit_memory(request.memory)
    answers.write("\n")  # from here on each answer has its time
    with MetastoreClient(request.warehouse.metastore) as client:
        asking = _Asking(client, request)
        for question in request.questions:
            try:
                answers.write(f"{asking.answer(question).model_dump_json(by_alias=True)}\n")
            except MetastoreUnavailable as error:
                sys.stderr.write(f"{error}\n")
                return os.EX_TEMPFAIL
    return 0


def _limit_memory(more: int) -> None:
    """Let this process have so many bytes beside those that it has.

    NB: without a limit of its own it would meet that of the pod, and the kubelet would restart the controller.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[5])  # data and stacks, as RLIMIT_DATA counts them
    most = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_DIE)


@dataclass
class _Asking:
    """Questions in a row: a table is looked at once for those that are about it.

    `silent` is the last table for which the metastore did not answer.
    """

    client: MetastoreClient
    request: ForecastRequest
    of: TableRef | None = None
    seen: Seen | Exception | None = None
    silent: TableRef | None = None

    def answer(self, question: ForecastQuestion) -> ForecastAnswer:
        """Return the answer to a question.

        Raises MetastoreUnavailable if the metastore answers for two tables in a row not: one alone may be the cause.
        """
        try:
            return self._answer(question)
        except MetastoreUnavailable as error:
            if self.silent not in (None, question.table):
                raise
            self.silent = question.table
            return ForecastAnswer(problem=str(error))
        except (Refused, MetastoreError) as error:
            return ForecastAnswer(problem=str(error))
        except MemoryError:
            problem = "it needs more memory than the controller's pod has to spare; `plan` the partition elsewhere"
            return ForecastAnswer(problem=problem)

    def _answer(self, question: ForecastQuestion) -> ForecastAnswer:
        seen = self._look_at(question.table)
        target = self._target(seen, question.partition)
        asked = Question(
            self.request.warehouse, question.table, question.type, root=self.request.root, task_memory=TASK_MEMORY
        )
        answer = _said(plan_partition(target, asked, seen))
        self.silent = None
        return answer

    def _look_at(self, table: TableRef) -> Seen:
        if self.of != table:
            self.of, self.seen = table, None
            self.seen = self._seen(table)
        if isinstance(self.seen, Seen):
            return self.seen
        raise self.seen or MetastoreError(f"{table} was not looked at")

    def _seen(self, ref: TableRef) -> Seen | Exception:
        try:
            return look_at(self.client, compactable_table(self.client, ref), self.request.warehouse)
        except (Refused, MetastoreError) as error:
            return error

    def _target(self, seen: Seen, name: str) -> Target:
        """Return a partition. NB: of a table with very many, no others are asked for."""
        table = seen.table
        if not table.partition_keys:
            return Target("", table.location, table.create_time)
        found = self.client.get_partitions(table.database, table.name, [name])
        if not found:
            raise MetastoreError(f"{table.database}.{table.name} has no partition {name}")
        require_allowed(replace(table, location=found[0].location), self.request.warehouse)
        return Target(name, found[0].location, found[0].create_time)


def _said(found: PartitionPlan) -> ForecastAnswer:
    if found.planned is None:
        return ForecastAnswer(problem=found.problem)
    planned = found.planned
    if planned.forecast is None and planned.problem is None:
        return ForecastAnswer(problem=f"it would write nothing: {planned.apart or why_nothing(planned.plan)}")
    return ForecastAnswer(forecast=planned.forecast, problem=planned.problem)


if __name__ == "__main__":
    sys.exit(main())
