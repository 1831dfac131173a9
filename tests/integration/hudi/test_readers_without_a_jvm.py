"""What the reader without a JVM shows, beside the matrix (`tests/soak/hudi_matrix`)."""

from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from sandbox.hudi.look import merged_blocks
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering

from tests.integration.hudi import other_client as by_hand
from tests.integration.hudi.job import LOG_COMPACTION, Jobs
from tests.integration.hudi.other_client import OtherClient
from tests.soak.hudi_matrix.history import FIRST, Model
from tests.soak.hudi_matrix.table import MatrixTable

TWO = {"hoodie.log.compaction.blocks.threshold": "2"}


@pytest.mark.only("1.2.0")
def test_deletes_by_operation_and_by_flag_are_not_merged_into_one_block(
    hudi: HudiSession, jobs: Jobs, tmp_path: Path
) -> None:
    """The reader refuses a block of both, which Hudi's own log compaction makes."""
    rows = Model(Ordering.EVENT_TIME, FIRST).rows()
    table = MatrixTable(tmp_path / "table", "9", Ordering.EVENT_TIME, listed=False)
    table.write(hudi.spark, FIRST)
    twin = replace(table, location=tmp_path / "twin")
    copytree(table.location, twin.location)
    jobs.done(table, LOG_COMPACTION, options=TWO)  # type: ignore[arg-type]
    kinds = [block.kind for block in merged_blocks(hudi, table.location)]
    assert "DELETE_BLOCK" in kinds
    assert table.read_without_a_jvm() == table.read(hudi.spark) == rows
    OtherClient(hudi, twin, TWO).all_of(by_hand.LOG_COMPACTION)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="Delete block mixes ordering types"):
        twin.read_without_a_jvm()


@pytest.mark.only("1.0.2")
@pytest.mark.parametrize(("version", "sees"), [("6", False), ("8", True)])
def test_writes_beside_a_pending_compaction(hudi: HudiSession, tmp_path: Path, version: str, sees: bool) -> None:
    """In version 6 the reader misses them until the compaction is complete, also if it is Hudi's own."""
    table = MatrixTable(tmp_path / "table", version, Ordering.EVENT_TIME)
    table.write(hudi.spark, FIRST[:2])
    client = OtherClient(hudi, table)  # type: ignore[arg-type]
    instant = client.schedule(by_hand.COMPACTION)
    assert instant is not None
    table.write(hudi.spark, FIRST[5:6])
    rows = table.read(hudi.spark)
    assert (table.read_without_a_jvm() == rows) is sees
    client.run(by_hand.COMPACTION, instant)
    assert table.read_without_a_jvm() == table.read(hudi.spark) == rows
