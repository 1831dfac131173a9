"""CompactionPolicies: looks at warehouses, and the compactions that they create."""

from compaction_operator.controller.policies.reconcile import PolicyRunner
from compaction_operator.controller.policies.why import NoPolicyError, Question

__all__ = ["NoPolicyError", "PolicyRunner", "Question"]
