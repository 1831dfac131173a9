"""Log files read without the JVM are what Hudi's own reader finds: kinds, instants, merged blocks, rollbacks.

Blocks of changed columns only are in `test_rfc_narrowing.py`.
"""

import pytest
from sandbox.hudi.look import log_files
from sandbox.hudi.session import HudiSession

from tests.integration.hudi.conftest import MakeOtherClient, MakeTable
from tests.integration.hudi.dying import log_compaction_dies
from tests.integration.hudi.headers import read_alike, read_twice
from tests.integration.hudi.other_client import LOG_COMPACTION, SHARED
from tests.integration.hudi.test_rfc_failures import OPTIONS, roll_back

INT = 2
"""The type of the ordering value of a delete by operation."""


def test_a_file_says_the_same_without_the_jvm(
    hudi: HudiSession, make_table: MakeTable, other_client: MakeOtherClient
) -> None:
    table = make_table(options=SHARED)
    table.delete(range(5))
    other_client(table, OPTIONS | SHARED).all_of(LOG_COMPACTION)
    found = read_alike(hudi, table.location)
    assert [len(file.replaces) for file in found if file.replaces] == [5]
    assert [file.deletes for file in found if file.deletes] == [{INT}, {INT}]


@pytest.mark.only("1.0.2")
def test_a_file_of_version_6_says_the_same_with_the_rollback_in_it(
    hudi: HudiSession, make_table: MakeTable, other_client: MakeOtherClient
) -> None:
    table = make_table(version="6", options=SHARED)
    client = other_client(table, OPTIONS | SHARED)
    dead = log_compaction_dies(client)
    roll_back(client, dead)
    found = read_alike(hudi, table.location, names_have_instants=False)
    assert [file.rolls_back for file in found if file.rolls_back] == [{dead}]


def test_a_file_that_was_cut_off_is_left_to_hudis_reader(hudi: HudiSession, make_table: MakeTable) -> None:
    table = make_table()
    last = log_files(table.location)[-1]
    last.write_bytes(last.read_bytes()[:-3])
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    *_, (ours, theirs) = read_twice(hudi, table.location)
    assert ours is None
    assert theirs.size == last.stat().st_size
