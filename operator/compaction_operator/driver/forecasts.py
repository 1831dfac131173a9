"""A child process of the controller that forecasts compactions for policies. It reads tables, and changes nothing.

The controller itself has none of the libraries that read ORC files, and not the memory for large delete events. What
goes wrong here goes wrong in a process of its own.
"""

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.forecasting import ForecastAnswer, ForecastQuestion, ForecastRequest, PartitionForecast
from compaction_operator.api.stores import STORES_VARIABLE
from compaction_operator.driver.live import PartitionPlan, Question, plan_table
from compaction_operator.driver.merge.calibration import measured_factor
from compaction_operator.metastore import MetastoreClient, MetastoreError, MetastoreUnavailable, Refused

TASK_MEMORY = 64 << 20
"""Bytes of rows at a time, as `plan` has it in the controller's pod."""
NICENESS = 19
"""The controller's own work goes first."""


def main() -> int:
    """Answer the request on standard input, question by question; return the exit code.

    A question that cannot be answered has the reason in its answer. `EX_TEMPFAIL` says that the metastore is away.
    """
    request = ForecastRequest.model_validate_json(sys.stdin.read())
    os.nice(NICENESS)
    os.environ[STORES_VARIABLE] = request.warehouse.stores.model_dump_json(by_alias=True)
    measured_factor()
    _limit_memory(request.memory)
    try:
        with MetastoreClient(request.warehouse.metastore) as client:
            for question in request.questions:
                sys.stdout.write(f"{_answer(client, request, question).model_dump_json(by_alias=True)}\n")
                sys.stdout.flush()
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


def _answer(client: MetastoreClient, request: ForecastRequest, question: ForecastQuestion) -> ForecastAnswer:
    asked = Question(
        request.warehouse,
        question.table,
        question.type,
        tuple(spec for spec in question.partitions if spec),
        root=request.root,
        task_memory=TASK_MEMORY,
    )
    try:
        return ForecastAnswer(partitions=tuple(_forecasts(client, asked)))
    except MetastoreUnavailable:
        raise
    except (Refused, MetastoreError) as error:
        return ForecastAnswer(problem=str(error))
    except MemoryError:
        return ForecastAnswer(problem=_too_large(question.table))


def _forecasts(client: MetastoreClient, asked: Question) -> Iterator[PartitionForecast]:
    _, plans = plan_table(client, asked)
    return map(_forecast, plans)


def _forecast(found: PartitionPlan) -> PartitionForecast:
    if found.planned is None:
        return PartitionForecast(partition=found.partition, problem=found.problem)
    planned = found.planned
    return PartitionForecast(partition=found.partition, forecast=planned.forecast, problem=planned.problem)


def _too_large(table: TableRef) -> str:
    return f"a forecast of {table} needs more memory than the controller's pod has to spare; `plan` it elsewhere"


if __name__ == "__main__":
    sys.exit(main())
