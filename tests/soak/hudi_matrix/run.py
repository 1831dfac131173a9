"""The matrix: each release writes, each compacts, and each reads after every step. Rows must stay what they were.

Beside each table lies a control: the same commits, compacted by Hudi's own client without the operator. It shows which
errors of the reader without a JVM come from Hudi's own files.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
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
from tests.soak.hudi_matrix.history import (
    AFTER_COMPACTION,
    DELETES,
    EARLY,
    FIRST,
    Commit,
    Model,
    Row,
    Writes,
    by_id,
)
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


class State(StrEnum):
    """The states in which every reader reads a table."""

    WRITTEN = "written"
    UNCOMPACTED = "commits on top, no compaction"
    MERGED = "log compaction"
    ADDED = "commits on top"
    COMPACTED = "compaction"
    CLEANED = "clean"
    BACK = "deleted keys written again"


class Query(StrEnum):
    """What a reader asks for. The numbers of commits are those of `history`."""

    NOW = "all rows"
    AS_OF_EARLY = f"as of commit {EARLY}"
    AS_OF_LAST = f"as of commit {len(FIRST)}"
    SINCE = f"since commit {DELETES}"
    SINCE_EVER = "since the beginning"

    def as_of(self, table: MatrixTable) -> str | None:
        """Return the moment that a reader is asked for, or None."""
        number = {Query.AS_OF_EARLY: EARLY, Query.AS_OF_LAST: len(FIRST)}.get(self)
        return None if number is None else table.moment(number)

    def since(self, table: MatrixTable) -> str | None:
        """Return the moment after which a reader is asked for what changed, or None."""
        match self:
            case Query.SINCE:
                return table.moment(DELETES)
            case Query.SINCE_EVER:
                return EVER
        return None


EVER = "000"
"""A moment before all others."""


class Seen(NamedTuple):
    """A state and what a reader asks it for."""

    state: State
    query: Query = Query.NOW

    def __str__(self) -> str:
        return f"{self.state}, {self.query}"


ASKED = tuple(
    Seen(state, query) for state in State for query in ((Query.NOW,) if state in (State.CLEANED, State.BACK) else Query)
)
"""What a reader may be asked for. NB: the clean of one version takes all history away."""


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
    """A table by writer, version, ordering, writes, compactor and whose code that is, and what came of it."""

    writer: str
    version: int
    ordering: Ordering
    writes: Writes
    compactor: str
    folder: Path
    by: By = By.OPERATOR
    named: bool = False
    steps: list[Step] = field(default_factory=lambda: list(_STEPS))
    done: dict[State, str] = field(default_factory=dict)
    read: dict[str, dict[Seen, str]] = field(default_factory=dict)

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
        new_name = self.writer == "1.2.0" and (by_event_time or self.named)
        return self.compactor == "1.0.2" and (self.version == 9 or new_name)

    @property
    def stops_hudi(self) -> bool:
        """Whether the full compaction is refused: 1.0.2 has no way to merge partial updates by commit time."""
        by_commit_time = self.ordering is Ordering.COMMIT_TIME and self.version == 8
        return self.compactor == "1.0.2" and self.writes is Writes.PARTIAL and by_commit_time

    @property
    def payload(self) -> str:
        """Whether the table has a payload class by name."""
        return "by name" if self.named or self.version < 9 else "none"

    def asked(self, reader: str) -> Iterable[Seen]:
        """Return what a reader is asked for: since the beginning where that says more than all rows do."""
        never = {Query.SINCE_EVER} if self.writes is Writes.WHOLE else self.kills(reader)
        return (one for one in ASKED if one.query not in never)

    def kills(self, reader: str) -> Set[Query]:
        """Return what must not be asked for.

        NB: a partial update in an incremental read of Spark's that begins after the row's base file kills the JVM
        (SIGSEGV), with or without a compaction.
        """
        return {Query.SINCE} if self.writes is Writes.PARTIAL and reader != NO_JVM else set()

    def at(self, state: State | None) -> MatrixTable:
        """Return the copy of the table in a state."""
        return self.table_at(self.folder / (state.name if state else "table"))

    def table_at(self, location: Path) -> MatrixTable:
        """Return a table like the cell's."""
        has_flags = self.writes is Writes.WHOLE
        return MatrixTable(location, str(self.version), self.ordering, has_flags, self.named)

    def keep(self, state: State) -> None:
        """Copy the table as it is now."""
        shutil.copytree(self.table.location, self.at(state).location)

    def commits(self, state: State) -> tuple[Commit, ...]:
        """Return what is written until a state."""
        first, on_top = self.writes.first, self.writes.on_top
        has_on_top = (State.UNCOMPACTED, State.ADDED, State.COMPACTED, State.CLEANED)
        later: dict[State, tuple[Commit, ...]] = dict.fromkeys(has_on_top, on_top)
        later[State.BACK] = on_top + AFTER_COMPACTION
        return first + later.get(state, ())

    def expected(self, seen: Seen) -> list[Row]:
        """Return the rows of an answer by the model."""
        commits = self.commits(seen.state)
        match seen.query:
            case Query.SINCE:
                return Model(self.ordering, commits).since(DELETES)
            case Query.AS_OF_EARLY:
                return Model(self.ordering, commits[:EARLY]).rows()
            case Query.AS_OF_LAST:
                return Model(self.ordering, self.writes.first).rows()
        return Model(self.ordering, commits).rows()

    def may_show(self, seen: Seen) -> list[Row]:
        """Return the rows that may be in an answer: a merged block of 1.2 shows its rows again to those who ask since.

        docs/hudi.md, "Versions".
        """
        is_merged = seen.state not in (State.WRITTEN, State.UNCOMPACTED)
        shows_again = seen.query is Query.SINCE and self.compactor != "1.0.2" and is_merged
        return self.expected(Seen(seen.state) if shows_again else seen)


