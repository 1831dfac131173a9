"""Tables of 0.15 that a later release has written to, with and without an upgrade: refused, or their rows stay.

`make hudi-matrix ARGS=--taken-over`. 0.15 makes tables, each later release takes copies of them over, each bundle
compacts, and each release reads.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering

from compaction_operator.api.request import Reason
from compaction_operator.errors import OperatorError
from compaction_operator.hudi import BUNDLES
from compaction_operator.hudi.merging import BY_EVENT_TIME
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.soak.hudi_matrix.history import Commit, How, Row
from tests.soak.hudi_matrix.run import NO_JVM, OF_0_15, OPTIONS, WRITERS
from tests.soak.hudi_matrix.table import MatrixTable

BY_0_15 = (
    Commit(range(100), 10),
    Commit(range(40), 30),
    Commit(range(20, 60), 20),
    Commit(range(50, 55), 0, How.DELETE),
    Commit(range(5), 60, How.FLAG),
    Commit(range(3, 10), 50),
)
"""Keys 20 to 39 come late, and so do 3 and 4 after their delete of greater ordering."""

BY_THE_NEXT = (Commit(range(60, 70), 40), Commit(range(65, 75), 35))
"""Keys 65 to 69 come late."""


class Origin(NamedTuple):
    """How 0.15 made a table: with which payload class (None: its default), with an ordering field or without."""

    name: str
    payload: str | None
    has_field: bool


ORIGINS = (
    Origin("default payload, ordering field", None, True),
    Origin("DefaultHoodieRecordPayload, ordering field", BY_EVENT_TIME, True),
    Origin("default payload", None, False),
)


class State(StrEnum):
    """The states in which every reader reads a table."""

    OLD = "as 0.15 left it"
    TAKEN = "taken over"
    MERGED = "log compaction"
    COMPACTED = "compaction"


SERVICES = ((State.TAKEN, State.MERGED, LOG_COMPACTION), (State.MERGED, State.COMPACTED, COMPACTION))


@dataclass(frozen=True)
class OldTable(MatrixTable):
    """A table that 0.15 made. Its writers name no merge mode, as users of 0.15 do."""

    origin: Origin = ORIGINS[0]

    @property
    def metadata_table(self) -> str:
        """Writers of 0.15 make one."""
        return "true"

    @property
    def options(self) -> dict[str, str]:
        """The options of each write."""
        found = {name: value for name, value in super().options.items() if name != "hoodie.record.merge.mode"}
        payload = {"hoodie.datasource.write.payload.class": self.origin.payload} if self.origin.payload else {}
        return found | payload | {"hoodie.write.auto.upgrade": str(self.version != "6").lower()}


@dataclass
class Takeover:
    """A table by origin, who took it over and to which version (6: no upgrade), and compactor; what came of it.

    `read` has the rows, or the error, of each reader in each state.
    """

    origin: Origin
    release: str
    version: int
    compactor: str
    folder: Path
    done: dict[State, str] = field(default_factory=dict)
    read: dict[str, dict[State, list[Row] | str]] = field(default_factory=dict)

    def at(self, state: State) -> OldTable:
        """Return the copy of the table in a state."""
        version = "6" if state is State.OLD else str(self.version)
        ordering = Ordering.EVENT_TIME if self.origin.has_field else Ordering.COMMIT_TIME
        return OldTable(self.folder / state.name, version, ordering, origin=self.origin)

    def next(self, old: State, new: State) -> OldTable:
        """Copy the table in a state as the beginning of the next one, and return that."""
        shutil.copytree(self.at(old).location, self.at(new).location)
        return self.at(new)

    def ask(self, reader: str, read: Callable[[OldTable], list[Row]]) -> None:
        """Read the table in every state."""
        self.read[reader] = {state: _rows(partial(read, self.at(state))) for state in State}

    @property
    def name(self) -> str:
        """What it is, in words."""
        return f"{self.origin.name}, by {self.release} to version {self.version}, compactor {self.compactor}"


def takeovers(folder: Path) -> list[Takeover]:
    """Return all of them."""
    return [
        Takeover(origin, release, version, compactor, folder / f"{number}-{release}-{version}-{compactor}")
        for number, origin in enumerate(ORIGINS)
        for release, versions in BUNDLES.items()
        for version in sorted(versions)
        for compactor in BUNDLES
    ]


def run(found: Sequence[Takeover]) -> None:
    """Write, take over, compact and read all, one JVM after another."""
    _write(found)
    _serve(found)
    _read(found)


def _write(found: Sequence[Takeover]) -> None:
    with HudiSession(OF_0_15) as session:
        for one in found:
            _once(one, State.OLD, partial(_make, session, one))
    for release in BUNDLES:
        with HudiSession(release) as session:
            for one in (each for each in found if each.release == release):
                _once(one, State.TAKEN, partial(_take, session, one))


def _serve(found: Sequence[Takeover]) -> None:
    for bundle in BUNDLES:
        with HudiSession(bundle) as session:
            for one in (each for each in found if each.compactor == bundle):
                _compact(session, one)


def _read(found: Sequence[Takeover]) -> None:
    for release in WRITERS:
        with HudiSession(release) as session:
            for one in found:
                one.ask(release, partial(_by_spark, session))
    for one in found:
        one.ask(NO_JVM, OldTable.read_without_a_jvm)


def _by_spark(session: HudiSession, table: OldTable) -> list[Row]:
    return table.read(session.spark)


def _once(one: Takeover, state: State, make: Callable[[], None]) -> None:
    """Make a state, or copy that of the other compactors' table."""
    twins = [one.folder.with_name(f"{one.folder.name.removesuffix(one.compactor)}{bundle}") for bundle in BUNDLES]
    made = next((twin / state.name for twin in twins if (twin / state.name).exists()), None)
    if made:
        shutil.copytree(made, one.at(state).location)
    else:
        make()


