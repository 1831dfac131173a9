"""Choice of the blocks that a log compaction merges, out of those that Hudi's planner picked."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from compaction_operator.api.model import counted
from compaction_operator.hudi.log_blocks import Block, LogFile, best_run, blocks_of, keeps_flags
from compaction_operator.hudi.plans import Operation

_TWO_TYPES = (
    "its deletes have ordering values of two types, as deletes by operation and by flag have, or of one that cannot be "
    "read, and not every reader can read a merged block of both: compact it fully"
)
_BELOW = (
    "its deletes by operation have no ordering value, so by event time they are merged with newer blocks only together "
    "with all older ones, and deletes by flag above them are not merged: compact it fully"
)
_DELETES = ((_TWO_TYPES, True, True), (_BELOW, False, False), (_TWO_TYPES, True, False))
"""What is said of deletes that kept a file group from being merged, if it would be merged with these `mixes_types` and
`by_event_time` of `best_run`."""


class Choice:
    """Chooses blocks for one file group after another, and remembers why it skipped a file group. A `Choose`.

    `limit` is in bytes, None for no limit. `partitions` are partition paths or leading parts of them; an empty
    sequence means all partitions. `newest_only`, `keeps_deletes` and `by_event_time` are those of `best_run`.
    `held_up_by` names the pending delta commits that prevented the plan of a file group.
    """

    def __init__(
        self,
        *,
        threshold: int,
        limit: int | None,
        partitions: Sequence[str],
        newest_only: bool,
        keeps_deletes: bool = True,
        by_event_time: bool = True,
    ) -> None:
        self.threshold = threshold
        self._limit = limit
        self._partitions = tuple(partitions)
        self.newest_only = newest_only
        self._keeps_deletes = keeps_deletes
        self._by_event_time = by_event_time
        self.forget()

    def forget(self) -> None:
        """Forget the skipped file groups, before another plan is made."""
        self._longest: int | None = None
        self.held_up_by: str | None = None
        self._left_alone: str | None = None

    def __call__(self, operation: Operation, pending: Collection[str]) -> tuple[Block, ...]:
        """Return the blocks of a file group to merge; an empty tuple skips the file group."""
        if not self.covers(operation.partition):
            return ()
        chosen = partial(
            best_run,
            operation.files,
            threshold=self.threshold,
            limit=self._limit,
            newest_only=self.newest_only,
            keeps_deletes=self._keeps_deletes,
            by_event_time=self._by_event_time,
        )
        if found := chosen(pending=pending):
            return found
        if chosen(pending=()):
            self.held_up_by = f"file group {operation.file_id}: delta commit {', '.join(sorted(pending))} is pending"
        of_deletes = (
            why
            for why, mixed, strict in _DELETES
            if chosen(pending=pending, mixes_types=mixed, by_event_time=strict and self._by_event_time)
        )
        if why := next(of_deletes, None) or self.obstacle(operation.files):
            self._left_alone = f"file group {operation.file_id}: {why}"
        longest = chosen(threshold=1, pending=(), newest_only=False)
        self._longest = max(self._longest or 0, len(longest))
        return ()

    def covers(self, partition: str) -> bool:
        """Whether a partition is among the requested ones."""
        return not self._partitions or any(lies_in(partition, wanted) for wanted in self._partitions)

    def obstacle(self, files: Sequence[LogFile]) -> str | None:
        """Return why Hudi cannot merge these files, naming the newest such file; None if it can merge all."""
        for file in (file for block in reversed(blocks_of(files)) for file in reversed(block.files)):
            if file.partial:
                return f"{file.name}: its records contain changed columns only, and Hudi cannot merge such records"
            if file.deletes and not self._keeps_deletes:
                return f"{file.name}: its deletes would be lost by Hudi 1.0; hudi.bundle: 1.2.0 merges them"
        return _BELOW if self._by_event_time and not keeps_flags(files) else None

    def why_nothing(self, blocks: Iterable[int]) -> str:
        """Return why nothing was planned; `blocks` is the number of blocks of each file group."""
        if self._left_alone:
            return self._left_alone
        if self._longest is not None and self._limit is not None:
            run = f"{counted(self._longest, 'consecutive block')} of at most {self._limit} bytes"
            return f"{run}, threshold {self.threshold}"
        return f"{counted(max(blocks, default=0), 'block')}, threshold {self.threshold}"


def lies_in(partition: str, wanted: str) -> bool:
    """Whether a partition path equals the wanted path or lies below it."""
    return f"{partition}/".startswith(f"{wanted.strip('/')}/")
