"""What a merge will write, before it writes: by the inputs' tails, the footers of their stripes, and the kept rows."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
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

ENCODED_VALUES = 1_000_000
ENCODED_BYTES = 2 * 1024 * 1024
ENCODED_TEXT = 16 * 1024 * 1024
"""A plan encodes so many values for each task, of so many stored bytes, and so many plain bytes of texts.

That takes some hundredths of a CPU second.
"""

_FRAME_BYTES = 3
"""The header of a compression frame."""


@dataclass(frozen=True, slots=True)
class StripeSizes:
    """The sizes of a stripe in bytes as stored, and its row groups.

    Columns are those of the row with their descendants, by their ids in the output. Key columns are left out: their
    size does not go with the rows, as deleted rows interrupt their runs.
    `values` are the streams whose size goes with the rows, without `headers`: those of their frames. `dictionaries`
    has a column's own dictionary, if it has one, and `texts` the plain bytes of strings.
    """

    rows: int
    values: Mapping[int, int]
    headers: Mapping[int, int]
    dictionaries: Mapping[int, int]
    texts: Mapping[int, int]
    index: int
    groups: int
    footer: int

    @classmethod
    def of(cls, stripe: Stripe, footer: Any, targets: Mapping[int, int]) -> "StripeSizes":
        """Return the sizes of a stripe by its StripeFooter message, and the `targets` of its file."""
        tail = stripe.source.tail
        stride = tail.footer.row_index_stride
        header = _FRAME_BYTES if tail.compression is not Compression.NONE else 0
        values, headers, texts = Counter[int](), Counter[int](), Counter[int]()
        dictionaries: dict[int, int] = {}
        index = 0
        for stream in footer.streams:
            column, kind, length = stream.column, stream.kind, int(stream.length)
            target = targets.get(column)
            if target is None or kind in _INDEXES:
                index += length if target else 0
            elif kind == StreamKind.DICTIONARY_DATA and targets.get(column - 1) != target:
                dictionaries[target] = length
            elif length:
                values[target] += max(0, length - header)
                headers[target] += header
        for column, size in stripe.source.text_bytes(stripe.index).items():
            if column in targets:
                texts[targets[column]] += size
        groups = math.ceil(stripe.rows / stride) if stride else 0
        return cls(
            stripe.rows, values, headers, dictionaries, texts, index, groups, tail.footer_extent(stripe.index)[1]
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
        self._copied = self._deflated = self._written = 0
        self._rewritten_stripes = self._filtered_stripes = self._rows = 0
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
            stored = sum(sizes.values.get(column, 0) for sizes in parts)
            text = sum(sizes.texts.get(column, 0) for sizes in parts)
            share = max(rows / ENCODED_VALUES, stored / ENCODED_BYTES, text / ENCODED_TEXT)
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
        self._filtered_stripes += sum(kept < sizes.rows for sizes, kept in parts)
        self._rows += round(sum(kept for _, kept in parts))
        self._deflated += decoded if self.layout.compression in _DEFLATING else 0
        self._text_bytes += round(sum(sum(sizes.texts.values()) * kept / sizes.rows for sizes, kept in parts))
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
        width, is_compressed = len(self.layout.types), self.layout.compression is not Compression.NONE
        return MergeForecast(
            bytes_copied=self._copied,
            columns_read=width * sum(len(tail.stripe_rows) for tail in self._tails),
            bytes_deflated=self._deflated,
            bytes_rewritten=rewritten,
            stripes_rewritten=self._rewritten_stripes,
            columns_rewritten=width * self._rewritten_stripes,
            columns_compressed=width * self._rewritten_stripes * is_compressed,
            columns_filtered=width * self._filtered_stripes,
            values_rewritten=self._rows * self._fields,
            texts_rewritten=self._rows * self._texts,
            text_bytes=self._text_bytes,
            text_bytes_compressed=self._text_bytes * is_compressed,
        )

    def _tail_bytes(self) -> float:
        """Return the size of the file's tail, from those of its inputs: a part for each stripe, and the rest."""
        each = max((tail.postscript.metadata_length / max(1, len(tail.stripe_rows)) for tail in self._tails), default=0)
        rest = max((tail.postscript.footer_length for tail in self._tails), default=0)
        return each * self._stripes + rest + 30


def _has_words(parts: Iterable[StripeSizes], column: int) -> bool:
    return any(column in sizes.dictionaries for sizes in parts)


def _column_bytes(parts: Sequence[tuple[StripeSizes, float]], column: int) -> float:
    """Return the size of a column of kept rows, if the largest of its dictionaries has the words of all."""
    values = sum(sizes.values.get(column, 0) * kept / sizes.rows for sizes, kept in parts)
    headers = sum(sizes.headers.get(column, 0) for sizes, _ in parts) / len(parts)
    return values + headers + max(sizes.dictionaries.get(column, 0) for sizes, _ in parts)
