"""What the log blocks of a file group leave of each key: its newest row, or its delete. Values only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Change:
    """What a block does to a key. `row` is a digest of the new row, empty for a delete.

    `ordering` decides by event time. It is None for a change that wins over any older one, and over which any newer one
    wins: all changes by commit time, and deletes by operation, which have no ordering value.
    """

    ordering: Any
    row: bytes = b""

    def wins_over(self, older: "Change") -> bool:
        """Whether this change stays, and not an older one. Of equal ordering values the newer change wins."""
        return self.ordering is None or older.ordering is None or bool(self.ordering >= older.ordering)


def outcomes(changes: Iterable[tuple[str, Change]]) -> dict[str, Change]:
    """Return the change of each key that stays, of changes in the order in which readers apply them."""
    found: dict[str, Change] = {}
    for key, change in changes:
        if (older := found.get(key)) is None or change.wins_over(older):
            found[key] = change
    return found


def difference(originals: Mapping[str, Change], merged: Mapping[str, Change]) -> str | None:
    """Return the first key on which two outcomes differ, and how; None if they are the same."""
    for key in sorted(originals.keys() | merged.keys()):
        wanted, found = originals.get(key), merged.get(key)
        if wanted != found:
            return f"key {key!r} has {_named(found)} instead of {_named(wanted)}"
    return None


def _named(change: Change | None) -> str:
    if change is None:
        return "nothing"
    ordering = "" if change.ordering is None else f" of ordering {change.ordering!r}"
    return f"a row {change.row.hex()[:8]}{ordering}" if change.row else f"a delete{ordering}"
