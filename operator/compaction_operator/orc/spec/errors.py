"""What an ORC file can do wrong, said in one line."""


class OrcError(Exception):
    """A file that cannot be read, written or kept bit for bit: names the file and says why."""

    def __init__(self, path: str, reason: str) -> None:
        # a file's own texts, such as the name of a column, may be of several lines
        self.reason = " ".join(reason.splitlines())
        super().__init__(path, self.reason)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class RepeatedRowError(OrcError):
    """More than one row has the same ROW__ID."""

    def __init__(self, path: str, row_id: object) -> None:
        super().__init__(path, f"column rowId: more than one row has the ROW__ID {row_id}")
