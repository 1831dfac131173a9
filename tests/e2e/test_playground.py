"""The playground's SQL client on a real metastore: what it writes is compacted, and whom it plays is waited for."""

from collections.abc import Iterator

import click
import pytest
from sandbox.harness.tables import TRY_IT
from sandbox.playground.client import SqlClient
from sandbox.playground.effects import StatementError

from tests.e2e.scene import Scene


@pytest.fixture
def client(scene: Scene) -> Iterator[SqlClient]:
    client = SqlClient(scene.warehouse, "alice")
    yield client
    client.close()


def said(client: SqlClient, statement: str) -> list[str]:
    """Return the lines without colours, and with one blank between two columns."""
    return [" ".join(click.unstyle(line).split()) for line in client.run(statement)]


def test_statements_are_compacted_and_a_reader_holds_up_the_cleanup(scene: Scene, client: SqlClient) -> None:
    table = scene.table(TRY_IT)
    name = f"{table.database}.{table.name}"
    rows = f"SELECT * FROM {name} ORDER BY id, prt"
    assert said(client, f"INSERT INTO {name} VALUES (71, 'a', 'b', 'p1'), (72, NULL, 'b', 'p9')") == [
        f"{name}: write id 7, 0 deleted, 2 inserted"
    ]
    assert said(client, f"UPDATE {name} SET a_val = 'new' WHERE id = 71") == [
        f"{name}: write id 8, 1 deleted, 1 inserted"
    ]
    assert said(client, f"DELETE FROM {name} WHERE id = 72") == [f"{name}: write id 9, 1 deleted, 0 inserted"]
    assert "71 new b p1" in said(client, rows)
    before = said(client, rows)

    assert "alice" in said(client, "BEGIN")[0]
    assert said(client, rows) == before
    with pytest.raises(StatementError, match="COMMIT first"):
        said(client, f"DELETE FROM {name}")
    # NB: a minor compaction of deletes would wait for alice itself.
    compaction = scene.compact(table, "Major")
    scene.compactions.wait_succeeded(compaction)
    cleanup = scene.cleanup_of(compaction)
    blocked = scene.compactions.wait_blocked(cleanup)
    assert {one.user for one in blocked.blockers} == {"alice"}
    said(client, "COMMIT")
    assert scene.compactions.wait_cleaned(cleanup).directories_deleted
    assert said(client, rows) == before


def test_a_statement_that_names_no_table_says_which_there_are(scene: Scene, client: SqlClient) -> None:
    table = scene.table(TRY_IT)
    with pytest.raises(StatementError, match=rf"it names no table; there are .*{table.database}\.{table.name}"):
        said(client, "SELECT 1")
