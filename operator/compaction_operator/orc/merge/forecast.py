"""What a merge will write, before it writes: by the inputs' tails, the footers of their stripes, and the kept rows."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compaction_operator.orc.file import StripeLayout, Tail
from compaction_operator.orc.merge.events import MergeForecast
from compaction_operator.orc.merge.evolution import ColumnSource
from compaction_operator.orc.merge.source import Source, Stripe
from compaction_operator.orc.spec import TEXTS, Compression, Kind, StreamKind
from compaction_operator.orc.spec.schema import ROW_ID

_INDEXES = frozenset({StreamKind.ROW_INDEX, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8})
_DEFLATING = frozenset({Compression.ZLIB, Compression.ZSTD})
_NESTED = frozenset({Kind.STRUCT, Kind.LIST, Kind.MAP, Kind.UNION})

ENCODED_VALUES = 2_000_000
ENCODED_BYTES = 4 * 1024 * 1024
"""A plan encodes so many values for each task, of so many stored bytes: some hundredths of a CPU second."""

_FRAME_BYTES = 3
"""The header of a compression frame."""


@dataclass(frozen=True, slots=True)
class ColumnSizes:
    """The stored bytes of a column of the row with its descendants, without indexes.

    `values` are the streams whose size goes with the rows, without `headers`: those of their frames. `dictionary` is
    the column's own dictionary, None if it has none.
    """

    values: int = 0
    headers: int = 0
    dictionary: int | None = None

    def with_stream(self, stream: Any, *, header: int, is_own: bool) -> "ColumnSizes":
        """Return it with a stream of the stripe, which is of the column itself or of a descendant."""
        length = int(stream.length)
        if stream.kind in _INDEXES or not length:
            return self
        if is_own and stream.kind == StreamKind.DICTIONARY_DATA:
            return replace(self, dictionary=length)
        return replace(self, values=self.values + max(0, length - header), headers=self.headers + header)


_NOTHING = ColumnSizes()


@dataclass(frozen=True, slots=True)
class StripeSizes:
    """The sizes of a stripe in stored bytes: of the row's columns, by their ids in the output, of the index and footer.

    Key columns are left out: their size does not go with the rows, as deleted rows interrupt their runs. `groups` are
    its row groups. `text` are the plain bytes of its strings.
    """

    rows: int
    columns: Mapping[int, ColumnSizes]
    index: int
    groups: int
    footer: int
    text: int = 0

    @classmethod
    def of(cls, stripe: Stripe, footer: Any, targets: Mapping[int, int]) -> "StripeSizes":
        """Return the sizes of a stripe by its StripeFooter message, and the `targets` of its file."""
        tail = stripe.source.tail
        stride = tail.footer.row_index_stride
        header = _FRAME_BYTES if tail.compression is not Compression.NONE else 0
        streams = [one for one in footer.streams if one.column in targets]
        columns: dict[int, ColumnSizes] = {}
        for one in streams:
            target = targets[one.column]
            is_own = targets.get(one.column - 1) != target
            columns[target] = columns.get(target, _NOTHING).with_stream(one, header=header, is_own=is_own)
        return cls(
            rows=stripe.rows,
            columns=columns,
            index=sum(int(one.length) for one in streams if one.kind in _INDEXES),
            groups=math.ceil(stripe.rows / stride) if stride else 0,
            footer=tail.footer_extent(stripe.index)[1],
            text=stripe.source.text_bytes(stripe.index),
        )


def targets(source: Source, columns: Iterable[ColumnSource]) -> dict[int, int]:
    """Return the id in the output of the row's column to which each column of a file belongs."""
    ends = source.tail.tree.ends
    known = [(one.column, one.target) for one in columns if one.column is not None]
    return {column: target for first, target in known for column in range(first, ends[first])}


@dataclass(frozen=True, slots=True)
class Encoded:
    """What was encoded of a stripe, in stored bytes: all of its keys, and the streams of columns without indexes."""

    keys: int
    columns: Mapping[int, int]

    def only(self, chosen: Collection[int]) -> "Encoded":
        """Return it without the other columns."""
        return Encoded(self.keys, {column: size for column, size in self.columns.items() if column in chosen})


