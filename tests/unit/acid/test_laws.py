"""Laws that hold for any history of a table: originals, writers, aborts, loads, overwrites, compactions and cleanups.

The model keeps, for each directory, which events it holds. A reader's rows are the events of the directories that its
snapshot names, as far as their write ids are valid: they must be the same before and after, and none may count twice.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_operator.acid.listing import Listing
from compaction_operator.acid.names import METADATA_ACID, AcidDirectory, DirectoryKind, parse_directory
from compaction_operator.acid.plan import (
    CompactionPlan,
    Layout,
    check_still_publishable,
    inputs_of,
    plan_compaction,
    with_guard,
)
from compaction_operator.acid.runs import OF_TABLE
from compaction_operator.acid.snapshot import NotEnoughHistory, obsolete_now, snapshot
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import HIVE_TYPES, CompactionType
from tests.unit.acid.listings import recorded_listing, txns, write_ids


class Event(NamedTuple):
    """What one statement wrote into one directory."""

    write_id: int
    statement: int
    kind: str


class Reader(NamedTuple):
    """A snapshot that was taken once and is still in use."""

    ids: ValidWriteIdList
    txns: ValidTxnList | None


@dataclass
class Table:
    """A directory of a table and the state of its write ids; `side_files` tells compacted and raw directories.

    `row_types` are those of the rows, which change from write id to write id, and from statement to statement.
    """

    layout: Layout
    contents: dict[str, frozenset[Event]] = field(default_factory=dict)
    side_files: dict[str, str] = field(default_factory=dict)
    readers: list[Reader] = field(default_factory=list)
    high: int = 0
    open: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    last_txn: int = 100
    row_types: tuple[str, ...] = (OF_TABLE,)

    def ids(self) -> ValidWriteIdList:
        """Return the write ids of a reader who comes now."""
        return write_ids(self.high, open=tuple(self.open), aborted=tuple(self.aborted))

    def txns(self) -> ValidTxnList | None:
        """Return the transactions: all compactions are committed."""
        return txns(self.last_txn) if self.layout is Layout.HIVE4 else None

    def listing(self) -> Listing:
        """Return what is there."""
        return recorded_listing([f"{name}/{self.side_files.get(name, '')}".rstrip("/") for name in self.contents])

    def plan(self, kind: CompactionType, *, in_runs: bool = False) -> CompactionPlan:
        """Plan a compaction now, with a guard where one helps."""
        plan = plan_compaction(
            self.listing(),
            self.ids(),
            type=kind,
            layout=self.layout,
            visibility_txn=self.last_txn + 1 if self.layout is Layout.HIVE4 else None,
            valid_txns=self.txns(),
            row_types={name: self.types_in(name) for name in self.contents} if in_runs else None,
        )
        return with_guard(plan) if plan.breaks_older_snapshots and not plan.has_originals else plan

    def types_in(self, name: str) -> frozenset[str]:
        """Return the row types of the rows in a directory."""
        rows = (event for event in self.contents[name] if event.kind != "delete_delta")
        return frozenset(
            self.row_types[(event.write_id + event.statement) // 3 % len(self.row_types)] for event in rows
        )

    def write(self, kind: str, state: str) -> None:
        """Let a transaction write something, and end in that state or not at all."""
        self.high += 1
        if state != "committed":
            (self.open if state == "open" else self.aborted).add(self.high)
        for directory in _written(kind, self.high):
            statement = directory.statement_id or 0
            event = Event(self.high, statement, directory.kind.value)
            self.contents[directory.name] = frozenset(() if kind in EMPTYING else {event})
            if kind in EMPTYING:
                self.side_files[directory.name] = f"{METADATA_ACID}={EMPTYING[kind]}"
            elif kind.startswith("load"):
                self.side_files[directory.name] = "000000_0"

    def end(self, state: str) -> None:
        """Let the oldest open transaction end."""
        if self.open:
            oldest = min(self.open)
            self.open.remove(oldest)
            self.aborted |= {oldest} if state == "aborted" else set()

    def publish_guard(self, plan: CompactionPlan) -> None:
        """Write the guard of a plan, if it has one."""
        if plan.guard:
            self.contents[plan.guard.name] = frozenset()
            self.side_files[plan.guard.name] = METADATA_ACID

    def publish(self, plan: CompactionPlan) -> None:
        """Write the outputs of a plan."""
        self.publish_guard(plan)
        self.last_txn += 1
        ids = self.ids()
        originals = {file.name.partition("/")[0] for file in plan.originals}
        for output in plan.outputs:
            read = [*originals, *(one.name for one in inputs_of(output, plan))]
            events = {e for name in read for e in self.contents[name] if ids.is_valid(e.write_id)}
            if not output.is_base:
                events = {
                    e for e in events if (e.kind == "delete_delta") is (output.kind is DirectoryKind.DELETE_DELTA)
                }
            elif self.layout is Layout.HIVE3:
                self.side_files[output.name] = METADATA_ACID
            self.contents[output.name] = frozenset(events)

    def delete(self, names: set[str]) -> None:
        """Clean up; the gate has waited for all readers."""
        self.readers.clear()
        for name in names:
            del self.contents[name]

    def used(self, reader: Reader | None = None) -> dict[str, frozenset[Event]]:
        """Return what each directory and file that a reader uses holds for it, by its name without transaction."""
        ids, valid_txns = reader or Reader(self.ids(), self.txns())
        found = snapshot(self.listing(), ids, valid_txns=valid_txns)
        names = [*(one.name for one in (found.base, *found.deltas) if one)]
        names += {file.name.partition("/")[0] for file in found.originals}
        return {
            name.partition("_v")[0]: frozenset(e for e in self.contents[name] if ids.is_valid(e.write_id))
            for name in names
        }

    def rows(self, reader: Reader | None = None) -> list[Event]:
        """Return what a reader sees, each event as often as it is read."""
        return sorted(event for events in self.used(reader).values() for event in events)


EMPTYING = {"truncate": "truncated", "drop": "dropped"}
"""What leaves an empty base behind, and how that calls itself."""


def _replaces(kind: str) -> bool:
    return kind.endswith("overwrite") or kind in EMPTYING


def _written(kind: str, write_id: int) -> list[AcidDirectory]:
    if kind in {"overwrite", "load overwrite", *EMPTYING}:
        return [AcidDirectory.base(write_id)]
    statements: dict[str, tuple[list[int], list[int]]] = {
        "insert": ([0], []),
        "load": ([0], []),
        "delete": ([], [0]),
        "update": ([1], [0]),
        "merge": ([1, 2], [0, 2]),
    }
    inserts, deletes = statements[kind]
    return [
        *(AcidDirectory.delta(write_id, write_id, statement) for statement in inserts),
        *(AcidDirectory.delete_delta(write_id, write_id, statement) for statement in deletes),
    ]


WRITE = st.tuples(
    st.sampled_from(
        ["insert", "insert", "load", "delete", "update", "merge", "overwrite", "load overwrite", *EMPTYING]
    ),
    st.sampled_from(["committed", "committed", "committed", "committed", "aborted", "open"]),
)
END = st.tuples(st.just("end"), st.sampled_from(["committed", "aborted"]))
STEP = st.one_of(WRITE, WRITE, END, st.sampled_from(HIVE_TYPES), st.just("clean"))
TYPED_STEP = st.one_of(WRITE, WRITE, WRITE, END, st.just("runs"), st.just("clean"))
ROW_TYPES = st.lists(st.sampled_from([OF_TABLE, "older", "oldest"]), min_size=2, max_size=4)
ORIGINALS = {
    name: frozenset({Event(0, number, name)}) for number, name in enumerate(["000000_0", "HIVE_UNION_SUBDIR_1"])
}


@st.composite
def tables(draw: st.DrawFn, *, row_types: bool = False) -> Table:
    """Draw a table with a past, and readers from every moment since the last cleanup."""
    table = Table(draw(st.sampled_from([*Layout])))
    if row_types:
        table.row_types = tuple(draw(ROW_TYPES))
    if draw(st.integers(0, 3)) == 0:
        table.contents.update(ORIGINALS)
        table.side_files["HIVE_UNION_SUBDIR_1"] = "000000_0"
    for step in draw(st.lists(TYPED_STEP if row_types else STEP, min_size=1, max_size=16 if row_types else 10)):
        table.readers.append(Reader(table.ids(), table.txns()))
        take(table, step)
    return table


def take(table: Table, step: object) -> None:
    """Let something happen to the table."""
    if isinstance(step, CompactionType):
        table.publish(table.plan(step))
    elif isinstance(step, tuple):
        kind, state = step
        if kind == "end":
            table.end(state)
        else:
            # What replaces everything excludes other writers; an INSERT OVERWRITE is not there before its commit.
            blocked = (kind.endswith("overwrite") and state == "open") or (_replaces(kind) and table.open)
            table.write("insert" if blocked else kind, state)
    elif step == "runs":
        table.publish(table.plan(CompactionType.MINOR, in_runs=True))
    else:
        table.delete({*_obsolete_now(table)})


def _obsolete_now(table: Table) -> dict[str, str]:
    return obsolete_now(table.listing(), table.ids(), valid_txns=table.txns(), highest_write_id=table.ids().watermark)


MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
KINDS = pytest.mark.parametrize("kind", HIVE_TYPES)
LAW = settings(deadline=None, derandomize=True)


@KINDS
@LAW
@given(table=tables())
def test_nothing_that_holds_an_open_write_id_is_read_named_or_given_up(kind, table):
    plan = table.plan(kind)
    lowest_open = min(table.open, default=table.high + 1)
    obsolete = [found for entry in plan.obsolete if (found := parse_directory(entry.name))]
    assert all(one.max_write_id < lowest_open for one in (*plan.deltas, *plan.outputs, *obsolete))
    assert plan.highest_write_id < lowest_open


@KINDS
@LAW
@given(table=tables())
def test_readers_see_the_same_before_and_after_publication_and_after_the_cleanup(kind, table):
    before, plan = table.rows(), table.plan(kind)
    assert check_still_publishable(plan, table.listing()) is None
    table.publish_guard(plan)
    assert check_still_publishable(plan, table.listing()) is None
    assert table.rows() == before
    table.publish(plan)
    assert table.rows() == before
    assert len(before) == len({*before})
    table.delete({entry.name for entry in plan.obsolete})
    assert table.rows() == before


@KINDS
@LAW
@given(table=tables())
def test_every_older_snapshot_sees_the_same_between_any_two_steps_of_a_publication(kind, table):
    """H24: only where originals keep the guard away may history be missing, and the plan says so."""
    plan = table.plan(kind)
    before = [(reader, _rows_or_none(table, reader)) for reader in table.readers]
    for step in (table.publish_guard, table.publish):
        step(plan)
        for reader, rows in before:
            now = _rows_or_none(table, reader)
            assert now == rows or rows is None or (now is None and plan.breaks_older_snapshots and plan.has_originals)


def _rows_or_none(table: Table, reader: Reader) -> list[Event] | None:
    try:
        return table.rows(reader)
    except NotEnoughHistory:
        return None


@KINDS
@LAW
@given(table=tables())
def test_what_is_recorded_as_obsolete_is_never_what_readers_use_and_is_what_the_cleanup_finds(kind, table):
    plan = table.plan(kind)
    table.publish(plan)
    found = snapshot(table.listing(), table.ids(), valid_txns=table.txns())
    used = {one.name for one in (found.base, *found.deltas) if one}
    recorded = {entry.name for entry in plan.obsolete}
    assert not recorded & used
    assert not recorded & {output.name for output in plan.outputs}
    assert recorded == {*_obsolete_now(table)}


@KINDS
@LAW
@given(table=tables())
def test_a_second_plan_has_nothing_to_do(kind, table):
    table.publish(table.plan(kind))
    assert table.plan(kind).outputs == ()


@pytest.mark.parametrize(("first", "second"), [(MINOR, MINOR), (MINOR, MAJOR), (MAJOR, MAJOR)])
@LAW
@given(table=tables(), late=st.lists(WRITE, max_size=3), clean=st.booleans())
def test_a_second_compaction_after_the_first_is_one_compaction_of_all(first, second, table, late, clean):
    once = deepcopy(table)
    table.publish(table.plan(first))
    if clean:
        take(table, "clean")
    for each in (table, once):
        for step in late:
            take(each, step)
        each.publish(each.plan(second))
    # Their names may differ: on Hive 3 a write that was aborted later counts for one of them only.
    assert sorted(map(sorted, table.used().values())) == sorted(map(sorted, once.used().values()))


@KINDS
@LAW
@given(table=tables(), data=st.data())
def test_the_order_of_the_listing_does_not_matter(kind, table, data):
    plan = table.plan(kind)
    table.contents = dict(data.draw(st.permutations([*table.contents.items()])))
    assert table.plan(kind) == plan


@KINDS
@LAW
@given(table=tables(), other=st.sampled_from(HIVE_TYPES), late=st.lists(WRITE, max_size=3))
def test_of_two_overlapping_compactions_the_later_one_is_refused_or_harmless(kind, table, other, late):
    """H23: both were planned before either was published, or the other one when more had been written."""
    plan = table.plan(kind)
    table.last_txn += 1
    for operation, _ in late:
        table.write("insert" if _replaces(operation) else operation, "committed")
    table.publish(table.plan(other))
    before = table.rows()
    if plan.outputs and check_still_publishable(plan, table.listing()) is None:
        table.publish(plan)
    assert table.rows() == before


TYPED = given(table=tables(row_types=True))


@LAW
@TYPED
def test_runs_of_one_row_type_change_nothing_for_any_reader(table):
    """Neither for those who come later, nor for any older snapshot, nor after the cleanup."""
    plan, before = table.plan(MINOR, in_runs=True), table.rows()
    older = [(reader, _rows_or_none(table, reader)) for reader in table.readers]
    assert check_still_publishable(plan, table.listing()) is None
    table.publish(plan)
    assert table.rows() == before
    assert len(before) == len({*before})
    assert all(_rows_or_none(table, reader) == rows for reader, rows in older if rows is not None)
    table.delete({entry.name for entry in plan.obsolete})
    assert table.rows() == before


@LAW
@TYPED
def test_no_output_has_rows_of_two_row_types_and_each_keeps_its_own(table):
    plan = table.plan(MINOR, in_runs=True)
    types = {output: table.types_in(delta.name) for output in plan.outputs for delta in inputs_of(output, plan)}
    table.publish(plan)
    assert all(len(table.types_in(output.name)) <= 1 for output in plan.outputs)
    own = {output for output, found in types.items() if output.kind is DirectoryKind.DELTA and found - {OF_TABLE}}
    assert plan.own_row_type >= own


@LAW
@TYPED
def test_each_input_goes_into_one_run_and_nothing_else_becomes_obsolete(table):
    plan = table.plan(MINOR, in_runs=True)
    deltas = [output for output in plan.outputs if output.kind is DirectoryKind.DELTA]
    read = [delta for output in deltas for delta in inputs_of(output, plan)]
    assert sorted(read, key=str) == sorted(plan.deltas, key=str)
    assert len(read) == len({*read})
    before = {*_obsolete_now(table)}
    assert {entry.name for entry in plan.obsolete} - before <= {delta.name for delta in read}


@LAW
@TYPED
def test_runs_that_are_merged_leave_nothing_to_a_second_plan(table):
    table.publish(table.plan(MINOR, in_runs=True))
    assert table.plan(MINOR, in_runs=True).outputs == ()


@LAW
@given(table=tables())
def test_one_row_type_makes_one_run(table):
    """Not where directories that share write ids would be the only ones: they are all there is."""
    one, whole = table.plan(MINOR, in_runs=True), table.plan(MINOR)
    assert (one.outputs, one.obsolete, one.own_row_type) == (whole.outputs, whole.obsolete, frozenset())
