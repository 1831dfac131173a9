"""Reconciliation of a TableCompaction: its turn, and the next step as a pure decision."""
