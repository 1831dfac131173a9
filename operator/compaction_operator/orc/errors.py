"""Errors about ORC files, each with a one-line message."""

from compaction_operator.errors import OperatorError


class OrcError(OperatorError):
    """A file cannot be read, written or preserved bit for bit; names the file and the reason."""

    def __init__(self, path: str, reason: str) -> None:
        # text from the file, such as a column name, may contain line breaks
        self.reason = " ".join(reason.splitlines())
        super().__init__(path, self.reason)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class RowTypeError(OrcError):
    """A file's rows cannot become rows of the wanted row type without possible loss."""


class RepeatedRowError(OrcError):
    """More than one row has the same ROW__ID."""

    def __init__(self, path: str, row_id: object) -> None:
        super().__init__(path, f"column rowId: more than one row has the ROW__ID {row_id}")
