"""ORC bucket files of Hive ACID tables: read their tails, merge their events and verify the merged files."""

from compaction_operator.orc.merge.engine import merge_bucket
from compaction_operator.orc.merge.events import (
    DEFAULT_TASK_MEMORY,
    Check,
    EventKind,
    InputFile,
    KeyRange,
    MergeResult,
    MergeTask,
    OriginalRows,
    RowId,
    checked,
    unchecked,
)
from compaction_operator.orc.merge.sketch import FileSketch, StripeSketch, sketch
from compaction_operator.orc.merge.stitch import stitch_parts
from compaction_operator.orc.merge.verify import count_rows, verify_output, verify_stitched
from compaction_operator.orc.spec import OrcError, RepeatedRowError

__all__ = [
    "DEFAULT_TASK_MEMORY",
    "Check",
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
    "StripeSketch",
    "checked",
    "count_rows",
    "merge_bucket",
    "sketch",
    "stitch_parts",
    "unchecked",
    "verify_output",
    "verify_stitched",
]
