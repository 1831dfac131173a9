"""Laws that hold for any history of a table: writers, aborts, overwrites, compactions and cleanups in any order.

The model keeps, for each directory, which events it holds. A reader's rows are the events of the directories that its
snapshot names, as far as their write ids are valid: they must be the same before and after, and none may count twice.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_operator.acid.listing import Listing
from compaction_operator.acid.names import AcidDirectory, DirectoryKind, parse_directory
from compaction_operator.acid.plan import CompactionPlan, Layout, check_still_publishable, plan_compaction
from compaction_operator.acid.snapshot import NotEnoughHistory, obsolete_now, snapshot
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from tests.unit.acid.listings import listing, txns, write_ids


class Event(NamedTuple):
    """What one statement wrote into one directory."""

    write_id: int
    statement: int
    kind: str


@dataclass
class Table:
    """A directory of a table and the state of its write ids."""

    layout: Layout
    contents: dict[str, frozenset[Event]] = field(default_factory=dict)
    compacted: set[str] = field(default_factory=set)
    high: int = 0
    open: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    last_txn: int = 100

    def ids(self, high: int | None = None) -> ValidWriteIdList:
        """Return the write ids of a reader who came when `high` was the last one."""
        ids = write_ids(self.high, open=tuple(self.open), aborted=tuple(self.aborted))
        return ids if high is None else ids.capped(high)

    def txns(self) -> ValidTxnList | None:
        """Return the transactions: all compactions are committed."""
        return txns(self.last_txn) if self.layout is Layout.HIVE4 else None

    def listing(self) -> Listing:
        """Return what is there."""
        return listing(*(name + "*" * (name in self.compacted) for name in self.contents))

    def plan(self, kind: CompactionType) -> CompactionPlan:
        """Plan a compaction now."""
        txn = self.last_txn + 1 if self.layout is Layout.HIVE4 else None
        return plan_compaction(
            self.listing(), self.ids(), type=kind, layout=self.layout, visibility_txn=txn, valid_txns=self.txns()
        )

    def write(self, kind: str, state: str) -> None:
        """Let a transaction write something, and end in that state or not at all."""
        self.high += 1
        if state != "committed":
            (self.open if state == "open" else self.aborted).add(self.high)
        for directory in _written(kind, self.high):
            statement = directory.statement_id or 0
            self.contents[directory.name] = frozenset({Event(self.high, statement, directory.kind.value)})

    def publish(self, plan: CompactionPlan) -> None:
        """Write the outputs of a plan."""
        self.last_txn += 1
        ids = self.ids()
        read = {one.name: self.contents[one.name] for one in (plan.base, *plan.deltas) if one}
        for output in plan.outputs:
            events = {e for held in read.values() for e in held if ids.is_valid(e.write_id)}
            if not output.is_base:
                events = {
                    e for e in events if (e.kind == "delete_delta") is (output.kind is DirectoryKind.DELETE_DELTA)
                }
            elif self.layout is Layout.HIVE3:
                self.compacted.add(output.name)
            self.contents[output.name] = frozenset(events)

    def delete(self, names: set[str]) -> None:
        """Clean up."""
        for name in names:
            del self.contents[name]

    def rows(self, high: int | None = None) -> list[Event]:
        """Return what a reader sees, each event as often as it is read."""
        ids = self.ids(high)
        found = snapshot(self.listing(), ids, valid_txns=self.txns())
        directories = (*((found.base,) if found.base else ()), *found.deltas)
        return sorted(e for one in directories for e in self.contents[one.name] if ids.is_valid(e.write_id))


def _written(kind: str, write_id: int) -> list[AcidDirectory]:
    if kind == "overwrite":
        return [AcidDirectory.base(write_id)]
    inserts, deletes = {"insert": ([0], []), "delete": ([], [0]), "update": ([1], [0]), "merge": ([1, 2], [0, 2])}[kind]
    return [
        *(AcidDirectory.delta(write_id, write_id, statement) for statement in inserts),
        *(AcidDirectory.delete_delta(write_id, write_id, statement) for statement in deletes),
    ]


WRITE = st.tuples(
    st.sampled_from(["insert", "insert", "delete", "update", "merge", "overwrite"]),
    st.sampled_from(["committed", "committed", "committed", "committed", "aborted", "open"]),
)
STEP = st.one_of(WRITE, WRITE, st.sampled_from([*CompactionType]), st.just("clean"))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Draw a table with a past."""
    table = Table(draw(st.sampled_from([*Layout])))
    for step in draw(st.lists(STEP, min_size=1, max_size=10)):
        if isinstance(step, CompactionType):
            table.publish(table.plan(step))
        elif isinstance(step, str):
            table.delete({*_obsolete_now(table)})
        else:
            kind, state = step
            # An INSERT OVERWRITE excludes other writers; and one that is not committed is not there yet.
            blocked = kind == "overwrite" and (table.open or state == "open")
            table.write("insert" if blocked else kind, state)
    return table


def _obsolete_now(table: Table) -> dict[str, str]:
    return obsolete_now(table.listing(), table.ids(), valid_txns=table.txns(), highest_write_id=table.ids().watermark)


KINDS = pytest.mark.parametrize("kind", [*CompactionType])
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
    table.publish(plan)
    assert table.rows() == before
    assert len(before) == len({*before})
    table.delete({entry.name for entry in plan.obsolete})
    assert table.rows() == before


@KINDS
@LAW
@given(table=tables(), data=st.data())
def test_older_snapshots_see_the_same_or_are_told_that_history_is_missing(kind, table, data):
    """A first major breaks older snapshots at publication (H24); a minor never does."""
    high = data.draw(st.integers(0, table.high))
    try:
        before = table.rows(high)
    except NotEnoughHistory:
        return
    table.publish(table.plan(kind))
    try:
        assert table.rows(high) == before
    except NotEnoughHistory:
        assert kind is CompactionType.MAJOR


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


@KINDS
@LAW
@given(table=tables(), data=st.data())
def test_the_order_of_the_listing_does_not_matter(kind, table, data):
    plan = table.plan(kind)
    table.contents = dict(data.draw(st.permutations([*table.contents.items()])))
    assert table.plan(kind) == plan


@KINDS
@LAW
@given(table=tables(), other=st.sampled_from([*CompactionType]), late=st.lists(WRITE, max_size=3))
def test_of_two_overlapping_compactions_the_later_one_is_refused_or_harmless(kind, table, other, late):
    """H23: both were planned before either was published, or the other one when more had been written."""
    plan = table.plan(kind)
    table.last_txn += 1
    for operation, _ in late:
        table.write("insert" if operation == "overwrite" else operation, "committed")
    table.publish(table.plan(other))
    before = table.rows()
    if plan.outputs and check_still_publishable(plan, table.listing()) is None:
        table.publish(plan)
    assert table.rows() == before
