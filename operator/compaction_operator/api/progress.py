"""How far a running compaction is, as its driver reports it."""

from compaction_operator.api.model import ReadModel


class Progress(ReadModel):
    """What is done of the whole compaction. Bytes are those of the input files; they advance within a partition."""

    partitions_done: int = 0
    partitions_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0

    def __str__(self) -> str:
        return (
            f"{self.partitions_done} of {self.partitions_total} partitions, "
            f"{self.bytes_done} of {self.bytes_total} bytes"
        )
