"""Hive 4's compaction queue: the entries of warehouses' pools, and the TableCompactions that work on them."""

from compaction_operator.controller.queues.reconcile import QueueRunner

__all__ = ["QueueRunner"]