def _make(session: HudiSession, one: Takeover) -> None:
    one.at(State.OLD).write(session.spark, BY_0_15)


def _take(session: HudiSession, one: Takeover) -> None:
    one.next(State.OLD, State.TAKEN).write(session.spark, BY_THE_NEXT)


def _compact(session: HudiSession, one: Takeover) -> None:
    """Run both services. NB: an upgrade by 1.0.2 leaves a compaction in progress, which only `allInstants` takes on."""
    jobs = Jobs(session, {})
    own = {"options": OPTIONS, "single_writer": True, "all_instants": True}
    for old, new, kind in SERVICES:
        try:
            result = jobs.run(one.next(old, new), kind, **own)  # type: ignore[arg-type]
            one.done[new] = str(result.reason)
        except OperatorError as refused:
            one.done[new] = str(getattr(refused, "reason", Reason.DRIVER_FAILED))


def _rows(read: Callable[[], list[Row]]) -> list[Row] | str:
    try:
        return read()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"


def faults(found: Iterable[Takeover]) -> list[str]:
    """Return what must not be: a compacted table whose readers disagree, or one that a service changed for a reader."""
    return [
        f"{one.name}: {fault}" for one in found for fault in (*_unfinished(one), *_disagreement(one), *_changes(one))
    ]


def _unfinished(one: Takeover) -> Iterator[str]:
    """Yield how a service ended that was neither done nor refused."""
    right = {Reason.COMPACTED, Reason.NOTHING_TO_COMPACT, Reason.UNSUPPORTED_TABLE}
    yield from (f"{state}: {reason}" for state, reason in one.done.items() if reason not in right)


def _disagreement(one: Takeover) -> Iterator[str]:
    """Yield that a table is compacted although two readers show different rows of it."""
    shown = [states[State.TAKEN] for states in one.read.values() if not isinstance(states[State.TAKEN], str)]
    if not is_refused(one) and any(rows != shown[0] for rows in shown):
        yield "compacted, and readers show different rows"


def _changes(one: Takeover) -> Iterator[str]:
    """Yield what a service changed for a reader that read the table before it."""
    for reader, states in one.read.items():
        for _, state, _ in SERVICES:
            could = not isinstance(states[State.TAKEN], str)
            if could and states[state] != states[State.TAKEN] and not _is_hudis(reader, states[state]):
                yield f"{reader}, {state}: {_first_difference(states[State.TAKEN], states[state])}"


def _is_hudis(reader: str, found: list[Row] | str) -> bool:
    """Whether it is the package's error after a commit of another release. The matrix's controls prove that."""
    return reader == NO_JVM and isinstance(found, str) and "ColumnStatsMetadata" in found


def _first_difference(before: list[Row] | str, after: list[Row] | str) -> str:
    if isinstance(before, str) or isinstance(after, str):
        return str(after)
    return f"{len(after)} rows for {len(before)}: {sorted(set(before) ^ set(after))[:2]}"


def is_refused(one: Takeover) -> bool:
    """Whether the operator refused both services."""
    return set(one.done.values()) == {Reason.UNSUPPORTED_TABLE}


def table_of(found: Iterable[Takeover]) -> str:
    """Return what came of it in Markdown."""
    head = ("Made by 0.15.0 with", "Taken over by", "Version", "Compactor", "Log compaction", "Compaction", "Rows")
    lines = (head, ("---",) * len(head), *map(_line, found))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _line(one: Takeover) -> tuple[str, ...]:
    done = (one.done[State.MERGED], one.done[State.COMPACTED])
    rows = "WRONG" if faults([one]) else "stay" if is_refused(one) else "stay, the same for all readers"
    fails = any(_is_hudis(NO_JVM, found) for found in one.read[NO_JVM].values())
    return (one.origin.name, one.release, str(one.version), one.compactor, *done, rows + ", no JVM: errors" * fails)
