"""How far a running compaction is, as its driver reports it."""

from pydantic import Field

from compaction_operator.api.model import ReadModel

ANNOTATION_PROGRESS = "compaction.dev/progress"
"""On the driver's pod, by the driver itself: a Progress as compact JSON."""

LARGEST = 2**63 - 1
"""The API server refuses a whole status for one number beyond it."""


class Progress(ReadModel):
    """What is done of the whole compaction. Bytes are those of the input files; they advance within a partition."""

    partitions_done: int = Field(default=0, ge=0, le=LARGEST)
    partitions_total: int = Field(default=0, ge=0, le=LARGEST)
    bytes_done: int = Field(default=0, ge=0, le=LARGEST)
    bytes_total: int = Field(default=0, ge=0, le=LARGEST)

    @property
    def percent(self) -> int:
        """How much is done, 0 to 100: of the bytes, or of the partitions where no bytes are known.

        NB: 100 only when every partition is done: what is merged is not published yet.
        """
        if self.partitions_done >= self.partitions_total:
            return 100
        done, total = self.partitions_done, self.partitions_total
        if self.bytes_total:
            done, total = self.bytes_done, self.bytes_total
        return min(99, 100 * done // total)

    def __str__(self) -> str:
        partitions = f"{self.partitions_done}/{self.partitions_total} partitions"
        return f"{partitions}, {self.percent}%" if self.partitions_total else partitions

    def numbers(self) -> dict[str, int]:
        """Return the progress alone, by field, also of a value that says more."""
        return {name: getattr(self, name) for name in Progress.model_fields}

    def completed(self) -> "Progress":
        """Return the progress of an attempt that has done all of this."""
        return Progress(
            partitions_done=self.partitions_total,
            partitions_total=self.partitions_total,
            bytes_done=self.bytes_total,
            bytes_total=self.bytes_total,
        )
