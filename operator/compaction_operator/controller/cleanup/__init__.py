"""Reconciliation of a CompactionCleanup: the next step as a pure decision, and the schedule of looks at readers."""
