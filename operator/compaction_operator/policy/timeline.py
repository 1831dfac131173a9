"""What a policy knows of a merge-on-read Hudi table, from the names and sizes of its files."""

from dataclasses import dataclass, field

from compaction_operator.hudi import SliceSizes


@dataclass(frozen=True, slots=True)
class TimelineMeasure:
    """The completed delta commits after the last compaction, and after the last compaction or log compaction.

    `sizes` are read only if one of the two numbers is due.
    """

    delta_commits: int
    log_blocks: int
    sizes: SliceSizes = field(default_factory=SliceSizes)

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing that a compaction could merge."""
        return not self.delta_commits
