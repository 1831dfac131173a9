"""Cutting of a large bucket into consecutive key ranges of about equal bytes. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from compaction_operator.acid.names import INT64_MAX
from compaction_operator.orc import FileSketch, KeyRange, OriginalRows, RowId

_BUCKET_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of a bucket's bytes, and the last ROW__ID in it."""

    last: RowId
    bytes: int


@dataclass(frozen=True, slots=True)
class Share:
    """A range of keys, and the approximate bytes of the bucket in it."""

    keys: KeyRange
    bytes: int


def stripe_pieces(sketch: FileSketch) -> list[Piece]:
    """Return the stripes of an ACID file as pieces, without those whose last key the file does not record."""
    return [Piece(stripe.last, stripe.bytes) for stripe in sketch.stripes if stripe.last is not None]


def original_pieces(sketch: FileSketch, original: OriginalRows) -> list[Piece]:
    """Return the stripes of a file that is not an ACID file as pieces. Its rows get consecutive row ids."""
    pieces, rows = [], original.first_row_id
    for stripe in sketch.stripes:
        rows += stripe.rows
        pieces.append(Piece((original.write_id, original.bucket_property, rows - 1), stripe.bytes))
    return pieces


def insert_piece(highest_write_id: int, size: int) -> Piece:
    """Return a file of insert events as one piece that ends with the highest write id in its directory's name."""
    return Piece((highest_write_id, _BUCKET_MAX, INT64_MAX), size)


def shares(pieces: Iterable[Piece], *, total: int, limit: int) -> list[Share]:
    """Return key ranges in ascending order, of about equal bytes and at most about `limit` of the bucket's `total`.

    Together the ranges cover every possible key, whatever the pieces are. A badly placed cut makes the shares uneven,
    never wrong. Cuts lie at the ends of pieces, so that they cross as few stripes as possible. Bytes that no piece
    covers are assumed to be spread evenly.
    """
    ordered = sorted(pieces, key=lambda piece: piece.last)
    count = -(-total // limit)
    known = sum(piece.bytes for piece in ordered)
    ends, sizes = _cuts(ordered, max(1, known / max(1, count)))
    unknown = max(0, total - known) // len(sizes)
    bounds = [None, *ends, None]
    ranges = (KeyRange(after=after, to=to) for after, to in pairwise(bounds))
    return [Share(keys, size + unknown) for keys, size in zip(ranges, sizes, strict=True)]


def _cuts(ordered: Sequence[Piece], size: float) -> tuple[list[RowId], list[int]]:
    """Return the keys after which to cut, in ascending order, and the bytes of each range (one more than the cuts)."""
    ends: list[RowId] = []
    sizes = [0]
    last: RowId | None = None
    for piece in ordered:
        if last is not None and piece.last > last and sizes[-1] >= size:
            ends.append(last)
            sizes.append(0)
        sizes[-1] += piece.bytes
        last = piece.last
    return ends, sizes
