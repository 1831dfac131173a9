"""The command line, for people and for pods: `compaction-operator`, and `kubectl compaction` with the same verbs."""

from compaction_operator.cli.entry import main

__all__ = ["main"]
