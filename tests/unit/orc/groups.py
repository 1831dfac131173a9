"""The row groups of an ORC file, and what its own indexes and footers say of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from compaction_operator.orc.encoding import bloom_columns, decompress
from compaction_operator.orc.file import StripeReader, read_tail
from compaction_operator.orc.spec import Kind, StreamKind
from compaction_operator.orc.spec.messages import BloomFilterIndex, Metadata, RowIndex

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Group:
    """A column in a row group: its values, the file's ColumnStatistics and Bloom filter (if any) of them."""

    column: int
    kind: Kind
    array: pa.Array
    statistics: Any
    bloom_filter: Any | None


class JavaFile:
    """A file by ORC's Java writer: `stripes` holds each stripe's row groups by column id."""

    def __init__(self, name: str) -> None:
        self.tail = read_tail(str(DATA / name))
        self.types = self.tail.types
        self.stride = int(self.tail.footer.row_index_stride)
        with (DATA / name).open("rb") as file:
            self.stripes = [self._groups(file, index) for index in range(len(self.tail.footer.stripes))]
        plain = decompress(self.tail.metadata, codec=self.tail.compression, block_size=self.tail.block_size)
        self.stripe_statistics = [stripe.column_stats for stripe in Metadata.FromString(plain).stripe_stats]

    def groups(self) -> Iterator[Group]:
        for stripe in self.stripes:
            for column in stripe.values():
                yield from column

    def _groups(self, file: Any, index: int) -> dict[int, list[Group]]:
        reader = StripeReader(file, self.tail, index)
        filters = {}
        for column in range(len(self.types)):
            if column in bloom_columns(reader.footer):
                stream = reader._stream(column, StreamKind.BLOOM_FILTER_UTF8)
                filters[column] = BloomFilterIndex.FromString(stream).bloom_filter
        root = reader.column(0)
        found: dict[int, list[Group]] = {column: [] for column in range(len(self.types))}
        for number, start in enumerate(range(0, len(root), self.stride)):
            for column, array in columns_below(self.types, 0, root.slice(start, self.stride)):
                index_ = row_index(reader, column)
                filter_ = filters[column][number] if column in filters else None
                kind = Kind(self.types[column].kind)
                found[column].append(Group(column, kind, array, index_.entry[number].statistics, filter_))
        return found


def row_index(reader: StripeReader, column: int) -> Any:
    """The RowIndex message of a column."""
    return RowIndex.FromString(reader._stream(column, StreamKind.ROW_INDEX))


def columns_below(types: Sequence[Any], column: int, array: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """A column and all below it, each without the rows whose parent is null."""
    yield column, array
    values = array.drop_null()
    match Kind(types[column].kind):
        case Kind.STRUCT:
            children = [values.field(index) for index in range(len(types[column].subtypes))]
        case Kind.LIST:
            children = [values.flatten()]
        case Kind.MAP:
            children = [values.flatten().field(index) for index in range(2)]
        case Kind.UNION:
            tags = values.field("tag")
            numbers = range(len(types[column].subtypes))
            children = [values.field(index + 1).filter(pc.equal(tags, index)) for index in numbers]
        case _:
            children = []
    for child, below in zip(types[column].subtypes, children, strict=True):
        yield from columns_below(types, child, below)
