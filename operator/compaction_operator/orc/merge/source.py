"""The bucket files that go into a compaction: opened, checked, and read stripe by stripe as ACID events."""

import io
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from compaction_operator.acid.names import INT64_MAX, INT64_MIN, bucket_of_property
from compaction_operator.acid.write_ids import RangeValidity, ValidWriteIdList
from compaction_operator.orc.file.decode import StripeReader, open_stripe
from compaction_operator.orc.file.stripe_copy import stripe_statistics
from compaction_operator.orc.file.tail import Tail, read_tail
from compaction_operator.orc.merge.events import InputFile, KeyRange, OriginalRows, RowId
from compaction_operator.orc.merge.evolution import ColumnSource, Incompatible, evolve
from compaction_operator.orc.merge.keys import Integers, Keys
from compaction_operator.orc.merge.sketch import key_index
from compaction_operator.orc.spec import schema
from compaction_operator.orc.spec.errors import OrcError
from compaction_operator.orc.spec.messages import PROLEPTIC_GREGORIAN

INSERT, UPDATE, DELETE = 0, 1, 2
"""The values of `operation` (Hive's AcidInputFormat); UPDATE is of Hive before 3."""

OPERATION, WRITE_ID, BUCKET, ROW_ID, CURRENT = 1, 2, 3, 4, 5
"""The column ids of an ACID file's key columns; `row` follows them."""

SMALL_BYTES = 256 * 1024
"""A stripe of at most that size is read at once and its file closed."""

_MEMORY_PER_BYTE, _MEMORY_PER_ROW, _COPIES = 4, 150, 3
"""What a byte and a row of a stripe take in memory while they are rewritten, and how often a column is there."""

LOWEST: RowId = (INT64_MIN, INT64_MIN, INT64_MIN)
HIGHEST: RowId = (INT64_MAX, INT64_MAX, INT64_MAX)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn what reading damaged bytes raises into an OrcError of one line that names the file."""
    try:
        yield
    except (OSError, ValueError, KeyError, IndexError, OverflowError, pa.ArrowException) as error:
        raise OrcError(path, f"cannot be read: {str(error).partition(chr(10))[0]}") from error


@dataclass(frozen=True)
class Source:
    """One bucket file: its tail, and where the columns of today's row are in it."""

    file: InputFile
    tail: Tail

    @property
    def path(self) -> str:
        """Where the file is."""
        return self.file.path

    @property
    def row(self) -> int:
        """The column id of the struct that holds the user's columns."""
        return 0 if self.file.original else schema.ROW_ID

    @cached_property
    def acid_types(self) -> list[Any]:
        """The type tree of the ACID events; for a file that is not an ACID one, the tree its rows get."""
        return schema.acid_tree(self.tail.types) if self.file.original else list(self.tail.types)

    @property
    def is_proleptic(self) -> bool:
        """Whether dates count in the proleptic Gregorian calendar; a file that does not say is of the hybrid one."""
        return bool(self.tail.footer.calendar == PROLEPTIC_GREGORIAN)

    def columns(self, target: Sequence[Any]) -> tuple[ColumnSource, ...]:
        """Return where each column of the target tree's row comes from; OrcError when it cannot."""
        try:
            return evolve(self.tail.types, self.row, target, schema.ROW_ID)
        except Incompatible as error:
            raise OrcError(self.path, str(error)) from error

    def stripes(self) -> list["Stripe"]:
        """The stripes in their order, with the bounds of their keys as far as the tail tells them.

        Raises OrcError where what it tells of a stripe cannot be true together.
        """
        original = self.file.original
        bounds = _numbered(self.tail.stripe_rows, original) if original else _indexed(self.tail, self._statistics)
        stripes = [Stripe(self, index, low, high) for index, (low, high) in enumerate(bounds)]
        for stripe in stripes:
            # NB: of ranges that lie side by side none touches such a stripe: its events would be lost
            if stripe.rows and stripe.bounds[0] > stripe.bounds[1]:
                raise OrcError(self.path, f"stripe {stripe.index}: its statistics are not of hive.acid.key.index")
        return stripes

    @cached_property
    def _statistics(self) -> list[Any]:
        """The statistics of each stripe, by column id; empty when the file has none that fit."""
        if not self.tail.metadata:
            return []
        found = [stripe_statistics(self.tail, index) for index in range(len(self.tail.footer.stripes))]
        return found if all(len(one.column_stats) == len(self.tail.types) for one in found) else []

    def widest(self, index: int) -> int:
        """The bytes of the longest string or binary column of a stripe, as far as its statistics say."""
        columns = self._statistics[index].column_stats if self._statistics else ()
        return max((max(one.string_statistics.sum, one.binary_statistics.sum) for one in columns), default=0)

    def integer_range(self, index: int, column: int) -> tuple[int, int] | None:
        """The lowest and highest value of an integer column in a stripe, where its statistics say so."""
        if not self._statistics:
            return None
        statistics = self._statistics[index].column_stats[column]
        integers = statistics.int_statistics
        known = integers.HasField("minimum") and integers.HasField("maximum")
        if not known or statistics.number_of_values != self.tail.stripe_rows[index]:
            return None
        return int(integers.minimum), int(integers.maximum)


