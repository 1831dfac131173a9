"""The matrix: each release writes, each compacts, and each reads after every step. Rows must stay what they were.

Beside each table lies a control: the same commits, compacted by Hudi's own client without the operator. It shows which
errors of the reader without a JVM come from Hudi's own files.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.errors import OperatorError
from compaction_operator.hudi import BUNDLES
from tests.integration.hudi import other_client
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.integration.hudi.other_client import OtherClient
from tests.soak.hudi_matrix.history import AFTER_COMPACTION, AFTER_LOG_COMPACTION, FIRST, Commit, Model, Row
from tests.soak.hudi_matrix.table import MatrixTable

OPTIONS = {
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
}
NO_JVM = "no JVM"
OF_0_15 = "0.15.0"
WRITERS = {OF_0_15: frozenset({6}), **BUNDLES}
"""The table versions that each release writes. Each of them also reads every table; those of BUNDLES compact."""

_ROWS = re.compile("[0-9]+ rows for ")


class State(StrEnum):
    """The states in which every reader reads a table."""

    WRITTEN = "written"
    MERGED = "log compaction"
    ADDED = "commits on top"
    COMPACTED = "compaction and clean"
    BACK = "deleted keys written again"


class By(StrEnum):
    """Whose code runs Hudi's services."""

    OPERATOR = "the operator"
    HUDI = "Hudi's own client"


class Step(NamedTuple):
    """A step of a cell, and whose release does it: `writer` or `compactor`."""

    release: str
    do: "Callable[[HudiSession, Cell], None]"


@dataclass
class Cell:
    """A table by its writer, its version, its ordering, its compactor and whose code that is, and what came of it."""

    writer: str
    version: int
    ordering: Ordering
    compactor: str
    folder: Path
    by: By = By.OPERATOR
    steps: list[Step] = field(default_factory=lambda: list(_STEPS))
    done: dict[State, str] = field(default_factory=dict)
    read: dict[str, dict[State, str]] = field(default_factory=dict)

    @property
    def table(self) -> MatrixTable:
        """The table that is written and compacted."""
        return self.at(None)

    @property
    def next(self) -> str | None:
        """The release that does the next step; None after the last one."""
        return getattr(self, self.steps[0].release) if self.steps else None

    @property
    def is_refused(self) -> bool:
        """Whether the operator must refuse both compactions: docs/hudi.md, "Which record wins" and "Versions"."""
        by_event_time = self.ordering is Ordering.EVENT_TIME
        if self.writer == OF_0_15:
            return by_event_time
        return self.compactor == "1.0.2" and (self.version == 9 or (self.writer == "1.2.0" and by_event_time))

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
    """Return all cells, each followed by its control."""
    return [
        Cell(writer, version, ordering, compactor, folder / by.name / f"{writer}-{version}-{ordering}-{compactor}", by)
        for writer, versions in WRITERS.items()
        for version in sorted(versions)
        for ordering in Ordering
        for compactor in BUNDLES
        for by in By
    ]


def run(found: Sequence[Cell]) -> None:
    """Write, compact and read every cell, one JVM after another: each does all that is ready for its release."""
    while any(cell.steps for cell in found):
        for version in WRITERS:
            if any(cell.next == version for cell in found):
                with HudiSession(version) as session:
                    _proceed(session, found)
    for version in WRITERS:
        with HudiSession(version) as session:
            for cell in found:
                _read(session, cell)
    for cell in found:
        cell.read[NO_JVM] = dict(_reads(cell, lambda table: table.read_without_a_jvm()))


def _proceed(session: HudiSession, found: Sequence[Cell]) -> None:
    for cell in found:
        while cell.next == session.version:
            cell.steps.pop(0).do(session, cell)


def _write(session: HudiSession, cell: Cell) -> None:
    # The tables of all compactors are copies of one.
    first = cell.folder.parent.with_name(f"{cell.writer}-{cell.version}-{cell.ordering}")
    if not first.exists():
        MatrixTable(first, str(cell.version), cell.ordering).write(session.spark, FIRST)
    shutil.copytree(first, cell.table.location)
    cell.keep(State.WRITTEN)


def _merge(session: HudiSession, cell: Cell) -> None:
    _service(session, cell, State.MERGED, LOG_COMPACTION, clean=False)


def _add(session: HudiSession, cell: Cell) -> None:
    cell.table.write(session.spark, AFTER_LOG_COMPACTION)
    cell.keep(State.ADDED)


def _compact(session: HudiSession, cell: Cell) -> None:
    _service(session, cell, State.COMPACTED, COMPACTION, clean=True)


def _come_back(session: HudiSession, cell: Cell) -> None:
    if cell.done[State.COMPACTED] == Reason.COMPACTED:
        cell.table.write(session.spark, AFTER_COMPACTION)
        cell.keep(State.BACK)