def cells(folder: Path) -> list[Cell]:
    """Return all cells, each followed by its control."""
    return [
        Cell(writer, version, ordering, writes, compactor, folder / by.name / f"{first}-{compactor}", by, named)
        for writer, versions in WRITERS.items()
        for version in sorted(versions)
        for ordering in Ordering
        for writes in _writes(writer, version, ordering)
        for named in _named(version, writes)
        for first in (f"{writer}-{version}-{ordering}-{writes.name}{'-named' * named}",)
        for compactor in BUNDLES
        for by in By
    ]


def _writes(writer: str, version: int, ordering: Ordering) -> Iterable[Writes]:
    """Return what a release writes. NB: 1.0.2 itself cannot read its own partial updates by commit time."""
    can_read = writer != "1.0.2" or ordering is Ordering.EVENT_TIME
    return Writes if version > 6 and can_read else (Writes.WHOLE,)


def _named(version: int, writes: Writes) -> tuple[bool, ...]:
    """Return whether a table's writer names the payload class, and by commit time an ordering field with it."""
    whole = writes is Writes.WHOLE
    return (False, True) if whole and version == 9 else (whole and version == 8,)


def run(found: Sequence[Cell]) -> None:
    """Write, compact and read every cell, one JVM after another: each does all that is ready for its release."""
    while any(cell.steps for cell in found):
        for version in WRITERS:
            if any(cell.next == version for cell in found):
                with HudiSession(version) as session:
                    proceed(session, found)
    for version in WRITERS:
        with HudiSession(version) as session:
            read(session, found)
    read_without_a_jvm(found)


def proceed(session: HudiSession, found: Sequence[Cell]) -> None:
    """Do all that is ready for the session's release."""
    for cell in found:
        while cell.next == session.version:
            cell.steps.pop(0).do(session, cell)


def _write(session: HudiSession, cell: Cell) -> None:
    # The tables of all compactors are copies of one.
    first = cell.folder.parent.with_name(cell.folder.name.removesuffix(f"-{cell.compactor}"))
    uncompacted = first.with_name(f"{first.name}-on-top")
    if not first.exists():
        cell.table_at(first).write(session.spark, cell.writes.first)
        shutil.copytree(first, uncompacted)
        cell.table_at(uncompacted).write(session.spark, cell.writes.on_top)
    shutil.copytree(first, cell.table.location)
    shutil.copytree(uncompacted, cell.at(State.UNCOMPACTED).location)
    cell.keep(State.WRITTEN)


def _merge(session: HudiSession, cell: Cell) -> None:
    _service(session, cell, State.MERGED, LOG_COMPACTION)


def _add(session: HudiSession, cell: Cell) -> None:
    cell.table.write(session.spark, cell.writes.on_top)
    cell.keep(State.ADDED)