def _numbered(stripe_rows: Sequence[int], original: OriginalRows) -> Iterator[tuple[RowId, RowId]]:
    first = original.first_row_id
    for rows in stripe_rows:
        key = original.write_id, original.bucket_property
        yield (*key, first), (*key, first + rows - 1)
        first += rows


def _indexed(tail: Tail, statistics: Sequence[Any]) -> Iterator[tuple[RowId | None, RowId | None]]:
    """The bounds of each stripe's keys: behind the stripe before it, up to its entry in the key index."""
    lasts = key_index(tail)
    previous = LOWEST
    for index in range(len(tail.footer.stripes)):
        low = previous
        if statistics and (known := statistics[index].column_stats[WRITE_ID].int_statistics).HasField("minimum"):
            low = max(low, (int(known.minimum), INT64_MIN, INT64_MIN))
        yield (low if low != LOWEST else None), (lasts[index] if lasts else None)
        previous = (*lasts[index][:2], lasts[index][2] + 1) if lasts else LOWEST


@dataclass(frozen=True)
class Stripe:
    """One stripe of a source, and bounds of its keys, both ends included; None where nothing is known."""

    source: Source
    index: int
    low: RowId | None
    high: RowId | None

    @property
    def path(self) -> str:
        """The file it is in."""
        return self.source.path

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return int(self.source.tail.footer.stripes[self.index].number_of_rows)

    @property
    def bytes(self) -> int:
        """How many bytes of the file it takes."""
        stripe = self.source.tail.footer.stripes[self.index]
        return int(stripe.index_length + stripe.data_length + stripe.footer_length)

    @property
    def bounds(self) -> tuple[RowId, RowId]:
        """The bounds of its keys; what is not known is without bound."""
        return self.low or LOWEST, self.high or HIGHEST

    @property
    def memory(self) -> int:
        """About how many bytes of memory it takes to rewrite it: its keys, one column at a time, what is encoded."""
        widest = self.source.widest(self.index)
        return max(_MEMORY_PER_BYTE * self.bytes, _MEMORY_PER_ROW * self.rows + _COPIES * widest)

    def touches(self, keys: KeyRange) -> bool:
        """Whether it may hold keys of that range."""
        low, high = self.bounds
        return (keys.to is None or low <= keys.to) and (keys.after is None or high > keys.after)

    def lies_in(self, keys: KeyRange) -> bool:
        """Whether it holds keys of that range only."""
        low, high = self.bounds
        return (keys.after is None or low > keys.after) and (keys.to is None or high <= keys.to)

    def all_valid(self, write_ids: ValidWriteIdList, *, operation: int) -> bool:
        """Whether its statistics prove that it holds events of that operation only, all of valid write ids."""
        if self.source.file.original:
            return False
        operations = self.source.integer_range(self.index, OPERATION)
        current = self.source.integer_range(self.index, CURRENT)
        if operations != (operation, operation) or current is None:
            return False
        return write_ids.valid_range(*current) is RangeValidity.ALL

    def count_by_write_id(self) -> dict[int, int]:
        """How many of its rows have which write id in their ROW__ID."""
        known = self.source.integer_range(self.index, WRITE_ID)
        if known and known[0] == known[1]:
            return {known[0]: self.rows}
        with self.open() as opened:
            return opened.count_by_write_id()

    @contextmanager
    def open(self) -> Iterator["OpenStripe"]:
        """Open the stripe for reading its columns."""
        with reading(self.path), self._file() as file:
            reader = open_stripe(file, self.source.tail, self.index)
            if reader.rows != self.rows:
                raise ValueError("a stripe has not the rows that the footer says")
            yield OpenStripe(self, reader, file)

    @contextmanager
    def _file(self) -> Iterator[BinaryIO]:
        """The file, or in memory the part of it that a small stripe is: there may be thousands of these at once."""
        with ExitStack() as stack:
            file = stack.enter_context(Path(self.path).open("rb"))
            if self.bytes > SMALL_BYTES:
                yield file
                return
            start = self.source.tail.footer.stripes[self.index].offset
            file.seek(start)
            section = _Section(file.read(self.bytes), start)
            stack.close()
            yield section


