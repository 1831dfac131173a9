"""ORC bucket files of Hive ACID tables: read their tails, merge their events and verify the merged files.

The functions that read files need numpy and pyarrow: 0.25 CPU seconds and 70 MB. Python imports them when a function is
first used, so use them as `orc.merge_bucket`. A process that finds nothing to merge then never pays for them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from compaction_operator.orc.errors import OrcError, RepeatedRowError, RowTypeError
from compaction_operator.orc.merge.events import (
    DEFAULT_TASK_MEMORY,
    Check,
    EventKind,
    FileSketch,
    InputFile,
    KeyRange,
    MergeForecast,
    MergeResult,
    MergeTask,
    OriginalRows,
    RowId,
    StripeSketch,
    checked,
    unchecked,
)

if TYPE_CHECKING:
    from compaction_operator.orc.merge.engine import forecast_bucket, merge_bucket
    from compaction_operator.orc.merge.row_types import row_type
    from compaction_operator.orc.merge.sample import sample_task
    from compaction_operator.orc.merge.sketch import sketch
    from compaction_operator.orc.merge.source import read_tails
    from compaction_operator.orc.merge.stitch import stitch_parts
    from compaction_operator.orc.merge.verify import count_rows, verify_output, verify_stitched
else:
    _MODULES = {
        "count_rows": "verify",
        "forecast_bucket": "engine",
        "merge_bucket": "engine",
        "read_tails": "source",
        "row_type": "row_types",
        "sample_task": "sample",
        "sketch": "sketch",
        "stitch_parts": "stitch",
        "verify_output": "verify",
        "verify_stitched": "verify",
    }

    def __getattr__(name: str) -> Any:
        """Return a function of the engine (PEP 562)."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.merge.{_MODULES[name]}"), name)


__all__ = [
    "DEFAULT_TASK_MEMORY",
    "Check",
    "EventKind",
    "FileSketch",
    "InputFile",
    "KeyRange",
    "MergeForecast",
    "MergeResult",
    "MergeTask",
    "OrcError",
    "OriginalRows",
    "RepeatedRowError",
    "RowId",
    "RowTypeError",
    "StripeSketch",
    "checked",
    "count_rows",
    "forecast_bucket",
    "merge_bucket",
    "read_tails",
    "row_type",
    "sample_task",
    "sketch",
    "stitch_parts",
    "unchecked",
    "verify_output",
    "verify_stitched",
]
