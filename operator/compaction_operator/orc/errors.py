"""What an ORC file can do wrong, said in one line."""


class OrcError(Exception):
    """A file that cannot be read, written or kept bit for bit: names the file and says why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
