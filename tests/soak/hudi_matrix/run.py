"""The matrix: each release writes, each compacts, and each reads after every step. Rows must stay what they were."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.errors import OperatorError
from compaction_operator.hudi import BUNDLES
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.soak.hudi_matrix.history import AFTER_COMPACTION, AFTER_LOG_COMPACTION, FIRST, Commit, Model, Row
from tests.soak.hudi_matrix.table import MatrixTable

OPTIONS = {
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
}
NO_JVM = "no JVM"
OLD, NEW = "1.0.2", "1.2.0"


class State(StrEnum):
    """The states in which every reader reads a table."""

    WRITTEN = "written"
    MERGED = "log compaction"
    ADDED = "commits on top"
    COMPACTED = "compaction and clean"
    BACK = "deleted keys written again"


@dataclass
class Cell:
    """A table by its writer, its version, its ordering and its compactor, and what came of it."""

    writer: str
    version: int
    ordering: Ordering
    compactor: str
    folder: Path
    done: dict[State, str] = field(default_factory=dict)
    read: dict[str, dict[State, str]] = field(default_factory=dict)

    @property
    def table(self) -> MatrixTable:
        """The table that is written and compacted."""
        return self.at(None)

    def at(self, state: State | None) -> MatrixTable:
        """Return the copy of the table in a state."""
        return MatrixTable(self.folder / (state.name if state else "table"), str(self.version), self.ordering)

    def keep(self, state: State) -> None:
        """Copy the table as it is now."""
        shutil.copytree(self.table.location, self.at(state).location)

    def expected(self, state: State) -> list[Row]:
        """Return the rows of a state by the model."""
        later: dict[State, tuple[Commit, ...]] = dict.fromkeys((State.ADDED, State.COMPACTED), AFTER_LOG_COMPACTION)
        later[State.BACK] = AFTER_LOG_COMPACTION + AFTER_COMPACTION
        return Model(self.ordering, FIRST + later.get(state, ())).rows()


def cells(folder: Path) -> list[Cell]:
    """Return all cells."""
    return [
        Cell(writer, version, ordering, compactor, folder / f"{writer}-{version}-{ordering}-{compactor}")
        for writer, versions in BUNDLES.items()
        for version in sorted(versions)
        for ordering in Ordering
        for compactor in BUNDLES
    ]


def run(folder: Path) -> list[Cell]:
    """Write, compact and read every cell, one JVM after another."""
    found = cells(folder)
    # What a release does to the other's tables waits for the other: each JVM does all that is ready for it.
    steps: tuple[tuple[str, tuple[Callable[[HudiSession, Cell], None], ...]], ...] = (
        (OLD, (_write,)),
        (NEW, (_write, _merge)),
        (OLD, (_merge, _add)),
        (NEW, (_add, _compact)),
        (OLD, (_compact, _come_back)),
        (NEW, (_come_back, _read)),
        (OLD, (_read,)),
    )
    for version, todo in steps:
        with HudiSession(version) as session:
            for step in todo:
                for cell in found:
                    step(session, cell)
    for cell in found:
        cell.read[NO_JVM] = dict(_reads(cell, lambda table: table.read_without_a_jvm()))
    return found


def _write(session: HudiSession, cell: Cell) -> None:
    if session.version != cell.writer:
        return
    # The tables of all compactors are copies of one.
    first = cell.folder.with_name(f"{cell.writer}-{cell.version}-{cell.ordering}")
    if not first.exists():
        MatrixTable(first, str(cell.version), cell.ordering).write(session.spark, FIRST)
    shutil.copytree(first, cell.table.location)
    cell.keep(State.WRITTEN)


def _merge(session: HudiSession, cell: Cell) -> None:
    _service(session, cell, State.MERGED, LOG_COMPACTION, clean=False)


def _add(session: HudiSession, cell: Cell) -> None:
    if session.version == cell.writer:
        cell.table.write(session.spark, AFTER_LOG_COMPACTION)
        cell.keep(State.ADDED)


def _compact(session: HudiSession, cell: Cell) -> None:
    _service(session, cell, State.COMPACTED, COMPACTION, clean=True)


def _come_back(session: HudiSession, cell: Cell) -> None:
    if session.version == cell.writer and cell.done[State.COMPACTED] == Reason.COMPACTED:
        cell.table.write(session.spark, AFTER_COMPACTION)
        cell.keep(State.BACK)


def _service(session: HudiSession, cell: Cell, state: State, kind: CompactionType, *, clean: bool) -> None:
    """Run the operator's job, and keep the reason of its end."""
    if session.version != cell.compactor:
        return
    try:
        result = Jobs(session, {}).run(cell.table, kind, options=OPTIONS, single_writer=True, clean=clean)  # type: ignore[arg-type]
        cell.done[state] = str(result.reason)
    except OperatorError as refused:
        cell.done[state] = str(getattr(refused, "reason", Reason.DRIVER_FAILED))
    cell.keep(state)


def _read(session: HudiSession, cell: Cell) -> None:
    cell.read[session.version] = dict(_reads(cell, lambda table: table.read(session.spark)))


def _reads(cell: Cell, read: Callable[[MatrixTable], list[Row]]) -> Iterator[tuple[State, str]]:
    """Yield what a reader makes of each state: '' for the model's rows, otherwise the first difference or error."""
    for state in State:
        if cell.at(state).location.exists():
            yield state, _difference(cell.expected(state), cell.at(state), read)


def _difference(expected: list[Row], table: MatrixTable, read: Callable[[MatrixTable], list[Row]]) -> str:
    try:
        found = read(table)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"
    wrong: list[Any] = sorted(set(found) ^ set(expected), key=lambda row: row.id)
    return "" if found == expected else f"{len(found)} rows for {len(expected)}: {wrong[:2]}"


def faults(found: list[Cell]) -> list[str]:
    """Return what a compaction changed for a reader that read the table right before it."""
    return [
        f"{cell.folder.name}, {reader}, {state}: {wrong}"
        for cell in found
        for reader, states in cell.read.items()
        if not states[State.WRITTEN]
        for state, wrong in states.items()
        if wrong
    ]


def table_of(found: list[Cell]) -> str:
    """Return the matrix in Markdown: for each cell what was done, and who reads the table right in every state."""
    readers = (*BUNDLES, NO_JVM)
    done = ("Writer", "Version", "Ordering", "Compactor", "Log compaction", "Compaction")
    head = (*done, *(f"Read: {reader}" for reader in readers))
    lines = (head, ("---",) * len(head), *(_line(cell, readers) for cell in found))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _line(cell: Cell, readers: Sequence[str]) -> tuple[str, ...]:
    table = (cell.writer, str(cell.version), cell.ordering.name.lower(), cell.compactor)
    done = (cell.done[State.MERGED], cell.done[State.COMPACTED])
    return (*table, *done, *(_verdict(cell.read[reader]) for reader in readers))


def _verdict(states: Mapping[State, str]) -> str:
    if states[State.WRITTEN]:
        return "not this table"
    return "WRONG" if any(states.values()) else "right"
