"""The matrix of Hudi's releases (`make hudi-matrix`) in short: each release with tables of its own."""

from dataclasses import replace
from pathlib import Path

from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering

from tests.integration.hudi.conftest import NEWEST
from tests.soak.hudi_matrix.history import Writes
from tests.soak.hudi_matrix.report import faults
from tests.soak.hudi_matrix.run import NO_JVM, By, Cell, Query, Seen, State, proceed, read, read_without_a_jvm

ORDERINGS = {"1.0.2": Ordering.EVENT_TIME, "1.2.0": Ordering.COMMIT_TIME}


def test_rows_and_history_stay_the_same_for_the_writers_release_and_without_a_jvm(
    hudi: HudiSession, tmp_path: Path
) -> None:
    """The whole matrix also lets other releases compact and read."""
    version, ordering = int(NEWEST[hudi.version]), ORDERINGS[hudi.version]
    cell = Cell(hudi.version, version, ordering, Writes.WHOLE, hudi.version, tmp_path / By.OPERATOR.name / "cell")
    # NB: nothing is excused, as no reader says anything of this control.
    control = replace(cell, read={}, done={})
    proceed(hudi, [cell])
    read(hudi, [cell])
    read_without_a_jvm([cell])
    assert faults([cell, control]) == []
    assert list(cell.done) == [State.MERGED, State.COMPACTED, State.CLEANED]
    for reader in (hudi.version, NO_JVM):
        assert {Seen(state) for state in State} | {Seen(State.COMPACTED, Query.AS_OF_EARLY)} <= set(cell.read[reader])
        assert not cell.read[reader][Seen(State.WRITTEN)]
