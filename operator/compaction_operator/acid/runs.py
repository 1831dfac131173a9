"""Division of a snapshot's deltas into runs that hold rows of one row type each, so that each can be merged alone.

Hive chooses directories by their ranges of write ids, and of two ranges of which one holds the other it reads the wider
one. So a run is an interval of write ids with all deltas and delete deltas in it, and no directory lies in two runs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from compaction_operator.acid.names import AcidDirectory
from compaction_operator.acid.snapshot import Snapshot

OF_TABLE = "the table's"
"""The row type of files whose rows become the table's without loss: their own types may differ."""

RowTypes = Mapping[str, frozenset[str]]
"""The row types of the rows in each directory, by its name. A directory without an entry has no rows of its own."""


@dataclass(frozen=True, slots=True)
class Run:
    """A part of a snapshot: consecutive deltas and delete deltas whose rows have one row type, or no rows at all."""

    part: Snapshot
    row_type: str | None


def runs(found: Snapshot, row_types: RowTypes) -> list[Run]:
    """Return the longest runs in the order of their write ids, even those of one directory.

    Directories that share write ids stay together: the statements of one write id, and the deltas of a range. Where
    their rows have several row types, they are in no run. Delete events have no row type: they join the run before
    them, or the first one. A wholly aborted delta is in the run around it, because the name of the output covers it.
    """
    grown: list[list[AcidDirectory]] = []
    types: list[frozenset[str]] = []
    for together in _together((*found.deltas, *(one for one in found.aborted if not one.is_base))):
        type_ = _types(together, row_types)
        if grown and len(types[-1] | type_) <= 1:
            grown[-1] += together
            types[-1] |= type_
        else:
            grown.append(together)
            types.append(type_)
    return [_run(found, held, type_) for held, type_ in zip(grown, types, strict=True) if len(type_) <= 1]


def _together(directories: Iterable[AcidDirectory]) -> Iterator[list[AcidDirectory]]:
    """Yield the directories in the order of their write ids, those that share write ids at once."""
    group: list[AcidDirectory] = []
    highest = 0
    for directory in sorted(directories, key=lambda one: (one.min_write_id, one.max_write_id)):
        if group and directory.min_write_id > highest:
            yield group
            group = []
        group.append(directory)
        highest = max(highest, directory.max_write_id)
    if group:
        yield group


def _types(directories: Iterable[AcidDirectory], row_types: RowTypes) -> frozenset[str]:
    none = frozenset[str]()
    return none.union(*(row_types.get(directory.name, none) for directory in directories))


def _run(found: Snapshot, held: Iterable[AcidDirectory], types: frozenset[str]) -> Run:
    inside = set(held)
    deltas = tuple(delta for delta in found.deltas if delta in inside)
    aborted = tuple(directory for directory in found.aborted if directory in inside)
    return Run(replace(found, deltas=deltas, aborted=aborted), next(iter(types), None))
