"""What others do to a table while it is compacted, at a step at which the process waits."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from compaction_operator.controller.kube.resources import Cleanup, Compaction


class Happening(Protocol):
    """Begins at a step, may go on by itself, and has its own way of saying what must be true in the end."""

    def begin(self) -> None:
        """Do what happens while the process waits."""
        ...

    def step(self, compaction: Compaction, cleanups: Sequence[Cleanup]) -> None:
        """Go on, if its time has come."""
        ...

    def is_over(self, compaction: Compaction, cleanups: Sequence[Cleanup]) -> bool:
        """Whether nothing is left to happen, also to the compaction and its cleanups."""
        ...

    def differences(self, compaction: Compaction, cleanups: Sequence[Cleanup]) -> Iterator[str]:
        """Yield what is not as it should be, one line each."""
        ...
