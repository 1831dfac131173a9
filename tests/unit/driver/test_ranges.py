"""Ranges of keys hold every key once, whatever is known of the files, and share the bytes out."""

from hypothesis import given
from hypothesis import strategies as st

from compaction_operator.driver.merge.key_ranges import (
    Piece,
    Share,
    insert_piece,
    original_pieces,
    shares,
    stripe_pieces,
)
from compaction_operator.orc import FileSketch, KeyRange, OriginalRows, RowId, StripeSketch

BUCKET = 536870912
SMALL = st.integers(0, 4)
ROW_IDS = st.tuples(SMALL, SMALL, SMALL)
PIECES = st.lists(st.builds(Piece, ROW_IDS, st.integers(0, 1000)), max_size=12)


def holds(keys: KeyRange, row: RowId) -> bool:
    return (keys.after is None or row > keys.after) and (keys.to is None or row <= keys.to)


def cut(pieces: list[Piece], *, limit: int) -> list[Share]:
    return shares(pieces, total=sum(piece.bytes for piece in pieces), limit=limit)


@given(PIECES, st.integers(1, 3000), st.integers(1, 2000), ROW_IDS)
def test_every_key_is_in_exactly_one_range(pieces: list[Piece], total: int, limit: int, row: RowId) -> None:
    """Also one that lies beyond what the pieces say: a wrong key index must never lose or double a row."""
    found = shares(pieces, total=total, limit=limit)
    for key in (row, (-1, 0, 0), (2**62, 0, 0)):
        assert sum(holds(share.keys, key) for share in found) == 1
    assert found[0].keys.after is None
    assert found[-1].keys.to is None


@given(PIECES, st.integers(1, 2000))
def test_no_share_is_much_larger_than_the_limit(pieces: list[Piece], limit: int) -> None:
    """By no more than what ends with one key and cannot be cut, and the bytes are all told."""
    found = cut(pieces, limit=limit)
    assert sum(share.bytes for share in found) == sum(piece.bytes for piece in pieces)
    by_key: dict[RowId, int] = {}
    for piece in pieces:
        by_key[piece.last] = by_key.get(piece.last, 0) + piece.bytes
    assert max(share.bytes for share in found) <= limit + max(by_key.values(), default=0)


def test_equal_stripes_give_equal_shares() -> None:
    pieces = [Piece((write_id, BUCKET, 9), 100) for write_id in range(1, 9)]
    found = cut(pieces, limit=250)
    assert [share.bytes for share in found] == [200] * 4
    assert [share.keys.to for share in found] == [(2, BUCKET, 9), (4, BUCKET, 9), (6, BUCKET, 9), None]


def test_what_fits_is_not_cut() -> None:
    assert cut([Piece((1, BUCKET, 9), 100), Piece((2, BUCKET, 9), 100)], limit=200) == [Share(KeyRange(), 200)]


def test_without_pieces_there_is_one_range() -> None:
    """Delete events in files that do not say where their stripes end: one task reads them all."""
    assert shares([], total=5000, limit=100) == [Share(KeyRange(), 5000)]


def test_bytes_that_no_piece_tells_of_are_shared_out() -> None:
    pieces = [Piece((1, BUCKET, 9), 100), Piece((2, BUCKET, 9), 100)]
    assert [share.bytes for share in shares(pieces, total=600, limit=300)] == [300, 300]


def test_the_rows_of_original_files_end_where_their_row_ids_do() -> None:
    sketch = FileSketch(rows=30, bytes=999, stripes=(StripeSketch(10, 400, None), StripeSketch(20, 500, None)))
    assert original_pieces(sketch, OriginalRows(BUCKET, 100, 7)) == [
        Piece((7, BUCKET, 109), 400),
        Piece((7, BUCKET, 129), 500),
    ]


def test_stripes_end_where_the_key_index_says() -> None:
    known = FileSketch(rows=30, bytes=999, stripes=(StripeSketch(10, 400, (1, BUCKET, 9)),))
    assert stripe_pieces(known) == [Piece((1, BUCKET, 9), 400)]
    assert stripe_pieces(FileSketch(rows=30, bytes=999, stripes=(StripeSketch(10, 400, None),))) == []


def test_a_file_of_inserts_ends_with_its_directorys_write_id() -> None:
    piece = insert_piece(7, 50)
    assert (7, 2**31 - 1, 2**63 - 1) == piece.last < (8, 0, 0)
