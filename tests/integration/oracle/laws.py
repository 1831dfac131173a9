"""What must hold around a compaction: each snapshot gives Hive the same rows before, after, and after the deletion."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from compaction_operator.acid.names import GUARD_BASE, METADATA_ACID, METADATA_ACID_CONTENT
from compaction_operator.acid.plan import CompactionPlan, Layout
from compaction_operator.acid.snapshot import NotEnoughHistory, UnsupportedLayout
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.merge.partition import Request
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.driver.offline import compact_directory, plan_directory
from compaction_operator.orc import OrcError
from compaction_operator.storage import StorageError
from tests.integration.oracle.hive import HiveOracle, OracleError, Row

NO_END = 2**63 - 1
ALL_TXNS = f"{NO_END}:{NO_END}::"
REFUSALS = (JobError, UnsupportedLayout, NotEnoughHistory, OrcError, StorageError)


class View(NamedTuple):
    """What a reader may hold: its write ids and its transactions, as Hive writes them."""

    write_ids: str
    txns: str = ALL_TXNS


class Refused(Exception):  # noqa: N818 - a verdict, not a failure
    """The compaction was refused; the message is its reason."""


class Broken(AssertionError):  # noqa: N818 - a law was broken
    """Hive saw something else than it must."""


Seen = list[Row] | str
"""Rows in the order of their ROW__IDs, or Hive's error."""


@dataclass(frozen=True)
class Case:
    """One directory, how Hive reads it, and how it is to be compacted.

    `current` is the snapshot by which the compaction works and every later reader reads; `older` are those of readers
    that may still run. `declared` tells the compaction the table's row type.
    """

    hive: HiveOracle
    directory: Path
    row_type: str | None
    current: View
    older: Sequence[View]
    type: CompactionType
    txn: int | None = None
    declared: bool = False
    modes: Sequence[bool] = field(default=(False, True))

    def request(self) -> Request:
        """Return what `compact_directory` is asked for; in Hive 4's layout, `txn` names the output."""
        layout = Layout.HIVE3 if self.hive.version == 3 else Layout.HIVE4
        txns = ValidTxnList.parse(self.current.txns)
        row_type = self.row_type if self.declared else None
        return Request(type=self.type, layout=layout, visibility_txn=self.txn, valid_txns=txns, row_type=row_type)

    def see(self, view: View, *, vectorized: bool) -> Seen:
        """Return what Hive reads."""
        try:
            rows = self.hive.read(
                self.directory,
                write_ids=view.write_ids,
                txns=view.txns,
                row_type=self.row_type,
                vectorized=vectorized,
            )
        except OracleError as error:
            return str(error)
        return sorted(rows, key=lambda row: row[:3])

    def see_all(self, views: Iterable[View]) -> dict[tuple[View, bool], Seen]:
        """Return what Hive reads by each snapshot, row by row and (True) vectorised."""
        return {(view, mode): self.see(view, vectorized=mode) for view in views for mode in self.modes}


def check(case: Case, *, guarded: bool) -> CompactionPlan:
    """Compact and ask Hive after each step; returns what was done.

    With `guarded` a first major of Hive 3 leaves older snapshots readable, by the guard base; without it they are not
    asked for. Raises Broken, or Refused if the compaction is refused.
    """
    planned = _plan(case)
    guard = guarded and planned.breaks_older_snapshots and not planned.has_originals
    views = [case.current, *(case.older if guard or not planned.breaks_older_snapshots else ())]
    before = case.see_all(views)
    if guard:
        _publish_guard(case.directory)
        _compare("with the guard base", before, case.see_all(views))
    plan = _compact(case)
    _compare("after the compaction", before, case.see_all(views))
    if plan.outputs:
        _check_state(case, plan)
        if again := _compact(case).outputs:
            raise Broken(f"a second compaction would write {[output.name for output in again]}")
    return plan


def check_deletion(case: Case, plan: CompactionPlan) -> None:
    """Delete what the plan says is obsolete: later readers must see what was there before."""
    before = case.see_all([case.current])
    for entry in plan.obsolete:
        path = case.directory / entry.name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    _compare("after the deletion", before, case.see_all([case.current]))


def _plan(case: Case) -> CompactionPlan:
    try:
        write_ids = ValidWriteIdList.parse(case.current.write_ids)
        return plan_directory(str(case.directory), write_ids=write_ids, request=case.request()).plan
    except REFUSALS as error:
        raise Refused(f"{type(error).__name__}: {error}") from error


def _compact(case: Case) -> CompactionPlan:
    try:
        write_ids = ValidWriteIdList.parse(case.current.write_ids)
        done = compact_directory(str(case.directory), write_ids=write_ids, request=case.request(), runner=LocalRunner())
    except REFUSALS as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
    return done.plan


def _publish_guard(directory: Path) -> None:
    guard = directory / GUARD_BASE.name
    guard.mkdir()
    (guard / METADATA_ACID).write_bytes(METADATA_ACID_CONTENT)


def _compare(when: str, before: dict[tuple[View, bool], Seen], after: dict[tuple[View, bool], Seen]) -> None:
    """Raise Broken for the first snapshot that sees something else; one that Hive could not read before may fail on."""
    for (view, vectorized), seen in after.items():
        expected = before[view, vectorized]
        if seen != expected and not isinstance(expected, str):
            reader = "vectorised reader" if vectorized else "row reader"
            raise Broken(f"{when} the {reader} with {view} sees {_difference(expected, seen)}")


def _difference(expected: list[Row], seen: Seen) -> str:
    if isinstance(seen, str):
        return f"an error: {seen}"
    missing = [row for row in expected if row not in seen]
    new = [row for row in seen if row not in expected]
    if not missing and not new:
        return f"some of {len(expected)} rows more than once ({len(seen)} rows)"
    return f"{len(seen)} rows instead of {len(expected)}; missing {missing[:2]}, new {new[:2]}"


def _check_state(case: Case, plan: CompactionPlan) -> None:
    """Hive must use each output, and must itself hold for obsolete all that the plan does."""
    watermark = ValidWriteIdList.parse(case.current.write_ids)
    state = case.hive.state(
        case.directory, write_ids=str(watermark.capped(watermark.watermark)), txns=case.current.txns
    )
    used = {state.base, *state.current}
    if unused := [output.name for output in plan.outputs if output.name not in used]:
        raise Broken(f"Hive does not use {unused}: {state}")
    # Hive 3 lists aborted directories of full-ACID tables nowhere; Hive 4 calls no file of before ACID obsolete.
    unneeded = {*state.obsolete, *state.aborted}
    named = [entry.name for entry in plan.obsolete if entry.name.startswith(("base_", "delta_", "delete_delta_"))]
    aborted = {entry.name for entry in plan.obsolete if entry.reason == "aborted" and case.hive.version == 3}
    if needed := [name for name in named if name not in unneeded | aborted]:
        raise Broken(f"Hive does not hold {needed} for obsolete: {state}")
