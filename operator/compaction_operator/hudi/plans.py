"""Plans on a Hudi table's timeline and their results, as values."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from compaction_operator.hudi.instants import Action
from compaction_operator.hudi.log_blocks import Block, LogFile, blocks_of


@dataclass(frozen=True)
class Operation:
    """A plan's work on one file group: the log files to merge, and the base file's size in bytes (0 without one)."""

    partition: str
    file_id: str
    files: tuple[LogFile, ...]
    base_size: int = 0

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks that a reader of these files opens."""
        return blocks_of(self.files)

    @property
    def size(self) -> int:
        """The bytes of the base file and of the merged blocks. NB: replaced blocks are not read again."""
        return self.base_size + sum(block.size for block in self.blocks)


@dataclass(frozen=True)
class Plan:
    """A plan, identified by its instant. `seen` are the delta commits on the timeline at planning (SEEN_KEY)."""

    instant: str
    action: Action
    operations: tuple[Operation, ...]
    seen: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Written:
    """The result of a plan's commit: written bytes, and merged blocks, one for each file group (see `Block`).

    `compared` says how much of the merged blocks was compared with the originals, empty for a full compaction.
    """

    bytes: int
    blocks: int
    compared: str = ""


@dataclass(frozen=True)
class FileGroup:
    """A file group's newest slice: how many log blocks a reader opens, and the pending instant that plans for it."""

    partition: str
    file_id: str
    blocks: int
    busy: str | None = None


@dataclass(frozen=True)
class Cleaned:
    """The result of Hudi's cleaner: its instant and the number of deleted files."""

    instant: str
    files: int


class Choose(Protocol):
    """Chooses what a log compaction merges."""

    def forget(self) -> None:
        """Forget what it chose and skipped: another plan is made."""
        ...

    def __call__(self, operation: Operation, pending: Collection[str], /) -> tuple[Block, ...]:
        """Return the blocks to merge of a file group of Hudi's planner, beside pending delta commits; none skips it."""
        ...
