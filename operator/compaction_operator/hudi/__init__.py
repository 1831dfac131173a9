"""Hudi tables: decisions about their timeline and log files, made on plain values, and Hudi itself in a JVM (`jvm`)."""

from compaction_operator.hudi.choice import Choice, lies_in
from compaction_operator.hudi.errors import (
    HudiError,
    RefusedOptionError,
    UnsupportedVersionError,
    WaitingForInstantError,
)
from compaction_operator.hudi.files import Commits, LogSizes, SliceSizes, commits_of, sizes_of, timeline_folder
from compaction_operator.hudi.instants import Action, Instant, State, Todo, decide, is_own, late, stale
from compaction_operator.hudi.log_blocks import Block, LogFile
from compaction_operator.hudi.merging import EVENT_TIME, keeps_deletes, merge_mode_of, merges_partial_records
from compaction_operator.hudi.options import (
    bundle_and_options,
    lock_provider,
    require_fitting_type,
    threshold,
    write_options,
)
from compaction_operator.hudi.plans import Cleaned, FileGroup, Operation, Plan, Written
from compaction_operator.hudi.properties import BUNDLES, HudiTable, bundle_for, read_table

__all__ = [
    "BUNDLES",
    "EVENT_TIME",
    "Action",
    "Block",
    "Choice",
    "Cleaned",
    "Commits",
    "FileGroup",
    "HudiError",
    "HudiTable",
    "Instant",
    "LogFile",
    "LogSizes",
    "Operation",
    "Plan",
    "RefusedOptionError",
    "SliceSizes",
    "State",
    "Todo",
    "UnsupportedVersionError",
    "WaitingForInstantError",
    "Written",
    "bundle_and_options",
    "bundle_for",
    "commits_of",
    "decide",
    "is_own",
    "keeps_deletes",
    "late",
    "lies_in",
    "lock_provider",
    "merge_mode_of",
    "merges_partial_records",
    "read_table",
    "require_fitting_type",
    "sizes_of",
    "stale",
    "threshold",
    "timeline_folder",
    "write_options",
]
