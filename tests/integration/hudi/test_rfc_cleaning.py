"""RFC-48: when merged blocks and replaced log files go, and archival."""

from sandbox.hudi.look import base_files, log_files, meta_client, timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import SmallTable

from tests.integration.hudi import other_client as by_hand
from tests.integration.hudi.conftest import MakeOtherClient
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs

OPTIONS = {"hoodie.log.compaction.blocks.threshold": "2", **by_hand.LATEST_ONLY}
KEEP_FEW = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.compact.inline.max.delta.commits": "1",
}


def test_log_files_go_only_with_the_cleaner_after_a_full_compaction(
    table: SmallTable, other_client: MakeOtherClient
) -> None:
    """This includes replaced ones. Unlike in the RFC, the cleaner does not delete them earlier."""
    client = other_client(table, OPTIONS)
    client.all_of(by_hand.LOG_COMPACTION)
    assert client.clean() == 0
    assert len(log_files(table.location)) == 5
    client.all_of(by_hand.COMPACTION)
    assert len(log_files(table.location)) == 5
    assert client.clean() == 6
    assert not log_files(table.location)
    assert len(base_files(table.location)) == 1
    table.check("after the clean")


def test_log_compactions_are_archived_if_the_job_is_asked_to(hudi: HudiSession, table: SmallTable, jobs: Jobs) -> None:
    few = OPTIONS | KEEP_FEW
    instant = jobs.done(table, LOG_COMPACTION, options=few).instant
    assert instant
    table.upsert(range(20), 50)
    before = timeline(table.location)
    jobs.done(table, COMPACTION, options=few, clean=True)
    assert set(before) <= set(timeline(table.location))
    table.upsert(range(20), 60)
    jobs.done(table, COMPACTION, options=few, clean=True, archive=True)
    assert not [name for name in timeline(table.location) if name.startswith(instant)]
    assert meta_client(hudi, table.location).getArchivedTimeline().containsInstant(instant)
    table.check("after archiving")
