"""Reconciliation of a TableCompaction: its turn, and the next step as a pure decision."""

from compaction_operator.controller.compaction.reconcile import CompactionReconciler
from compaction_operator.controller.compaction.turns import PREFLIGHTS, Turns

__all__ = ["PREFLIGHTS", "CompactionReconciler", "Turns"]
