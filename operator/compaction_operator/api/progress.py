"""Progress of a running compaction, as reported by its driver."""

from typing import Any

from pydantic import Field

from compaction_operator.api.conditions import Message
from compaction_operator.api.model import ReadModel

ANNOTATION_PROGRESS = "compaction.dev/progress"
"""Annotation that the driver sets on its own pod: a Progress as compact JSON."""

LARGEST = 2**63 - 1
"""The largest number that the API server accepts. One larger number makes it refuse a whole status."""


class Progress(ReadModel):
    """Progress of a whole compaction. Bytes count input files and advance within a partition.

    `execution` says where the current batch is merged, and why; None for a Hudi table.
    """

    partitions_done: int = Field(default=0, ge=0, le=LARGEST)
    partitions_total: int = Field(default=0, ge=0, le=LARGEST)
    bytes_done: int = Field(default=0, ge=0, le=LARGEST)
    bytes_total: int = Field(default=0, ge=0, le=LARGEST)
    execution: Message | None = None

    @property
    def percent(self) -> int:
        """Percentage done, 0 to 100: of the bytes, or of the partitions if no bytes are known.

        NB: it is 100 only when every partition is done, because merged bytes are not published yet.
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

    def fields(self) -> dict[str, Any]:
        """Return the fields of Progress alone, without those of a subclass."""
        return {name: getattr(self, name) for name in Progress.model_fields}

    def completed(self) -> "Progress":
        """Return the same progress as completed."""
        return Progress(**self.fields() | {"partitions_done": self.partitions_total, "bytes_done": self.bytes_total})
