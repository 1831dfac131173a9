"""Tables of 0.15 that were taken over: what counts as a fault."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from compaction_operator.api.request import Reason
from tests.soak.hudi_matrix.history import Row, row_of
from tests.soak.hudi_matrix.run import NO_JVM, OF_0_15, WRITERS
from tests.soak.hudi_matrix.taken_over import ORIGINS, State, Takeover, faults, table_of, takeovers

OLD, NEW = [row_of(0, 30)], [row_of(0, 20)]


def taken_over(read: Mapping[State, list[Row] | str], reason: Reason = Reason.COMPACTED) -> Takeover:
    """A table that all readers show alike in each state. Only the reader without a JVM shows what is given."""
    found = Takeover(ORIGINS[0], "1.2.0", 8, "1.2.0", Path("x"))
    found.done = {State.MERGED: reason, State.COMPACTED: reason}
    found.read = {reader: dict.fromkeys(State, OLD) for reader in (*WRITERS, NO_JVM)}
    found.read[OF_0_15][State.OLD] = NEW
    found.read[NO_JVM] |= read
    return found


def test_what_an_upgrade_changes_is_no_fault_of_the_operator() -> None:
    assert faults([taken_over({})]) == []
    assert "| stay, the same for all readers |" in table_of([taken_over({})])


@pytest.mark.parametrize(
    ("state", "after"), [(State.MERGED, NEW), (State.COMPACTED, [*OLD, *OLD]), (State.COMPACTED, "HudiCoreError: no")]
)
def test_what_a_service_changes_is_a_fault(state: State, after: list[Row] | str) -> None:
    found = taken_over({state: after})
    assert len(faults([found])) == 1
    assert "| WRONG |" in table_of([found])


def test_readers_that_disagree_make_a_compaction_a_fault_and_a_refusal_none() -> None:
    shown: dict[State, list[Row] | str] = dict.fromkeys((State.TAKEN, State.MERGED, State.COMPACTED), NEW)
    assert len(faults([taken_over(shown)])) == 1
    assert faults([taken_over(shown, Reason.UNSUPPORTED_TABLE)]) == []


def test_a_service_that_neither_ends_nor_refuses_is_a_fault() -> None:
    assert len(faults([taken_over({}, Reason.WAITING_FOR_INSTANT)])) == 2


def test_the_known_error_without_a_jvm_is_named() -> None:
    found = taken_over({State.MERGED: "HudiCoreError: reconcile: column 'ColumnStatsMetadata'"})
    assert faults([found]) == []
    assert "no JVM: errors" in table_of([found])


def test_each_release_takes_each_kind_of_table_over_with_and_without_an_upgrade() -> None:
    found = takeovers(Path("x"))
    assert len({one.folder for one in found}) == len(found) == 30
    assert {(one.release, one.version) for one in found} >= {("1.0.2", 6), ("1.0.2", 8), ("1.2.0", 6), ("1.2.0", 9)}