def _compact(session: HudiSession, cell: Cell) -> None:
    _service(session, cell, State.COMPACTED, COMPACTION)


def _clean(session: HudiSession, cell: Cell) -> None:
    _service(session, cell, State.CLEANED, CompactionType.CLEAN)


def _come_back(session: HudiSession, cell: Cell) -> None:
    if cell.done[State.COMPACTED] == Reason.COMPACTED:
        cell.table.write(session.spark, AFTER_COMPACTION)
        cell.keep(State.BACK)


def _service(session: HudiSession, cell: Cell, state: State, kind: CompactionType) -> None:
    """Run the service, and keep the reason of its end."""
    if cell.by is By.OPERATOR:
        cell.done[state] = _operators(session, cell, kind)
    else:
        cell.done[state] = _hudis(session, cell, kind)
    cell.keep(state)


def _operators(session: HudiSession, cell: Cell, kind: CompactionType) -> str:
    """Run the operator's job."""
    try:
        result = Jobs(session, {}).run(cell.table, kind, options=OPTIONS, single_writer=True)  # type: ignore[arg-type]
    except OperatorError as refused:
        return str(getattr(refused, "reason", Reason.DRIVER_FAILED))
    return str(result.reason)


def _hudis(session: HudiSession, cell: Cell, kind: CompactionType) -> str:
    """Do the same by Hudi's own client; a release that cannot says so by an exception of any kind."""
    try:
        client = OtherClient(session, cell.table, OPTIONS)  # type: ignore[arg-type]
        if kind is CompactionType.CLEAN:
            client.clean()
        else:
            client.all_of(other_client.LOG_COMPACTION if kind is LOG_COMPACTION else other_client.COMPACTION)
        client.close()
    except (Py4JError, PySparkException, AssertionError):
        return str(Reason.DRIVER_FAILED)
    return str(Reason.CLEANED if kind is CompactionType.CLEAN else Reason.COMPACTED)


_STEPS: tuple[Step, ...] = (
    Step("writer", _write),
    Step("compactor", _merge),
    Step("writer", _add),
    Step("compactor", _compact),
    Step("compactor", _clean),
    Step("writer", _come_back),
)


def read(session: HudiSession, found: Sequence[Cell]) -> None:
    """Read every cell, but no control, in each state with the session's release."""
    for cell in (one for one in found if one.by is By.OPERATOR):
        tables = {seen: cell.at(seen.state) for seen in cell.asked(session.version)}
        asked = [(seen, partial(_ask, session, table, seen.query)) for seen, table in tables.items()]
        cell.read[session.version] = dict(_answers(cell, asked))


def _ask(session: HudiSession, table: MatrixTable, query: Query) -> list[Row]:
    options = {}
    if as_of := query.as_of(table):
        options["as.of.instant"] = as_of
    if since := query.since(table):
        options["hoodie.datasource.query.type"] = "incremental"
        options["hoodie.datasource.read.begin.instanttime"] = since
    return table.read(session.spark, **options)


def read_without_a_jvm(found: Sequence[Cell]) -> None:
    """Read every cell in each state with the `hudi` package."""
    for cell in found:
        asked = [(seen, partial(_ask_without_a_jvm, cell.at(seen.state), seen.query)) for seen in cell.asked(NO_JVM)]
        cell.read[NO_JVM] = dict(_answers(cell, asked))


def _ask_without_a_jvm(table: MatrixTable, query: Query) -> list[Row]:
    return table.read_without_a_jvm(as_of=query.as_of(table), since=query.since(table))


def _answers(cell: Cell, asked: Iterable[tuple[Seen, Callable[[], list[Row]]]]) -> Iterator[tuple[Seen, str]]:
    """Yield what a reader makes of each state: '' for the model's rows, otherwise the first difference or error."""
    for seen, read in asked:
        if cell.at(seen.state).location.exists():
            yield seen, _difference(cell.expected(seen), cell.may_show(seen), read)


def _difference(expected: list[Row], may_show: list[Row], read: Callable[[], list[Row]]) -> str:
    try:
        found = read()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"
    shown = set(found)
    if len(shown) == len(found) and set(expected) <= shown <= set(may_show):
        return ""
    wrong: list[Any] = sorted((set(expected) - shown) | (shown - set(may_show)), key=by_id)
    return f"{len(found)} rows for {len(expected)}: {wrong[:2]}"
