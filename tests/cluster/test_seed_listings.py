"""The listings of the openLooKeng document and of the blog's table, to the name, on a real cluster and metastore."""

from sandbox.harness import expected
from sandbox.harness.compactions import Compactions
from sandbox.harness.stage import Warehouse
from sandbox.harness.tables import TABLE_TXN_001, TRY_IT, HiveTable, fourth_write

from tests.cluster.conftest import Compact, MakeTable

Names = dict[str, frozenset[str]]


def published(compactions: Compactions, name: str) -> tuple[Names, Names]:
    """Return the outputs and the obsolete directories of a compaction that succeeded, once they are deleted."""
    compactions.wait_succeeded(name)
    outputs: Names = {}
    obsolete: Names = {}
    for cleanup in compactions.cleanups(name):
        compactions.wait_cleaned(cleanup)
        for entry in compactions.journal(cleanup).partitions:
            outputs[entry.partition] = frozenset(entry.outputs)
            obsolete[entry.partition] = frozenset(item.name for item in entry.obsolete)
    return outputs, obsolete


def left(warehouse: Warehouse, table: HiveTable) -> Names:
    names = table.partitions or ("",)
    return {name: frozenset(warehouse.toolbox.names(f"{table.location}/{name}")) for name in names}


def test_minor_then_major_then_minor_of_inserts(
    warehouse: Warehouse, compactions: Compactions, make_table: MakeTable, compact: Compact
) -> None:
    """Three inserts become a delta, then that a base; a minor right after a major has nothing to do."""
    table = make_table(TABLE_TXN_001)
    rows = warehouse.rows(table)
    minor = published(compactions, compact(table, "Minor"))
    assert minor == ({"": expected.AFTER_INSERTS_MINOR}, {"": expected.INSERTS})
    assert left(warehouse, table) == {"": expected.AFTER_INSERTS_MINOR}
    major = published(compactions, compact(table, "Major"))
    assert major == ({"": expected.AFTER_INSERTS_MAJOR}, {"": expected.AFTER_INSERTS_MINOR})
    assert left(warehouse, table) == {"": expected.AFTER_INSERTS_MAJOR}
    again = compact(table, "Minor")
    assert published(compactions, again) == ({}, {})
    assert "NothingToCompact" in {condition.reason for condition in compactions.status(again).conditions}
    assert left(warehouse, table) == {"": expected.AFTER_INSERTS_MAJOR}
    assert warehouse.rows(table) == rows


def test_major_after_minor_while_a_reader_reads(
    warehouse: Warehouse, compactions: Compactions, make_table: MakeTable, compact: Compact
) -> None:
    """With the inserts' deltas still there, the base makes them and the minor's delta obsolete."""
    table = make_table(TABLE_TXN_001)
    with warehouse.reader("reader").lock(table):
        compactions.wait_succeeded(compact(table, "Minor"))
        major = compact(table, "Major")
        compactions.wait_succeeded(major)
        kept = expected.INSERTS | expected.AFTER_INSERTS_MINOR | expected.AFTER_INSERTS_MAJOR
        assert left(warehouse, table) == {"": kept}
    obsolete = expected.INSERTS | expected.AFTER_INSERTS_MINOR
    assert published(compactions, major) == ({"": expected.AFTER_INSERTS_MAJOR}, {"": obsolete})
    assert left(warehouse, table) == {"": expected.AFTER_INSERTS_MAJOR}


def test_minor_with_deletes(
    warehouse: Warehouse, compactions: Compactions, make_table: MakeTable, compact: Compact
) -> None:
    """A fourth write that updates: one delta and one delete delta over all four."""
    table = make_table(TABLE_TXN_001)
    warehouse.writer.write(table, fourth_write())
    rows = warehouse.rows(table)
    found = published(compactions, compact(table, "Minor"))
    assert found == ({"": expected.AFTER_UPDATE_MINOR}, {"": expected.INSERTS | expected.UPDATE})
    assert left(warehouse, table) == {"": expected.AFTER_UPDATE_MINOR}
    assert warehouse.rows(table) == rows


def test_try_it_minor_then_major(
    warehouse: Warehouse, compactions: Compactions, make_table: MakeTable, compact: Compact
) -> None:
    """Each partition by its own write ids; p1 ends as a base without rows."""
    table = make_table(TRY_IT)
    rows = warehouse.rows(table)
    assert published(compactions, compact(table, "Minor")) == (expected.TRY_IT_AFTER_MINOR, expected.TRY_IT)
    assert left(warehouse, table) == expected.TRY_IT_AFTER_MINOR
    assert warehouse.rows(table) == rows
    found = published(compactions, compact(table, "Major"))
    assert found == (expected.TRY_IT_AFTER_MAJOR, expected.TRY_IT_AFTER_MINOR)
    assert left(warehouse, table) == expected.TRY_IT_AFTER_MAJOR
    assert warehouse.rows(table) == rows
