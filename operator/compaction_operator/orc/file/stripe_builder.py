"""A new stripe, put together column by column."""

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
class Layout:
    """What a file looks like: its type tree, codec, largest frame in plain bytes, calendar (as in the footer; 0 when
    that does not say), bloom filters (false positive probability by column id) and the rows of a row group."""

    types: Sequence[Any]
    compression: Compression
    block_size: int
    calendar: int
    bloom_filters: Mapping[int, float]
    row_index_stride: int = 10_000


class StripeBuilder:
    """A stripe being put together; its streams are compressed at once and kept in memory, in `columns`."""

    def __init__(self, rows: int, layout: Layout) -> None:
        self._rows = rows
        self._types = layout.types
        # a stripe of no rows has one row group of none, so that its columns still have statistics of their type
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
        """Add a column with all below it: `array` is of its `physical_type` and has a value for each row.

        Columns come in the order of their ids. Structs that are left out before it have no nulls.
        Raises ValueError for a column out of order, for one of another length or type, and when a column that is
        not a struct was left out before it.
        """
        expected = physical_type(self._types, column)
        if len(array) != self._rows or array.type != expected:
            raise ValueError(f"column {column} gets {len(array)} values of {array.type}")
        self._imply_structs(column)
        for encoded in encode_column(self._types, column, array, row_groups=self._groups):
            self.columns.append(self._store.store(encoded))

    def complete(self) -> None:
        """Say that no column follows; raises ValueError when one that is not a struct was left out."""
        self._imply_structs(len(self._types))

    def _imply_structs(self, column: int) -> None:
        if column < len(self.columns):
            raise ValueError(f"column {column} comes too late")
        for skipped in range(len(self.columns), column):
            if self._types[skipped].kind != Kind.STRUCT:
                raise ValueError(f"column {skipped} has no values")
            never_null = pa.Array.from_buffers(pa.struct([]), self._rows, [None])
            encoded = encode_node(self._types, skipped, never_null, row_groups=self._groups)
            self.columns.append(self._store.store(encoded))
