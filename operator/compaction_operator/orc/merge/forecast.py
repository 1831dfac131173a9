"""What a merge will write, before it writes: by the inputs' tails, the footers of their stripes, and the kept rows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
        first = 0 if stripe.source.file.original else ROW_ID
        streams = [one for one in footer.streams if one.column >= first]
        words = {one.column: int(one.length) for one in streams if one.kind == StreamKind.DICTIONARY_DATA}
        values = [one for one in streams if one.kind not in _NOT_VALUES and one.length]
        known = cls.of_keys(tail, tail.footer.stripes[stripe.index])
        return replace(
            known,
            values=sum(int(one.length) for one in values),
            headers=_FRAME_BYTES * len(values) if tail.compression is not Compression.NONE else 0,
            dictionaries=words,
            index=sum(int(one.length) for one in streams if one.kind in _INDEXES),
            text=stripe.source.text_bytes(stripe.index),
        )

    @classmethod
    def of_keys(cls, tail: Tail, stripe: Any) -> "StripeSizes":
        """Return the sizes of a stripe without dictionaries, by its StripeInformation message alone."""
        rows, stride = int(stripe.number_of_rows), tail.footer.row_index_stride
        return cls(
            rows=rows,
            values=int(stripe.data_length),
            dictionaries={},
            index=int(stripe.index_length),
            groups=math.ceil(rows / stride) if stride else 0,
            footer=int(stripe.footer_length),
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

    def copy(self, size: int) -> None:
        """Count a stripe of so many bytes that is copied whole."""
        self._stripes += 1
        self._copied += size

    def rewrite(self, parts: Iterable[tuple[StripeSizes, float]], *, keys: int, decoded: int) -> None:
        """Count a stripe that is joined from the kept rows of others.

        `keys` are the bytes of its key columns, and `decoded` the stored bytes of the kept rows.
        """
        found = list(parts)
        rows = round(sum(kept for _, kept in found))
        self._stripes += 1
        self._rewritten_stripes += 1
        self._rows += rows
        self._decoded += decoded
        self._text_bytes += round(sum(sizes.text * kept / sizes.rows for sizes, kept in found))
        self._written += keys + round(_stripe_bytes(found, rows, stride=self.layout.row_index_stride))

    def finished(self, *, files: int, rows_removed: int, delete_events: int) -> MergeForecast:
        """Return the forecast of the whole file."""
        return MergeForecast(
            files=files,
            bytes_copied=self._copied,
            bytes_decoded=self._decoded,
            bytes_deflated=self._decoded if self.layout.compression in _DEFLATING else 0,
            bytes_rewritten=self._written + round(self._tail_bytes()),
            stripes_rewritten=self._rewritten_stripes,
            values_rewritten=self._rows * self._fields,
            texts_rewritten=self._rows * self._texts,
            text_bytes=self._text_bytes,
            rows_removed=rows_removed,
            delete_events=delete_events,
        )

    def _tail_bytes(self) -> float:
        """Return the size of the file's tail, from those of its inputs: a part for each stripe, and the rest."""
        each = max((tail.postscript.metadata_length / max(1, len(tail.stripe_rows)) for tail in self._tails), default=0)
        rest = max((tail.postscript.footer_length for tail in self._tails), default=0)
        return each * self._stripes + rest + 30


def forecast_deletes(tails: Sequence[Tail], layout: StripeLayout, *, events: int, events_in: int) -> MergeForecast:
    """Return the forecast of a file with `events` of the `events_in` delete events that its inputs hold."""
    forecaster = Forecaster(layout, tails)
    share = events / max(1, sum(tail.rows for tail in tails))
    stripes = [(tail, stripe) for tail in tails for stripe in tail.footer.stripes if stripe.number_of_rows]
    parts = [(StripeSizes.of_keys(tail, stripe), stripe.number_of_rows * share) for tail, stripe in stripes]
    if parts and events:
        forecaster.rewrite(parts, keys=0, decoded=sum(stripe.data_length for _, stripe in stripes))
    return forecaster.finished(files=len(tails), rows_removed=0, delete_events=events_in)


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
