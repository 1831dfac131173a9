"""Opens and checks the input files of a compaction, and reads them stripe by stripe as ACID events."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from compaction_operator.acid.names import INT64_MAX, INT64_MIN, bucket_of_property
from compaction_operator.acid.write_ids import RangeValidity, ValidWriteIdList
from compaction_operator.orc.encoding import IntegerRuns
from compaction_operator.orc.file import StripeReader, Tail, joined_column, read_tail, stripe_statistics
from compaction_operator.orc.merge.bucket_metadata import key_index
from compaction_operator.orc.merge.events import (
    Check,
    InputFile,
    KeyRange,
    OriginalRows,
    RowId,
    checked,
    unchecked,
)
from compaction_operator.orc.merge.evolution import ColumnSource, Incompatible, evolve
from compaction_operator.orc.merge.key_runs import KeyRuns, counted_runs
from compaction_operator.orc.merge.keys import Keys
from compaction_operator.orc.spec import Integers, OrcError, RowTypeError, concatenated, schema, sums_before
from compaction_operator.orc.spec.messages import PROLEPTIC_GREGORIAN

INSERT, UPDATE, DELETE = 0, 1, 2
"""The values of `operation` (Hive's AcidInputFormat); only Hive before 3 wrote UPDATE."""

OPERATION, WRITE_ID, BUCKET, ROW_ID, CURRENT = 1, 2, 3, 4, 5
"""The column ids of an ACID file's key columns; `row` follows them."""

KEY_COLUMNS = (OPERATION, WRITE_ID, BUCKET, ROW_ID, CURRENT)
"""The operation, and the columns of `Keys` in their order."""

SMALL_BYTES = 256 * 1024
"""Stripes of at most this size are read at once, so that the file can be closed."""

_DAMAGE = (OSError, ValueError, KeyError, IndexError, OverflowError, pa.ArrowException)
"""What damaged bytes raise."""

_MEMORY_PER_BYTE, _MEMORY_PER_ROW, _COPIES = 4, 150, 3
"""Memory to rewrite a stripe: bytes per stored byte, bytes per row, and simultaneous copies of a column."""

LOWEST: RowId = (INT64_MIN, INT64_MIN, INT64_MIN)
HIGHEST: RowId = (INT64_MAX, INT64_MAX, INT64_MAX)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Convert errors from damaged bytes into a one-line OrcError that names the file."""
    try:
        yield
    except _DAMAGE as error:
        raise OrcError(path, f"cannot be read: {str(error).partition(chr(10))[0]}") from error


@dataclass(frozen=True)
class Source:
    """One bucket file: its tail, and the places of the table's columns in it."""

    file: InputFile
    tail: Tail

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.file.path

    @cached_property
    def acid_types(self) -> Sequence[Any]:
        """The type tree of the ACID events; a file without ACID columns gets the tree of its future events."""
        return schema.acid_tree(self.tail.types) if self.file.original else self.tail.types

    @property
    def is_proleptic(self) -> bool:
        """Whether dates use the proleptic Gregorian calendar; files without a calendar use the hybrid one."""
        return bool(self.tail.footer.calendar == PROLEPTIC_GREGORIAN)

    def columns(self, target: Sequence[Any]) -> tuple[ColumnSource, ...]:
        """Return the source of each column of the target tree's row; raise RowTypeError if a column has none."""
        try:
            return evolve(self.tail.types, 0 if self.file.original else schema.ROW_ID, target, schema.ROW_ID)
        except Incompatible as error:
            raise RowTypeError(self.path, str(error)) from error

    def stripes(self) -> list["Stripe"]:
        """Return the stripes in order, with the bounds of their keys as far as the tail has them.

        Raises OrcError if the tail contradicts itself about a stripe.
        """
        original = self.file.original
        bounds = _numbered(self.tail.stripe_rows, original) if original else _indexed(self.tail, self._statistics)
        stripes = [Stripe(self, index, low, high) for index, (low, high) in enumerate(bounds)]
        for stripe in stripes:
            # NB: none of several adjacent key ranges touches such a stripe, so its events would be lost
            if stripe.rows and stripe.bounds[0] > stripe.bounds[1]:
                raise OrcError(self.path, f"stripe {stripe.index}: its statistics contradict hive.acid.key.index")
        return stripes

    @cached_property
    def _statistics(self) -> list[Any]:
        """The statistics of each stripe, by column id; empty if the file has none that match its columns."""
        if not self.tail.metadata:
            return []
        found = [stripe_statistics(self.tail, index) for index in range(len(self.tail.footer.stripes))]
        return found if all(len(one.column_stats) == len(self.tail.types) for one in found) else []

    def widest(self, index: int) -> int:
        """Return the bytes of the largest string or binary column of a stripe, 0 if its statistics lack them."""
        return max(self.text_bytes(index).values(), default=0)

    def text_bytes(self, index: int) -> dict[int, int]:
        """Return the plain bytes of each string or binary column of a stripe, as far as its statistics have them."""
        columns = self._statistics[index].column_stats if self._statistics else ()
        sums = (max(one.string_statistics.sum, one.binary_statistics.sum) for one in columns)
        return {column: size for column, size in enumerate(sums) if size}

    def integer_range(self, index: int, column: int) -> tuple[int, int] | None:
        """Return the minimum and maximum of an integer column in a stripe, or None if its statistics lack them."""
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
    """Yield the bounds of each stripe's keys: after the previous stripe, up to its entry in the key index."""
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
    """One stripe of a source, with inclusive bounds of its keys; None means an unknown bound."""

    source: Source
    index: int
    low: RowId | None
    high: RowId | None

    @property
    def path(self) -> str:
        """The path of its file."""
        return self.source.path

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.source.tail.footer.stripes[self.index].number_of_rows)

    @property
    def bytes(self) -> int:
        """The size in the file, in bytes."""
        return self.source.tail.extent(self.index)[1]

    @property
    def bounds(self) -> tuple[RowId, RowId]:
        """The bounds of its keys; unknown bounds are the extreme ROW__IDs."""
        return self.low or LOWEST, self.high or HIGHEST

    @cached_property
    def memory(self) -> int:
        """The approximate memory in bytes to rewrite it: its keys, one column at a time, and the encoded result."""
        widest = self.source.widest(self.index)
        return max(_MEMORY_PER_BYTE * self.bytes, _MEMORY_PER_ROW * self.rows + _COPIES * widest)

    @property
    def is_small(self) -> bool:
        """Whether it is read at once."""
        return self.bytes <= SMALL_BYTES

    def touches(self, keys: KeyRange) -> bool:
        """Return whether the stripe may hold keys in the range."""
        low, high = self.bounds
        return (keys.to is None or low <= keys.to) and (keys.after is None or high > keys.after)

    def lies_in(self, keys: KeyRange) -> bool:
        """Return whether all keys of the stripe are in the range."""
        low, high = self.bounds
        return (keys.after is None or low > keys.after) and (keys.to is None or high <= keys.to)

    def all_valid(self, write_ids: ValidWriteIdList, *, operation: int) -> bool:
        """Return whether its statistics prove that all events have this operation and valid write ids."""
        if self.source.file.original:
            return False
        operations = self.source.integer_range(self.index, OPERATION)
        current = self.source.integer_range(self.index, CURRENT)
        if operations != (operation, operation) or current is None:
            return False
        return write_ids.valid_range(*current) is RangeValidity.ALL

    def count_by_write_id(self) -> dict[int, int]:
        """Return the number of rows for each write id in their ROW__IDs."""
        known = self.source.integer_range(self.index, WRITE_ID)
        if known and known[0] == known[1]:
            return {known[0]: self.rows}
        with self.open() as opened:
            return counted_runs(opened.runs(WRITE_ID))

    def bounded(self) -> "Stripe":
        """Return the stripe with both bounds; read its keys if the file's tail lacks a bound."""
        if self.low is not None and self.high is not None:
            return self
        with self.open() as opened:
            columns = [opened.runs(column) for column in (WRITE_ID, BUCKET, ROW_ID, CURRENT)]
        low, high = KeyRuns.of(*columns).corners.extremes()
        return replace(self, low=low, high=high)

    @contextmanager
    def open(self) -> Iterator["OpenStripe"]:
        """Open the stripe to read its columns. A small one is read at once, as thousands may be open together."""
        tail, whole = self.source.tail, None
        with reading(self.path), ExitStack() as stack:
            file = stack.enter_context(tail.file.open())
            if self.is_small:
                start, length = tail.extent(self.index)
                file.seek(start)
                whole = file.read(length)
                stack.close()
            yield OpenStripe(self, StripeReader(file, tail, self.index, whole=whole))


