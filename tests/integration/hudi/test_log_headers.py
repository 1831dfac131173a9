"""Log files read without the JVM are what Hudi's own reader finds: kinds, instants, merged and partial blocks."""

from dataclasses import replace
from pathlib import Path

import pytest
from sandbox.hudi.look import log_files, meta_client
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import SmallTable

from compaction_operator.hudi import LogFile
from compaction_operator.hudi.jvm.log_files import LogFiles
from tests.integration.hudi.conftest import MakeOtherClient, MakeTable
from tests.integration.hudi.dying import log_compaction_dies
from tests.integration.hudi.other_client import LOG_COMPACTION, SHARED
from tests.integration.hudi.test_rfc_failures import OPTIONS, roll_back

INT = 2
"""The type of the ordering value of a delete by operation."""


def both(hudi: HudiSession, location: Path, *, names_have_instants: bool) -> list[tuple[LogFile | None, LogFile]]:
    """Return each log file of an unpartitioned table as Python and as Hudi's reader find it."""
    storage = meta_client(hudi, location).getStorage()
    files = LogFiles(hudi.jvm.org.apache.hudi, storage, str(location), names_have_instants=names_have_instants)
    names = [str(path.relative_to(location)) for path in log_files(location)]
    return [(files._open(("", name)), files._hudis("", name)) for name in names]


def typed(theirs: LogFile, ours: LogFile | None) -> LogFile:
    """Return what Hudi's reader found, with the types of deletes that only Python reads."""
    return replace(theirs, deletes=ours.deletes) if ours and ours.deletes and theirs.deletes else theirs


def merge_into(hudi: HudiSession, table: SmallTable) -> None:
    """Change one column of some rows."""
    hudi.spark.sql(f"create table partial using hudi location '{table.location}'")
    hudi.spark.conf.set("hoodie.compact.inline", "false")
    changed = "select id, cast(60 as long) ts from range(0, 20)"
    hudi.spark.sql(f"merge into partial t using ({changed}) s on t.id = s.id when matched then update set t.ts = s.ts")
    hudi.spark.conf.unset("hoodie.compact.inline")
    hudi.spark.sql("drop table partial")


def test_a_file_says_the_same_without_the_jvm(
    hudi: HudiSession, make_table: MakeTable, other_client: MakeOtherClient
) -> None:
    table = make_table(options=SHARED)
    table.delete(range(5))
    other_client(table, OPTIONS | SHARED).all_of(LOG_COMPACTION)
    merge_into(hudi, table)
    pairs = both(hudi, table.location, names_have_instants=True)
    assert [ours for ours, _ in pairs] == [typed(theirs, ours) for ours, theirs in pairs]
    found = [theirs for _, theirs in pairs]
    assert [len(file.replaces) for file in found if file.replaces] == [5]
    assert [ours.deletes for ours, _ in pairs if ours and ours.deletes] == [{INT}, {INT}]
    assert [file.partial for file in found] == [False] * 6 + [True]


@pytest.mark.only("1.0.2")
def test_a_file_of_version_6_says_the_same_with_the_rollback_in_it(
    hudi: HudiSession, make_table: MakeTable, other_client: MakeOtherClient
) -> None:
    table = make_table(version="6", options=SHARED)
    client = other_client(table, OPTIONS | SHARED)
    dead = log_compaction_dies(client)
    roll_back(client, dead)
    pairs = both(hudi, table.location, names_have_instants=False)
    assert [ours for ours, _ in pairs] == [typed(theirs, ours) for ours, theirs in pairs]
    assert [theirs.rolls_back for _, theirs in pairs if theirs.rolls_back] == [{dead}]


def test_a_file_that_was_cut_off_is_left_to_hudis_reader(hudi: HudiSession, make_table: MakeTable) -> None:
    table = make_table()
    last = log_files(table.location)[-1]
    last.write_bytes(last.read_bytes()[:-3])
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    *_, (ours, theirs) = both(hudi, table.location, names_have_instants=True)
    assert ours is None
    assert theirs.size == last.stat().st_size
