"""CompactionPolicies: looks at warehouses, and the compactions that they create."""

from compaction_operator.controller.policies.reconcile import PolicyRunner

__all__ = ["PolicyRunner"]
