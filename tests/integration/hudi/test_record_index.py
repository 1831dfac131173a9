"""Compactions of a table with a record index, where the status of each file holds all its keys."""

from collections.abc import Iterator
from typing import Any

import pytest
from sandbox.hudi.look import base_files, merged_blocks
from sandbox.hudi.session import HudiSession

from compaction_operator.hudi.jvm import writes
from tests.integration.hudi.conftest import MakeTable
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.integration.hudi.test_rfc_metadata_table import READ_BY_METADATA, WITH_METADATA

TWO = {"hoodie.log.compaction.blocks.threshold": "2"}
EACH_TIME = {"hoodie.compact.inline.max.delta.commits": "1"}


def test_the_statuses_come_one_file_group_after_another_and_nothing_is_written_twice(
    hudi: HudiSession, make_table: MakeTable, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[int] = []

    def counted(rdd: Any) -> Iterator[Any]:
        for status in own(rdd):
            keys.append(int(status.getWrittenRecordDelegates().size()))
            yield status

    own = writes.one_by_one
    monkeypatch.setattr(writes, "one_by_one", counted)
    table = make_table(options=WITH_METADATA)
    table.upsert(range(30, 60), 50)
    table.upsert(range(40, 80), 60)
    jobs.done(table, LOG_COMPACTION, options=TWO)
    assert len(merged_blocks(hudi, table.location)) == 1
    table.check("after the log compaction", **READ_BY_METADATA)
    jobs.done(table, COMPACTION, options=EACH_TIME)
    assert len(base_files(table.location)) == 2
    table.check("after the compaction", **READ_BY_METADATA)
    assert (len(keys), keys[-1]) == (2, 200), keys
