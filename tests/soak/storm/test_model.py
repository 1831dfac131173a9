"""The storm's checker finds each kind of fault, and the model knows what a snapshot sees."""

import pytest

from tests.integration.oracle.hive import Row
from tests.soak.storm.model import History, Rows, Write, bucket_of, difference, row_id

FIRST, SECOND, THIRD = (row_id(number, bucket=0, statement=0, number=0) for number in (1, 2, 3))
BOTH: Rows = {FIRST: (1, "a"), SECOND: (2, "b")}


def read(rows: Rows) -> list[Row]:
    return [Row(*one, list(values)) for one, values in rows.items()]


def test_what_was_read_as_expected_is_no_fault() -> None:
    assert difference(BOTH, read(BOTH)) is None


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (read({FIRST: (1, "a")}), "missing: 1 rows"),
        (read({**BOTH, THIRD: (3, "c")}), "returned or never there: 1 rows"),
        ([*read(BOTH), *read(BOTH)], "doubled: 2 rows"),
        (read({FIRST: (1, "a"), SECOND: (2, "z")}), "changed: 1 rows"),
        (read({FIRST: (1, "a"), THIRD: (2, "b")}), "missing: 1 rows"),
    ],
    ids=["missing", "returned", "doubled", "changed", "another ROW__ID"],
)
def test_each_kind_of_fault_is_found(rows: list[Row], says: str) -> None:
    found = difference(BOTH, rows)
    assert found is not None
    assert says in found


def test_a_snapshot_sees_the_inserts_and_deletes_of_its_write_ids_only() -> None:
    history = History()
    history.note(Write(1, {FIRST: (1, "a")}))
    history.note(Write(2, {SECOND: (2, "b")}, frozenset({FIRST})))
    assert history.rows(lambda write_id: write_id <= 1) == {FIRST: (1, "a")}
    assert history.rows(lambda write_id: write_id <= 2) == {SECOND: (2, "b")}
    assert "(2, True)" in history.fate(FIRST, lambda _: True)


def test_an_aborted_write_was_never_there() -> None:
    history = History()
    history.note(Write(1, {FIRST: (1, "a")}))
    history.forget(1)
    assert history.rows(lambda _: True) == {}


def test_an_overwrite_replaces_what_was_there_for_those_who_see_it() -> None:
    history = History()
    history.note(Write(1, {FIRST: (1, "a")}))
    history.note(Write(2, {SECOND: (2, "b")}, overwrites=True))
    assert history.rows(lambda write_id: write_id == 1) == {FIRST: (1, "a")}
    assert history.rows(lambda _: True) == {SECOND: (2, "b")}


def test_a_row_id_names_its_bucket() -> None:
    assert row_id(7, bucket=3, statement=1, number=5) == (7, 537067521, 5)
    assert bucket_of(row_id(7, bucket=3, statement=1, number=5)) == 3
