"""The work of merging as the plan shows it, and what it costs one core. Pure."""

from dataclasses import dataclass, fields, replace
from typing import Self

from compaction_operator.api.model import counted

FILE_SECONDS = 0.005
"""CPU seconds to open a file of an input and read its tail and keys: 200 deltas of a few rows take 0.8 s."""

REMOTE_SECONDS = 0.05
"""Seconds that a file of a store over the network takes more: each is opened and read by two or three requests."""

COPIED_PER_SECOND = 400_000_000
"""Bytes of whole stripes that one core copies and verifies in a second: 47 MB take 0.1 s."""

REWRITTEN_PER_SECOND = 24_000_000
"""Bytes that one core decodes, merges and encodes in a second: 47 MB take 2 s."""

ROWS_PER_SECOND = 2_400_000
"""Rows that one core merges in a second however few bytes they take: 2 million of six constant columns take 0.8 s."""

EVENTS_PER_SECOND = 2_000_000
"""Delete events that one core reads, sorts and applies in a second. NB: their bytes say little: runs take none."""


@dataclass(frozen=True, slots=True)
class Load:
    """A number of input files to open, the bytes in them to copy and to rewrite, and the delete events in them.

    `remote` is how many of the files are in a store over the network, `rows` the rows to rewrite as far as they are
    known. A file or an event counts once for each task that reads it, because each time costs the same.
    """

    files: int = 0
    remote: int = 0
    copied: int = 0
    rewritten: int = 0
    rows: int = 0
    events: int = 0

    def __add__(self, other: Self) -> "Load":
        return Load(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def scaled(self, share: float) -> "Load":
        """Return the load of a task that opens all the files and merges that share of their bytes."""
        merged = {name: round(getattr(self, name) * share) for name in ("copied", "rewritten", "rows")}
        return replace(self, **merged)

    @property
    def seconds(self) -> float:
        """The seconds that one core takes, estimated by the measurements above."""
        return (
            self.files * FILE_SECONDS
            + self.remote * REMOTE_SECONDS
            + self.copied / COPIED_PER_SECOND
            + max(self.rewritten / REWRITTEN_PER_SECOND, self.rows / ROWS_PER_SECOND)
            + self.events / EVENTS_PER_SECOND
        )

    def __str__(self) -> str:
        events = f", {counted(self.events, 'delete event')}" if self.events else ""
        return f"{_size(self.copied)} to copy, {_size(self.rewritten)} to rewrite{events}"


NOTHING = Load()
"""No work: what a sum begins with."""


def _size(number: int) -> str:
    """Return bytes in few characters: `0`, `0.3 MB`, `12 MB`, `1.2 GB`."""
    if not number:
        return "0"
    value, unit = (number / 1e9, "GB") if number >= 1e9 else (number / 1e6, "MB")
    return f"{value:.0f} {unit}" if value >= 10 else f"{max(value, 0.1):.1f} {unit}"
