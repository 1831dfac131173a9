"""Where a large bucket is cut: consecutive ranges of keys of about equal bytes. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from compaction_operator.acid.names import INT64_MAX
from compaction_operator.orc import FileSketch, KeyRange, OriginalRows, RowId

_BUCKET_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a bucket, and the last ROW__ID among them."""

    last: RowId
    bytes: int


@dataclass(frozen=True, slots=True)
class Share:
    """A range of keys, and about how many bytes of the bucket lie in it."""

    keys: KeyRange
    bytes: int


def stripe_pieces(sketch: FileSketch) -> list[Piece]:
    """Return the stripes of an ACID file; none when the file does not say where they end."""
    return [Piece(stripe.last, stripe.bytes) for stripe in sketch.stripes if stripe.last is not None]


def original_pieces(sketch: FileSketch, original: OriginalRows) -> list[Piece]:
    """Return the stripes of a file that is not an ACID one: its rows get consecutive row ids."""
    pieces, rows = [], original.first_row_id
    for stripe in sketch.stripes:
        rows += stripe.rows
        pieces.append(Piece((original.write_id, original.bucket_property, rows - 1), stripe.bytes))
    return pieces


def insert_piece(highest_write_id: int, size: int) -> Piece:
    """Return a file of insert events as one piece, by its directory's name: its keys end with that write id."""
    return Piece((highest_write_id, _BUCKET_MAX, INT64_MAX), size)


def shares(pieces: Iterable[Piece], *, total: int, limit: int) -> list[Share]:
    """Return ranges, in order, of about equal bytes and at most about `limit` of the bucket's `total`.

    Together they hold every key there can be, whatever the pieces say: a cut that is badly placed makes the shares
    uneven, never wrong. Cuts are at the ends of pieces, so that no more stripes than need be lie across one. Bytes
    that no piece tells of are taken to be spread evenly.
    """
    ordered = sorted(pieces, key=lambda piece: piece.last)
    count = -(-total // limit)
    told = sum(piece.bytes for piece in ordered)
    ends, sizes = _cuts(ordered, max(1, told / max(1, count)))
    untold = max(0, total - told) // len(sizes)
    bounds = [None, *ends, None]
    ranges = (KeyRange(after=after, to=to) for after, to in pairwise(bounds))
    return [Share(keys, size + untold) for keys, size in zip(ranges, sizes, strict=True)]


def _cuts(ordered: Sequence[Piece], size: float) -> tuple[list[RowId], list[int]]:
    """Return the keys behind which to cut, ascending, and the bytes of each range: one more than there are cuts."""
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