class Forecaster:
    """The running forecast of one output file, in the order in which its stripes are decided.

    `targets` are the ids of the row's columns in the output.
    """

    def __init__(self, layout: StripeLayout, tails: Sequence[Tail]) -> None:
        self.layout = layout
        self.targets: Sequence[int] = layout.types[ROW_ID].subtypes
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
        self._estimated = self._measured = 0.0

    def choose(self, parts: Sequence[StripeSizes]) -> frozenset[int]:
        """Return the columns that a plan encodes to learn their size, and count them: as many as it can afford."""
        rows = sum(sizes.rows for sizes in parts)
        chosen = set()
        for column in self._by_need(parts):
            stored = sum(sizes.columns.get(column, _NOTHING).values for sizes in parts)
            share = max(rows / ENCODED_VALUES, stored / ENCODED_BYTES)
            if share <= self._left:
                self._left -= share
                chosen.add(column)
        return frozenset(chosen)

    def _by_need(self, parts: Sequence[StripeSizes]) -> list[int]:
        """Return the columns, texts first, before all those with dictionaries: an estimate misses most of these."""

        def rank(column: int) -> tuple[bool, bool]:
            return not _has_words(parts, column), Kind(self.layout.types[column].kind) not in TEXTS

        return sorted(self.targets, key=rank)

    def is_all(self, chosen: Collection[int]) -> bool:
        """Return whether the whole stripe is encoded."""
        return len(chosen) == len(self.targets)

    def copy(self, size: int) -> None:
        """Count a stripe of so many bytes that is copied whole."""
        self._stripes += 1
        self._copied += size

    def rewrite(self, parts: Sequence[tuple[StripeSizes, float]], encoded: Encoded, *, decoded: int, size: int) -> None:
        """Count a stripe that is joined from the kept rows of others.

        `encoded` are the sizes of its keys and of the chosen columns, `decoded` the stored bytes of the kept rows. If
        all columns are chosen, `size` is that of the whole stripe.
        """
        self._stripes += 1
        self._rewritten_stripes += 1
        self._rows += round(sum(kept for _, kept in parts))
        self._decoded += decoded
        self._text_bytes += round(sum(sizes.text * kept / sizes.rows for sizes, kept in parts))
        self._learn(parts, encoded.columns)
        if self.is_all(encoded.columns):
            self._written += size
        else:
            self._is_exact = False
            self._written += encoded.keys + round(self._stripe_bytes(parts, encoded.columns))

    def _learn(self, parts: Sequence[tuple[StripeSizes, float]], encoded: Mapping[int, int]) -> None:
        """Compare the estimates of columns with dictionaries with what was encoded."""
        words = [column for column in encoded if _has_words([sizes for sizes, _ in parts], column)]
        self._estimated += sum(_column_bytes(parts, column) for column in words)
        self._measured += sum(encoded[column] for column in words)

    def _stripe_bytes(self, parts: Sequence[tuple[StripeSizes, float]], encoded: Mapping[int, int]) -> float:
        """Return the size without keys of the stripe that the kept rows of others become."""
        rows = sum(kept for _, kept in parts)
        groups = sum(sizes.groups for sizes, _ in parts)
        index = sum(sizes.index for sizes, _ in parts) / groups if groups else 0
        estimated = sum(self._column_bytes(parts, column) for column in self.targets if column not in encoded)
        footer = max(sizes.footer for sizes, _ in parts)
        return sum(encoded.values()) + estimated + index * math.ceil(rows / self.layout.row_index_stride) + footer

    def _column_bytes(self, parts: Sequence[tuple[StripeSizes, float]], column: int) -> float:
        """Return the size of a column that is not encoded; with a dictionary, as those that were encoded."""
        estimate = _column_bytes(parts, column)
        if self._estimated and _has_words([sizes for sizes, _ in parts], column):
            return estimate * self._measured / self._estimated
        return estimate

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


def _has_words(parts: Iterable[StripeSizes], column: int) -> bool:
    return any(sizes.columns.get(column, _NOTHING).dictionary is not None for sizes in parts)


def _column_bytes(parts: Sequence[tuple[StripeSizes, float]], column: int) -> float:
    """Return the size of a column of kept rows, if the largest of its dictionaries has the words of all."""
    found = [(sizes.columns.get(column, _NOTHING), kept / sizes.rows) for sizes, kept in parts]
    values = sum(one.values * share for one, share in found)
    headers = sum(one.headers for one, _ in found) / len(found)
    return values + headers + max(one.dictionary or 0 for one, _ in found)
