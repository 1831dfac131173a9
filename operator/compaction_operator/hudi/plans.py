"""Plans on a Hudi table's timeline, and what became of them, as values."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from compaction_operator.hudi.instants import Action
from compaction_operator.hudi.log_blocks import Block, LogFile, blocks_of


@dataclass(frozen=True)
class Operation:
    """What a plan does with one file group: the log files that it merges, and the bytes of the base file, if any."""

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
        """The bytes of the blocks that are merged, and of the base file. NB: replaced ones are not read again."""
        return self.base_size + sum(block.size for block in self.blocks)


@dataclass(frozen=True)
class Plan:
    """A plan by its instant. `seen` are the delta commits that were on the timeline when it was made (SEEN_KEY)."""

    instant: str
    action: Action
    operations: tuple[Operation, ...]
    seen: frozenset[str] = frozenset()

    @property
    def partial(self) -> bool:
        """Whether it is a log compaction of blocks with partial records, as only others would plan it."""
        files = (file for operation in self.operations for file in operation.files)
        return self.action is Action.LOG_COMPACTION and any(file.partial for file in files)


@dataclass(frozen=True)
class Written:
    """What the commit of a plan wrote; `blocks` are log blocks."""

    bytes: int
    blocks: int


@dataclass(frozen=True)
class FileGroup:
    """A file group's newest slice: how many log blocks a reader opens, and the pending instant that plans for it."""

    partition: str
    file_id: str
    blocks: int
    busy: str | None = None


@dataclass(frozen=True)
class Cleaned:
    """What the cleaner deleted."""

    instant: str
    files: int


Choose = Callable[[Operation, Collection[str]], tuple[Block, ...]]
"""Of a file group that Hudi's planner picked and the pending delta commits: the blocks to merge, none to leave it."""
