"""Reconciliation of a CompactionCleanup: the next step as a pure decision, and the schedule of looks at readers."""

from compaction_operator.controller.cleanup.reader_watch import ReaderWatch
from compaction_operator.controller.cleanup.reconcile import CleanupReconciler

__all__ = ["CleanupReconciler", "ReaderWatch"]
