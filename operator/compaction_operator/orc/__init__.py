"""ORC bucket files of Hive ACID tables: reading their tails, merging them, checking what was merged."""

from compaction_operator.orc.engine import StripeEngine
from compaction_operator.orc.errors import OrcError, RepeatedRowError
from compaction_operator.orc.events import (
    DEFAULT_TASK_MEMORY,
    Engine,
    EventKind,
    InputFile,
    KeyRange,
    MergeResult,
    MergeTask,
    OriginalRows,
    RowId,
)
from compaction_operator.orc.sketch import FileSketch, StripeSketch, sketch
from compaction_operator.orc.stitch import stitch_parts
from compaction_operator.orc.verify import count_rows, verify_output, verify_stitched

__all__ = [
    "DEFAULT_TASK_MEMORY",
    "Engine",
    "EventKind",
    "FileSketch",
    "InputFile",
    "KeyRange",
    "MergeResult",
    "MergeTask",
    "OrcError",
    "OriginalRows",
    "RepeatedRowError",
    "RowId",
    "StripeEngine",
    "StripeSketch",
    "count_rows",
    "sketch",
    "stitch_parts",
    "verify_output",
    "verify_stitched",
]
