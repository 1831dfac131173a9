"""Problems of tables: why a look leaves a table alone."""

from dataclasses import replace

from compaction_operator.hudi import HudiError
from compaction_operator.metastore import MetastoreError, Refused
from compaction_operator.policy.memory import Problem, TableState
from compaction_operator.policy.thresholds import ThresholdError
from compaction_operator.storage import StorageError


def problem_of(name: str, error: ThresholdError | Refused | HudiError | StorageError | MetastoreError) -> Problem:
    """Return the problem that an error about a table stands for. What another look may find otherwise is passing."""
    if isinstance(error, Refused | HudiError):
        return Problem(error.reason.value, str(error))
    if isinstance(error, ThresholdError):
        return Problem("InvalidProperty", f"table {name}: {error}")
    reason = "StorageUnavailable" if isinstance(error, StorageError) else "MetastoreError"
    return Problem(reason, f"table {name}: {error}", passing=True)


def opted_out_problem(name: str) -> Problem:
    """Return that a table's owner keeps policies away from it."""
    return Problem("OptedOut", f"table {name}: its property compaction.dev/policy is off")


def unread(state: TableState, old: TableState | None, problem: Problem) -> TableState:
    """Return a table that was not read. What it had is kept until it is: for how long aborted writes are known."""
    if old is None or not problem.passing:
        return replace(state, problem=problem)
    return replace(state, problem=problem, partitions=old.partitions, round=old.round)