@dataclass(frozen=True)
class OpenStripe:
    """An open stripe, and the reader of its columns."""

    stripe: Stripe
    reader: StripeReader

    def column(self, source: ColumnSource) -> pa.Array:
        """Return a column of the table's row: the stripe's values, text perhaps as `WORDS`, converted, or nulls."""
        if source.column is None:
            return source.convert(pa.nulls(self.stripe.rows))
        with reading(self.stripe.path):
            return source.convert(self.reader.column(source.column, words=source.is_unchanged))

    def keys(self, *, operation: int) -> Keys:
        """Return the keys of the stripe's events.

        Raises OrcError if an event has another operation, or if a key contradicts the file's key index.
        """
        original = self.stripe.source.file.original
        if original:
            self._require_rows()
            return _original_keys(original, self.stripe)
        operations, *columns = (self.integers(column) for column in KEY_COLUMNS)
        keys = Keys(*columns)
        self.check_keys(operations, keys, operation=operation)
        return keys

    def key_runs(self, *, operation: int) -> KeyRuns:
        """Return the keys of the stripe's events as runs. Raises OrcError as `keys` does. It has ACID columns."""
        operations, *columns = (self.runs(column) for column in KEY_COLUMNS)
        runs = KeyRuns.of(*columns)
        self.check_keys(operations.constant().firsts, runs.corners, operation=operation)
        return runs

    def key_blocks(self, *, operation: int, size: int) -> Iterator[Keys]:
        """Yield the keys of the stripe's events, `size` at a time. Raises OrcError as `keys` does. It has ACID columns.

        A stripe of delete events may hold millions, as regular keys take almost no space in it.
        """
        blocks = (self.reader.integer_blocks(column, size=size) for column in KEY_COLUMNS)
        for operations, *columns in zip(*blocks, strict=True):
            keys = Keys(*columns)
            self.check_keys(operations, keys, operation=operation)
            yield keys

    def runs(self, column: int) -> IntegerRuns:
        """Return one of the ACID columns before `row` as runs. Raises OrcError as `integers` does."""
        with reading(self.stripe.path):
            return self.reader.integer_runs(column) or IntegerRuns.of(self.integers(column))

    def check_keys(self, operations: Integers, keys: Keys, *, operation: int) -> None:
        """Raise OrcError if an event has another operation, or a key is not one or contradicts the file's key index."""
        _check_operations(self.stripe.path, operations, operation)
        _check_buckets(self.stripe.path, keys.bucket)
        self._check_bounds(keys)

    def _require_rows(self) -> None:
        """Read the smallest column: only a column can confirm the number of rows in the footer."""
        self.reader.column(min(self.stripe.source.tail.types[0].subtypes, key=self.reader.column_bytes))

    def integers(self, column: int) -> Integers:
        """Return one of the ACID columns before `row`; raise OrcError if it cannot be read or has nulls."""
        with reading(self.stripe.path):
            array = self.reader.column(column)
        if array.null_count:
            name = schema.ACID_FIELDS[column - 1]
            raise OrcError(self.stripe.path, f"column {name} has nulls, so it is not a Hive ACID file")
        return _without_nulls(array)

    def _check_bounds(self, keys: Keys) -> None:
        if not len(keys):
            return
        (low, high), (first, last) = self.stripe.bounds, keys.extremes()
        if not (low <= first and last <= high):
            raise OrcError(self.stripe.path, "its keys contradict the order in hive.acid.key.index")


