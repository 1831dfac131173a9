"""The playground's SQL: what a statement changes is what Hive would write."""

import pytest
from sandbox.playground.effects import Change, Content, RowId, StatementError, mentioned, outcome

COLUMNS = (("id", "int"), ("name", "string"))
ONE, TWO = RowId("t", 1, 536870912, 0), RowId("t", 2, 536870912, 0)
TABLE = Content(COLUMNS, ((ONE, (1, "eins")), (TWO, (2, None))))
PARTED = Content((*COLUMNS, ("day", "string")), ((RowId("day=1", 1, 536870912, 0), (1, "eins", "1")),))


def change(statement: str) -> Change:
    return outcome(statement, {"default.t": TABLE}).changes["default.t"]


def test_a_select_returns_rows_and_changes_nothing() -> None:
    found = outcome("SELECT name, id FROM t WHERE id = 1", {"default.t": TABLE})
    assert (found.headings, found.rows, found.changes) == (("name", "id"), (("eins", 1),), {})


def test_an_insert_adds_rows_in_the_order_of_columns() -> None:
    assert change("INSERT INTO t VALUES (3, 'drei'), (4, NULL)") == Change((), ((3, "drei"), (4, None)))
    assert change("insert into default.t (name) values ('x')") == Change((), ((None, "x"),))


def test_an_update_deletes_a_row_and_inserts_another() -> None:
    assert change("UPDATE t SET name = 'zwei' WHERE name IS NULL") == Change((TWO,), ((2, "zwei"),))


def test_a_delete_names_the_rows_by_their_ids() -> None:
    assert change("DELETE FROM t") == Change((ONE, TWO), ())
    assert outcome("DELETE FROM t WHERE id > 9", {"default.t": TABLE}).changes == {}


def test_a_partition_key_is_a_column() -> None:
    found = outcome("UPDATE sales.t SET day = '2'", {"sales.t": PARTED}).changes["sales.t"]
    assert found.inserted == ((1, "eins", "2"),)


def test_a_statement_may_read_one_table_and_write_another() -> None:
    tables = {"default.t": TABLE, "sales.u": Content(COLUMNS, ())}
    found = outcome("INSERT INTO sales.u SELECT * FROM t", tables).changes
    assert found == {"sales.u": Change((), ((1, "eins"), (2, None)))}


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DROP TABLE t", "use SELECT, INSERT, UPDATE or DELETE"),
        ("ATTACH '/etc/passwd' AS x", "use SELECT, INSERT, UPDATE or DELETE"),
        ("SELEC 1", 'near "SELEC": syntax error'),
        ("SELECT missing FROM t", "no such column: missing"),
        ("INSERT INTO t VALUES ('x', 'y')", "default.t.id is int, and 'x' is not"),
    ],
)
def test_what_it_cannot_run_says_why(statement: str, says: str) -> None:
    with pytest.raises(StatementError) as error:
        outcome(statement, {"default.t": TABLE})
    assert str(error.value) == says


def test_a_table_with_other_types_is_refused_by_its_column() -> None:
    with pytest.raises(StatementError, match=r"default\.t\.price is decimal\(9,2\); this client knows int"):
        outcome("SELECT 1 FROM t", {"default.t": Content((("price", "decimal(9,2)"),), ())})


def test_tables_are_known_by_their_names_in_the_statement() -> None:
    known = {"default.t", "sales.t", "sales.u"}
    assert mentioned("SELECT * FROM T, sales.u", known) == ["default.t", "sales.u"]
    assert mentioned("SELECT 1", known) == []
