"""ORC bucket files of Hive ACID tables: reading their tails, merging them, checking what was merged."""

from compaction_operator.orc.engine import ArrowEngine
from compaction_operator.orc.errors import OrcError
from compaction_operator.orc.events import Engine, EventKind, InputFile, MergeResult, MergeTask, OriginalRows
from compaction_operator.orc.verify import count_rows, verify_output

__all__ = [
    "ArrowEngine",
    "Engine",
    "EventKind",
    "InputFile",
    "MergeResult",
    "MergeTask",
    "OrcError",
    "OriginalRows",
    "count_rows",
    "verify_output",
]
