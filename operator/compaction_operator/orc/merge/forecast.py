"""What a merge will write, before it writes: by the inputs' tails, the footers of their stripes, and the kept rows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compaction_operator.orc.file import StripeLayout, Tail
from compaction_operator.orc.merge.events import MergeForecast
from compaction_operator.orc.merge.source import Stripe
from compaction_operator.orc.spec import TEXTS, Compression, Kind, StreamKind
from compaction_operator.orc.spec.schema import ROW_ID

_INDEXES = frozenset({StreamKind.ROW_INDEX, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8})
_NOT_VALUES = _INDEXES | {StreamKind.DICTIONARY_DATA}
_DEFLATING = frozenset({Compression.ZLIB, Compression.ZSTD})
_NESTED = frozenset({Kind.STRUCT, Kind.LIST, Kind.MAP, Kind.UNION})

ENCODED_VALUES = 2_000_000
ENCODED_MEMORY = 16 * 1024 * 1024
"""A plan encodes so many values, and rows that take so much memory: some hundredths of a CPU second for each task."""

_FRAME_BYTES = 3
"""The header of a compression frame."""


@dataclass(frozen=True, slots=True)
class StripeSizes:
    """The stored sizes of a stripe in bytes, by what becomes of them in a joined stripe, and its row groups.

    Key columns are left out: their size does not go with the rows, as deleted rows interrupt their runs.
    `values` are the streams whose size goes with the rows, with `headers`: one for each. `dictionaries` has the size of
    each dictionary by column. `text` are the plain bytes of its strings.
    """

    rows: int
    values: int
    dictionaries: Mapping[int, int]
    index: int
    groups: int
    footer: int
    text: int = 0
    headers: int = 0

    @classmethod
    def of(cls, stripe: Stripe, footer: Any) -> "StripeSizes":
        """Return the sizes of a stripe by its StripeFooter message."""
        tail = stripe.source.tail
        stride = tail.footer.row_index_stride
        first = 0 if stripe.source.file.original else ROW_ID
        streams = [one for one in footer.streams if one.column >= first]
        words = {one.column: int(one.length) for one in streams if one.kind == StreamKind.DICTIONARY_DATA}
        values = [one for one in streams if one.kind not in _NOT_VALUES and one.length]
        return cls(
            rows=stripe.rows,
            values=sum(int(one.length) for one in values),
            headers=_FRAME_BYTES * len(values) if tail.compression is not Compression.NONE else 0,
            dictionaries=words,
            index=sum(int(one.length) for one in streams if one.kind in _INDEXES),
            groups=math.ceil(stripe.rows / stride) if stride else 0,
            footer=tail.footer_extent(stripe.index)[1],
            text=stripe.source.text_bytes(stripe.index),
        )


class Forecaster:
    """The running forecast of one output file, in the order in which its stripes are decided."""

    def __init__(self, layout: StripeLayout, tails: Sequence[Tail]) -> None:
        self.layout = layout
        self._tails = tails
        self._stripes = 0
        self._copied = self._decoded = self._written = 0
        self._rewritten_stripes = self._rows = 0
        kinds = [Kind(type_.kind) for type_ in layout.types]
        self._texts = sum(kind in TEXTS for kind in kinds)
        self._fields = sum(kind not in _NESTED and kind not in TEXTS for kind in kinds)
        self._text_bytes = 0
        self._left = 1.0
        self._is_exact = True

    def affords(self, stripes: Sequence[Stripe]) -> bool:
        """Return whether a plan may encode the rows of these stripes to learn their size, and count it if so."""
        values = sum(stripe.rows for stripe in stripes) * len(self.layout.types)
        share = max(values / ENCODED_VALUES, sum(stripe.memory for stripe in stripes) / ENCODED_MEMORY)
        if share > self._left:
            return False
        self._left -= share
        return True

    def copy(self, size: int) -> None:
        """Count a stripe of so many bytes that is copied whole."""
        self._stripes += 1
        self._copied += size

    def rewrite(
        self, parts: Iterable[tuple[StripeSizes, float]], *, keys: int, decoded: int, exact: int | None = None
    ) -> None:
        """Count a stripe that is joined from the kept rows of others.

        `keys` are the bytes of its key columns, `decoded` the stored bytes of the kept rows, and `exact` the bytes of
        the whole stripe if it was encoded.
        """
        found = list(parts)
        rows = round(sum(kept for _, kept in found))
        self._stripes += 1
        self._rewritten_stripes += 1
        self._rows += rows
        self._decoded += decoded
        self._text_bytes += round(sum(sizes.text * kept / sizes.rows for sizes, kept in found))
        if exact is None:
            self._is_exact = False
            exact = keys + round(_stripe_bytes(found, rows, stride=self.layout.row_index_stride))
        self._written += exact

    def finished(self, *, size: int) -> MergeForecast:
        """Return what the stripes of the whole file take. `size` are its bytes if each stripe was encoded."""
        rewritten = size - self._copied if self._is_exact else self._written + round(self._tail_bytes())
        return MergeForecast(
            bytes_copied=self._copied,
            bytes_decoded=self._decoded,
            bytes_deflated=self._decoded if self.layout.compression in _DEFLATING else 0,
            bytes_rewritten=rewritten,
            stripes_rewritten=self._rewritten_stripes,
            values_rewritten=self._rows * self._fields,
            texts_rewritten=self._rows * self._texts,
            text_bytes=self._text_bytes,
        )

    def _tail_bytes(self) -> float:
        """Return the size of the file's tail, from those of its inputs: a part for each stripe, and the rest."""
        each = max((tail.postscript.metadata_length / max(1, len(tail.stripe_rows)) for tail in self._tails), default=0)
        rest = max((tail.postscript.footer_length for tail in self._tails), default=0)
        return each * self._stripes + rest + 30


def _stripe_bytes(parts: Sequence[tuple[StripeSizes, float]], rows: int, *, stride: int) -> float:
    """Return the size of the stripe that the kept rows of others become."""
    values = sum((sizes.values - sizes.headers) * kept / sizes.rows for sizes, kept in parts)
    values += sum(sizes.headers for sizes, _ in parts) / len(parts)
    columns = {column for sizes, _ in parts for column in sizes.dictionaries}
    words = sum(_dictionary_bytes([sizes for sizes, _ in parts], column) for column in columns)
    groups = sum(sizes.groups for sizes, _ in parts)
    index = sum(sizes.index for sizes, _ in parts) * math.ceil(rows / stride) / groups if groups else 0
    return values + words + index + max(sizes.footer for sizes, _ in parts)


def _dictionary_bytes(parts: Sequence[StripeSizes], column: int) -> float:
    """Return the size of a column's dictionary, if the largest of its parts has the words of all."""
    return max(sizes.dictionaries[column] for sizes in parts if column in sizes.dictionaries)
