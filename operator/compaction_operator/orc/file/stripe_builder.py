"""Builds a new stripe column by column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from compaction_operator.orc.encoding.encode import encode_column, encode_node
from compaction_operator.orc.file.row_index import ColumnStore, StoredColumn
from compaction_operator.orc.spec.messages import Compression, Kind
from compaction_operator.orc.spec.physical import physical_type


@dataclass(frozen=True, slots=True)
class StripeLayout:
    """The layout of a file: type tree, codec, largest frame in plain bytes, calendar (as in the footer; 0 if unset),
    Bloom filters (false positive probability by column id) and the rows of a row group."""

    types: Sequence[Any]
    compression: Compression
    block_size: int
    calendar: int
    bloom_filters: Mapping[int, float]
    row_index_stride: int = 10_000


class StripeBuilder:
    """A stripe under construction; it compresses each stream at once and keeps the result in `columns`."""

    def __init__(self, rows: int, layout: StripeLayout) -> None:
        self._rows = rows
        self._types = layout.types
        # a stripe without rows has one empty row group, so that its columns still have statistics of their type
        self._groups = np.array([*range(0, max(rows, 1), layout.row_index_stride), rows], np.int64)
        self._store = ColumnStore(
            types=layout.types,
            codec=layout.compression,
            block_size=layout.block_size,
            bloom_filters=layout.bloom_filters,
            row_index_stride=layout.row_index_stride,
        )
        self.columns: list[StoredColumn] = []

    def add(self, column: int, array: pa.Array) -> None:
        """Add a column with its descendants; `array` has its `physical_type` and one value per row.

        Columns must come in the order of their ids. A skipped struct is added without nulls. Raises ValueError for a
        column out of order, for another length or type, and for a skipped column that is not a struct.
        """
        expected = physical_type(self._types, column)
        if len(array) != self._rows or array.type != expected:
            raise ValueError(f"column {column}: {len(array)} values of {array.type}, not {self._rows} of {expected}")
        self._imply_structs(column)
        for encoded in encode_column(self._types, column, array, row_groups=self._groups):
            self.columns.append(self._store.store(encoded))

    def complete(self) -> None:
        """Finish the columns; raise ValueError if a column that is not a struct was skipped."""
        self._imply_structs(len(self._types))

    def _imply_structs(self, column: int) -> None:
        if column < len(self.columns):
            raise ValueError(f"column {column} is out of order")
        for skipped in range(len(self.columns), column):
            if self._types[skipped].kind != Kind.STRUCT:
                raise ValueError(f"column {skipped} has no values")
            never_null = pa.Array.from_buffers(pa.struct([]), self._rows, [None])
            encoded = encode_node(self._types, skipped, never_null, row_groups=self._groups)
            self.columns.append(self._store.store(encoded))
