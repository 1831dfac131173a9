"""A driver that dies between the file of its plan or commit and the content of it: Hudi writes in place but on HDFS."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from sandbox.hudi.look import actions, timeline
from sandbox.hudi.table import Ordering, SmallTable

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from tests.integration.hudi.conftest import MakeTable
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.integration.hudi.other_client import LATEST_ONLY

pytestmark = pytest.mark.metadata_table

OPTIONS = {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.compact.inline.max.delta.commits": "1", **LATEST_ONLY}


def cut_short(table: SmallTable, instant: str | None) -> Path:
    """Leave the commit of an instant without content, and return its file."""
    (name,) = (name for name in timeline(table.location) if name.startswith(f"{instant}_"))
    return emptied(table.location / ".hoodie" / "timeline" / name)


def emptied(path: Path) -> Path:
    """Leave nothing in a file, as Hadoop's local file system does until it is closed."""
    for one in (path, path.with_name(f".{path.name}.crc")):
        one.write_bytes(b"")
    return path


@pytest.mark.parametrize("kind", [LOG_COMPACTION, COMPACTION], ids=str)
def test_a_plan_without_content_is_removed_and_writers_can_write_again(
    make_table: MakeTable, jobs: Jobs, kind: CompactionType
) -> None:
    """With it, neither readers nor writers can read the pending plans of the table."""
    table = make_table(Ordering.COMMIT_TIME)
    planned = jobs.run(table, kind, options=OPTIONS, mode="Schedule").hudi
    assert planned is not None
    assert planned.instant is not None
    emptied(table.location / ".hoodie" / "timeline" / f"{planned.instant}.{planned.action}.requested")
    with pytest.raises(Py4JJavaError, match="EOFException"):
        table.read()
    status = jobs.done(table, kind, options=OPTIONS)
    assert status.removed == (planned.instant,)
    table.upsert(range(30, 65), 35)
    table.check("after the next write")


def test_a_log_compaction_is_rolled_back_and_repeated(make_table: MakeTable, jobs: Jobs) -> None:
    """1.0.2 would fail each time that it checks a commit against the empty one."""
    table = make_table(Ordering.COMMIT_TIME)
    first = jobs.done(table, LOG_COMPACTION, options=OPTIONS).instant
    assert first is not None
    cut_short(table, first)
    table.upsert(range(30, 65), 35)
    table.check("with a commit without content")
    status = jobs.done(table, LOG_COMPACTION, options=OPTIONS)
    assert (status.rolled_back, status.blocks_in) == ((first,), 5)
    assert actions(table.location, first) == []
    table.check("after the next log compaction")
    jobs.done(table, COMPACTION, options=OPTIONS)
    table.check("after the compaction")


def test_a_compaction_is_run_again(make_table: MakeTable, jobs: Jobs) -> None:
    table = make_table(Ordering.COMMIT_TIME)
    first = jobs.done(table, COMPACTION, options=OPTIONS).instant
    commit = cut_short(table, first)
    table.upsert(range(30, 65), 35)
    table.check("with a commit without content")
    waits = jobs.run(table, LOG_COMPACTION, options=OPTIONS)
    assert (waits.reason, commit.exists()) == (Reason.NOTHING_TO_COMPACT, False)
    table.check("with a compaction that has begun")
    status = jobs.done(table, COMPACTION, options=OPTIONS)
    assert status.file_groups == 2
    assert cut_short(table, first).exists()
    table.check("after it, and one more")


@pytest.mark.only("1.0.2")
def test_a_compaction_is_left_as_it_is_once_what_it_replaced_is_cleaned(make_table: MakeTable, jobs: Jobs) -> None:
    """To roll it back would lose all."""
    table = make_table(Ordering.COMMIT_TIME)
    commit = cut_short(table, jobs.done(table, COMPACTION, options=OPTIONS, clean=True).instant)
    jobs.run(table, COMPACTION, options=OPTIONS)
    assert commit.exists()
    table.check("after the next run")