def read_together(stripes: Iterable[Stripe], *, memory: int) -> Iterator[list[Stripe]]:
    """Cut stripes into those that are read together: a large one alone, small ones of one type tree with others.

    To rewrite what is read together takes at most `memory` bytes, if it is not a single stripe.
    """
    found: list[Stripe] = []
    size = 0
    for stripe in stripes:
        size += stripe.memory
        if found and not (size <= memory and _alike(found[-1], stripe)):
            yield found
            found, size = [], stripe.memory
        found.append(stripe)
    if found:
        yield found


def _alike(one: Stripe, other: Stripe) -> bool:
    return one.is_small and other.is_small and one.source.tail.tree is other.source.tail.tree


def keys_of(opened: Sequence[OpenStripe], *, operation: int) -> Keys:
    """Return the keys of stripes, one after another; they are read together. Raises OrcError as `OpenStripe.keys`."""
    if len(opened) > 1 and not opened[0].stripe.source.file.original:
        with suppress(*_DAMAGE):  # stripe by stripe, the error names the file
            return _keys_together(opened, operation)
    return Keys.concatenate([one.keys(operation=operation) for one in opened])


def _keys_together(opened: Sequence[OpenStripe], operation: int) -> Keys:
    readers = [one.reader for one in opened]
    operations, *columns = (_without_nulls(joined_column(readers, column)) for column in KEY_COLUMNS)
    keys = Keys(*columns)
    for one, (start, end) in zip(opened, pairwise(sums_before([reader.rows for reader in readers])), strict=True):
        one.check_keys(operations[start:end], keys[start:end], operation=operation)
    return keys


