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

    `execution` says where the current batch is merged, and why; None for a Hudi table. `seconds_left` is an estimate
    while it works; None as long as too little is done to tell.
    """

    partitions_done: int = Field(default=0, ge=0, le=LARGEST)
    partitions_total: int = Field(default=0, ge=0, le=LARGEST)
    bytes_done: int = Field(default=0, ge=0, le=LARGEST)
    bytes_total: int = Field(default=0, ge=0, le=LARGEST)
    execution: Message | None = None
    seconds_left: int | None = Field(default=None, ge=0, le=LARGEST)

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
        percent = f"{self.percent}%" if self.partitions_total else ""
        left = "" if self.seconds_left is None else f"about {_minutes(self.seconds_left)} left"
        return ", ".join(filter(None, (partitions, percent, left)))

    def fields(self) -> dict[str, Any]:
        """Return the fields of Progress alone, without those of a subclass."""
        return {name: getattr(self, name) for name in Progress.model_fields}

    def stopped(self) -> "Progress":
        """Return the same progress without an estimate, as nothing works on it any more."""
        return Progress(**self.fields() | {"seconds_left": None})

    def completed(self) -> "Progress":
        """Return the same progress as completed."""
        everything = {"partitions_done": self.partitions_total, "bytes_done": self.bytes_total}
        return Progress(**self.stopped().fields() | everything)


def _minutes(seconds: int) -> str:
    """Return a duration as people say it, rounded up: `4 min`, `2 h 10 min`."""
    minutes = max(1, -(-seconds // 60))
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{minutes} min"