class _Section(io.BytesIO):
    """Some bytes of a file, to be read at the offsets that they have there."""

    def __init__(self, data: bytes, start: int) -> None:
        super().__init__(data)
        self._start = start

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an offset of the file."""
        return super().seek(offset - self._start if whence == io.SEEK_SET else offset, whence)


@dataclass(frozen=True)
class OpenStripe:
    """A stripe whose columns can be read, and its file."""

    stripe: Stripe
    reader: StripeReader
    file: BinaryIO

    def column(self, source: ColumnSource) -> pa.Array:
        """Return a column of today's row: the values that the stripe has of it, or nulls."""
        if source.column is None:
            return source.convert(pa.nulls(self.stripe.rows))
        with reading(self.stripe.path):
            return source.convert(self.reader.column(source.column))

    def keys(self, *, operation: int) -> Keys:
        """Return the keys of the stripe's events.

        Raises OrcError when it holds anything else than events of that operation, or keys that its file's index
        does not say.
        """
        original = self.stripe.source.file.original
        if original:
            self._require_rows()
            return _original_keys(original, self.stripe)
        columns = [self._integers(column) for column in (OPERATION, WRITE_ID, BUCKET, ROW_ID, CURRENT)]
        _check_operations(self.stripe.path, columns[0], operation)
        _check_buckets(self.stripe.path, columns[2])
        keys = Keys(*columns[1:])
        self._check_bounds(keys)
        return keys

    def _require_rows(self) -> None:
        """Read the smallest column: nothing else bears witness that there are as many rows as the footer says."""
        self.reader.column(min(self.stripe.source.tail.types[0].subtypes, key=self.reader.column_bytes))

    def count_by_write_id(self) -> dict[int, int]:
        """Return how many rows have which write id in their ROW__ID."""
        values, counts = np.unique(self._integers(WRITE_ID), return_counts=True)
        return dict(zip(values.tolist(), counts.tolist(), strict=True))

    def bounded(self) -> Stripe:
        """Return the stripe with the bounds that its keys have."""
        keys = Keys(*(self._integers(column) for column in (WRITE_ID, BUCKET, ROW_ID, CURRENT)))
        order = keys.order()
        return replace(self.stripe, low=keys.row(int(order[0])), high=keys.row(int(order[-1])))

    def _integers(self, column: int) -> Integers:
        with reading(self.stripe.path):
            array = self.reader.column(column)
        if array.null_count:
            name = schema.ACID_FIELDS[column - 1]
            raise OrcError(self.stripe.path, f"column {name} has nulls, so it is not a Hive ACID file")
        numbers: Integers = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        return numbers

    def _check_bounds(self, keys: Keys) -> None:
        if not len(keys):
            return
        order = keys.order()
        low, high = self.stripe.bounds
        if not (low <= keys.row(int(order[0])) and keys.row(int(order[-1])) <= high):
            raise OrcError(self.stripe.path, "its keys are not in the order that hive.acid.key.index says")


def _original_keys(original: OriginalRows, stripe: Stripe) -> Keys:
    assert stripe.low is not None
    first = stripe.low[2]
    same = np.full(stripe.rows, original.write_id, np.int64)
    buckets = np.full(stripe.rows, original.bucket_property, np.int64)
    return Keys(same, buckets, np.arange(first, first + stripe.rows, dtype=np.int64), same)


def _check_operations(path: str, operations: Integers, expected: int) -> None:
    other = operations[operations != expected]
    if not len(other):
        return
    if other[0] == UPDATE:
        raise OrcError(path, "column operation has update events of Hive before 3: compact it there first")
    raise OrcError(path, f"column operation is {other[0]} where only {expected} can be")


def _check_buckets(path: str, properties: Integers) -> None:
    try:
        for extreme in (properties.min(initial=0), properties.max(initial=0)):
            bucket_of_property(int(extreme))
    except ValueError as error:
        raise OrcError(path, f"column bucket: {error}") from error


def open_source(file: InputFile) -> Source:
    """Open a bucket file and check that it is what the task says.

    Raises OrcError for an unreadable file, for one that is not an ACID file (or is one, given as an original),
    and for a type tree that cannot be rewritten.
    """
    tail = read_tail(file.path)
    if problem := schema.problem(tail.types):
        raise OrcError(file.path, problem)
    if schema.is_acid(tail.types) == (file.original is not None):
        found = "a Hive ACID file" if file.original else "not a Hive ACID file"
        raise OrcError(file.path, f"it is {found}")
    return Source(file, tail)
