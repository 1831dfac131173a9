"""Savepoints and rollbacks by hand: what they find after the operator's compactions."""

import pytest
from sandbox.hudi.look import actions, merged_blocks, timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering

from compaction_operator.api.compaction import CompactionType
from tests.integration.hudi.conftest import MakeOtherClient, MakeTable
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.integration.hudi.other_client import LATEST_ONLY, SHARED

pytestmark = pytest.mark.metadata_table

EACH_TIME = {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.compact.inline.max.delta.commits": "1"}


def last_commit(names: list[str]) -> str:
    """Return the instant of the newest completed delta commit among file names of a timeline."""
    return [name for name in names if name.endswith(".deltacommit")][-1].partition(".")[0].partition("_")[0]


@pytest.mark.parametrize(
    ("ordering", "kinds"),
    [(Ordering.EVENT_TIME, (LOG_COMPACTION,)), (Ordering.COMMIT_TIME, (LOG_COMPACTION, COMPACTION))],
    ids=["merged", "compacted"],
)
def test_a_restore_brings_back_the_rows_of_its_savepoint(
    make_table: MakeTable,
    jobs: Jobs,
    other_client: MakeOtherClient,
    ordering: Ordering,
    kinds: tuple[CompactionType, ...],
) -> None:
    """The cleaner of a full compaction leaves the files of a savepoint alone.

    NB: a restore takes whole files and blocks away and merges no rows, so each ordering is there once.
    """
    table = make_table(ordering)
    saved = dict(table.expected)
    instant = last_commit(timeline(table.location))
    other_client(table, SHARED).client.savepoint(instant, "user", "before the compactions")
    for kind in kinds:
        table.upsert(range(30, 65), 50)
        jobs.done(table, kind, options=EACH_TIME | LATEST_ONLY, clean=kind is COMPACTION)
    table.upsert(range(20), 60)
    table.check("before the restore")
    other_client(table, SHARED).client.restoreToSavepoint(instant)
    table.expected = saved
    table.check("after the restore")
    table.upsert(range(10, 50), 70)
    table.check("with a commit on top")
    jobs.done(table, COMPACTION, options=EACH_TIME)
    table.check("after the next compaction")


def test_a_rollback_by_hand_of_a_merged_commit_leaves_its_rows_in_the_merged_block(
    hudi: HudiSession, make_table: MakeTable, jobs: Jobs, other_client: MakeOtherClient
) -> None:
    """With LAZY, Hudi rolls a commit back though later ones build on it. docs/hudi.md warns of it."""
    table = make_table(Ordering.COMMIT_TIME)
    instant = last_commit(timeline(table.location))
    jobs.done(table, LOG_COMPACTION, options=EACH_TIME)
    assert other_client(table, SHARED).client.rollback(instant)
    assert not actions(table.location, instant)
    (merged,) = merged_blocks(hudi, table.location)
    assert instant in merged.merged
    table.check("after the rollback")