def _service(session: HudiSession, cell: Cell, state: State, kind: CompactionType, *, clean: bool) -> None:
    """Run the service, and keep the reason of its end."""
    if cell.by is By.OPERATOR:
        cell.done[state] = _operators(session, cell, kind, clean=clean)
    else:
        cell.done[state] = _hudis(session, cell, kind, clean=clean)
    cell.keep(state)


def _operators(session: HudiSession, cell: Cell, kind: CompactionType, *, clean: bool) -> str:
    """Run the operator's job."""
    try:
        result = Jobs(session, {}).run(cell.table, kind, options=OPTIONS, single_writer=True, clean=clean)  # type: ignore[arg-type]
    except OperatorError as refused:
        return str(getattr(refused, "reason", Reason.DRIVER_FAILED))
    return str(result.reason)


def _hudis(session: HudiSession, cell: Cell, kind: CompactionType, *, clean: bool) -> str:
    """Do the same by Hudi's own client; a release that cannot says so by an exception of any kind."""
    action = other_client.LOG_COMPACTION if kind is LOG_COMPACTION else other_client.COMPACTION
    try:
        client = OtherClient(session, cell.table, OPTIONS)  # type: ignore[arg-type]
        client.all_of(action)
        if clean:
            client.clean()
        client.close()
    except (Py4JError, PySparkException, AssertionError):
        return str(Reason.DRIVER_FAILED)
    return str(Reason.COMPACTED)


_STEPS: tuple[Step, ...] = (
    Step("writer", _write),
    Step("compactor", _merge),
    Step("writer", _add),
    Step("compactor", _compact),
    Step("writer", _come_back),
)


def _read(session: HudiSession, cell: Cell) -> None:
    if cell.by is By.OPERATOR:
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


def faults(found: Sequence[Cell]) -> list[str]:
    """Return the compactions that did not end as they must, and what they changed for readers."""
    return [fault for cell, control in _pairs(found) for fault in (*_ends(cell), *_changes(cell, control))]


def _ends(cell: Cell) -> Iterator[str]:
    """Yield each compaction that was not done, or not refused, although it must be."""
    for state, reason in cell.done.items():
        may_do_nothing = {Reason.NOTHING_TO_COMPACT} if state is State.MERGED else set()
        right = {Reason.UNSUPPORTED_TABLE} if cell.is_refused else {Reason.COMPACTED, *may_do_nothing}
        if reason not in right:
            yield f"{cell.folder.name}, {state}: {reason}"


def _changes(cell: Cell, control: Cell) -> Iterator[str]:
    """Yield what a compaction changed for a reader that read the table right before it.

    An error of the reader without a JVM is none where the same error meets it in the control.
    """
    for reader, states in cell.read.items():
        for state, wrong in states.items():
            if wrong and not states[State.WRITTEN] and not _is_hudis(control, reader, state, wrong):
                yield f"{cell.folder.name}, {reader}, {state}: {wrong}"


def _pairs(found: Sequence[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """Yield each cell with its control."""
    return zip(found[::2], found[1::2], strict=True)


def _is_hudis(control: Cell, reader: str, state: State, wrong: str) -> bool:
    """Whether a reader fails in the same way on what Hudi's own client made. NB: wrong rows are never excused."""
    its = control.read.get(reader, {}).get(state, "")
    return reader == NO_JVM and not _ROWS.match(wrong) and _kind(its) == _kind(wrong)


def _kind(error: str) -> str:
    """Return an error without its numbers, such as instants and places in a list of types."""
    return re.sub("[0-9]+", "", error)


def table_of(found: Sequence[Cell]) -> str:
    """Return the matrix in Markdown: for each cell what was done, and who reads the table right in every state."""
    readers = (*WRITERS, NO_JVM)
    done = ("Writer", "Version", "Ordering", "Compactor", "Log compaction", "Compaction")
    head = (*done, *(f"Read: {reader}" for reader in readers))
    lines = (head, ("---",) * len(head), *(_line(cell, control, readers) for cell, control in _pairs(found)))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _line(cell: Cell, control: Cell, readers: Sequence[str]) -> tuple[str, ...]:
    table = (cell.writer, str(cell.version), cell.ordering.name.lower(), cell.compactor)
    done = (cell.done[State.MERGED], cell.done[State.COMPACTED])
    return (*table, *done, *(_verdict(cell, control, reader) for reader in readers))


def _verdict(cell: Cell, control: Cell, reader: str) -> str:
    states = cell.read[reader]
    if states[State.WRITTEN]:
        return "not this table"
    wrong = {state: found for state, found in states.items() if found}
    if not all(_is_hudis(control, reader, state, found) for state, found in wrong.items()):
        return "WRONG"
    return "errors, as by Hudi alone" if wrong else "right"