def _without_nulls(array: pa.Array) -> Integers:
    """Return integers as 64-bit ones; raise ValueError for a null."""
    if array.null_count:
        raise ValueError("a null")
    numbers: Integers = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def column_of(opened: Sequence[OpenStripe], source: ColumnSource) -> pa.Array:
    """Return a column of the table's row of all stripes, read together. Raises OrcError as `OpenStripe.column` does."""
    if len(opened) > 1 and source.column is not None:
        with suppress(*_DAMAGE):  # stripe by stripe, the error names the file
            readers = [one.reader for one in opened]
            return source.convert(joined_column(readers, source.column, words=source.is_unchanged))
    return concatenated([one.column(source) for one in opened])


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
        raise OrcError(path, "column operation has update events of Hive before 3: compact with that Hive first")
    raise OrcError(path, f"column operation is {other[0]}, expected {expected}")


def _check_buckets(path: str, properties: Integers) -> None:
    try:
        for extreme in (properties.min(initial=0), properties.max(initial=0)):
            bucket_of_property(int(extreme))
    except ValueError as error:
        raise OrcError(path, f"column bucket: {error}") from error


def read_tails(files: Iterable[InputFile], *, check: Check = unchecked) -> dict[str, Tail]:
    """Return the files' tails by path. Raises OrcError as `read_tail`, and what `check` raises before each."""
    return {file.path: read_tail(file.path) for file in checked(files, check)}


def open_source(file: InputFile, tail: Tail | None = None) -> Source:
    """Open a bucket file, whose tail may have been read already, and check that it matches the task.

    Raises OrcError for an unreadable file, for a type tree that cannot be rewritten, for a file without ACID columns,
    and for an ACID file that the task gives as an original.
    """
    tail = tail or read_tail(file.path)
    if tail.tree.problem:
        raise OrcError(file.path, tail.tree.problem)
    if schema.is_acid(tail.types) == (file.original is not None):
        found = "a Hive ACID file" if file.original else "not a Hive ACID file"
        raise OrcError(file.path, f"it is {found}")
    return Source(file, tail)
