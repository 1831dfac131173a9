"""Writes the output file of a merge: combines runs of rows into stripes of a suitable size, in key order."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from compaction_operator.orc.file import OrcDraft, OrcWriter, StoredColumn, StripeBuilder
from compaction_operator.orc.merge.bucket_metadata import acid_metadata
from compaction_operator.orc.merge.events import Check, RowId, checked, unchecked
from compaction_operator.orc.merge.evolution import ColumnSource
from compaction_operator.orc.merge.forecast import Encoded, Forecaster, StripeSizes
from compaction_operator.orc.merge.keys import Keys, counted
from compaction_operator.orc.merge.source import (
    DELETE,
    INSERT,
    KEY_COLUMNS,
    OPERATION,
    OpenStripe,
    Stripe,
    column_of,
    read_together,
    reading,
)
from compaction_operator.orc.spec import Integers, RepeatedRowError, concatenated, physical_type, sums_before
from compaction_operator.orc.spec.schema import ROW_ID as ROW

STRIPE_BYTES = 64 * 1024 * 1024
"""Bytes of input per output stripe, approximately; fewer if memory is short."""

JOINED_MEMORY = 32 * 1024 * 1024
"""Bytes of memory to rewrite stripes that are joined to one. A larger one would be no faster to read."""

_OPEN_FILES = 200
"""The largest number of open stripes that are too large to be read at once."""

DELETES_PER_STRIPE = 1 << 18
"""Most events of a stripe: its four columns take 8 MB until they are encoded."""

AddColumn = Callable[[int, pa.Array], Sequence[StoredColumn]]
"""Takes a column of a stripe, by its id in the output, and returns it and its descendants as they are stored."""


@dataclass(frozen=True, slots=True)
class Run:
    """The remaining rows of one stripe: their numbers in the stripe, and their keys; and the sizes of its streams."""

    stripe: Stripe
    rows: Integers
    keys: Keys
    sizes: StripeSizes

    def size(self, memory: int) -> float:
        """Return the run's share of an output stripe; 1 is a full stripe, by its bytes or by its memory."""
        full = max(self.stripe.bytes / STRIPE_BYTES, self.stripe.memory / memory)
        return full * len(self.rows) / self.stripe.rows

    def joined_size(self, memory: int) -> float:
        """Return the run's share of an output stripe that is joined from several, whose files are open together."""
        open_file = 1 / _OPEN_FILES if not self.stripe.is_small else 0
        return max(open_file, self.size(min(memory, JOINED_MEMORY)))


class InsertStripes:
    """The stripes of a file of insert events as they are decided: which is copied, which rows are joined to one.

    Additions must be in key order: no run may hold a key smaller than one added before. This class writes nothing: it
    counts in `draft` and `forecast` what will be written. It encodes the keys, and the columns that the forecast
    chooses: of little work all, so that the forecast is exact. `columns` holds, for each input file, the sources of the
    layout's columns. `check` runs before each file that is opened and each column.
    """

    def __init__(
        self,
        draft: OrcDraft,
        columns: Mapping[str, Sequence[ColumnSource]],
        forecast: Forecaster,
        *,
        memory: int,
        check: Check = unchecked,
    ) -> None:
        self._draft = draft
        self._columns = columns
        self._memory = memory
        self._check = check
        self._pending: list[Run] = []
        self._pending_size = 0.0
        self._lasts: list[RowId] = []
        self.forecast = forecast
        self.rows: Counter[int] = Counter()

    def copy(self, stripe: Stripe, counts: Mapping[int, int]) -> None:
        """Copy a whole stripe; `counts` holds its rows by write id. Its bounds must be known."""
        self.flush()
        self.forecast.copy(stripe.bytes)
        self._copy_stripe(stripe)
        self._lasts.append(stripe.bounds[1])
        self.rows.update(counts)

    def add(self, runs: Sequence[Run]) -> None:
        """Add the rows of runs whose keys may interleave; raise RepeatedRowError if two rows have the same ROW__ID."""
        for group in _of_a_size(runs, self._memory):
            size = sum(run.joined_size(self._memory) for run in group)
            if self._pending_size + size > 1:
                self.flush()
            self._pending += group
            self._pending_size += size
            if self._pending_size >= 1:
                self.flush()  # before the keys of what follows are read

    def flush(self) -> None:
        """Decide the last stripe: nothing that follows is joined to it."""
        if self._pending:
            keys = Keys.concatenate([run.keys for run in self._pending])
            order = keys.order_if_needed()
            self._add_stripe(self._pending, keys if order is None else keys[order], order)
            self._pending = []
            self._pending_size = 0.0

    def finish(self) -> int:
        """Add the pending rows and the file's tail; return the file's size in bytes."""
        self.flush()
        return self._draft.finish(acid_metadata(self._lasts, inserts=self.rows.total(), deletes=0))

    def _add_stripe(self, runs: Sequence[Run], keys: Keys, order: Integers | None) -> None:
        """Add the rows as one stripe, in the order of their keys, and forecast it."""
        before = self._draft.size
        chosen = self.forecast.choose([run.sizes for run in runs])
        encoded = self._write_stripe(runs, keys, order, chosen)
        parts = [(run.sizes, len(run.rows)) for run in runs]
        decoded = sum(run.stripe.bytes * len(run.rows) // run.stripe.rows for run in runs)
        self.forecast.rewrite(parts, encoded.only(chosen), decoded=decoded, size=self._draft.size - before)
        self._lasts.append(keys.row(len(keys) - 1))
        self.rows.update(counted(keys.write_id))

    def _copy_stripe(self, stripe: Stripe) -> None:
        """Add a copy of a stripe."""
        self._draft.add_copied(stripe.source.tail, stripe.index)

    def _write_stripe(
        self, runs: Sequence[Run], keys: Keys, order: Integers | None, chosen: Collection[int]
    ) -> Encoded:
        """Encode the rows as one stripe, or only the keys and the chosen columns; return the sizes of these."""
        if self.forecast.is_all(chosen):
            return self._write_whole(runs, keys, order)
        builder = StripeBuilder(len(keys), self.forecast.layout)
        add_keys(builder, keys, INSERT)
        return Encoded(_stored_bytes(builder), self._add_columns(builder.encoded, runs, order, chosen))

    def _write_whole(self, runs: Sequence[Run], keys: Keys, order: Integers | None) -> Encoded:
        with self._draft.stripe(len(keys)) as builder:
            add_keys(builder, keys, INSERT)
            return Encoded(_stored_bytes(builder), self._add_columns(builder.add, runs, order, self.forecast.targets))

    def _add_columns(
        self, add: AddColumn, runs: Sequence[Run], order: Integers | None, chosen: Collection[int]
    ) -> dict[int, int]:
        """Give the chosen columns to the function, and return the bytes of their streams without indexes."""
        sizes: dict[int, int] = {}
        if not chosen:
            return sizes
        with ExitStack() as stack:
            opened = [stack.enter_context(run.stripe.open()) for run in checked(runs, self._check)]
            parts = _parts(runs, opened, memory=min(self._memory, JOINED_MEMORY))
            columns = zip(*(self._columns[part.path] for part in parts), strict=True)
            for sources in checked([one for one in columns if one[0].target in chosen], self._check):
                values = concatenated([part.column(source) for part, source in zip(parts, sources, strict=True)])
                stored = add(sources[0].target, values if order is None else values.take(pa.array(order)))
                sizes[sources[0].target] = sum(len(stream.data) for column in stored for stream in column.data)
        return sizes


class InsertFile(InsertStripes):
    """The same, written with an entered `writer`. `copied` has the files of copied stripes, by the stripe's number."""

    def __init__(
        self,
        writer: OrcWriter,
        columns: Mapping[str, Sequence[ColumnSource]],
        forecast: Forecaster,
        *,
        memory: int,
        check: Check = unchecked,
    ) -> None:
        super().__init__(writer, columns, forecast, memory=memory, check=check)
        self._writer = writer
        self.copied: dict[int, str] = {}

    def _copy_stripe(self, stripe: Stripe) -> None:
        with reading(stripe.path), stripe.source.tail.file.open() as file:
            self._writer.copy_stripe(file, stripe.source.tail, stripe.index)
        self.copied[len(self._lasts)] = stripe.path

    def _write_stripe(
        self,
        runs: Sequence[Run],
        keys: Keys,
        order: Integers | None,
        chosen: Collection[int],  # noqa: ARG002
    ) -> Encoded:
        return self._write_whole(runs, keys, order)


def _stored_bytes(builder: StripeBuilder) -> int:
    """Return the bytes of all streams of the columns that a stripe has so far."""
    return sum(len(stream.data) for column in builder.columns for stream in (*column.index, *column.data))


def _of_a_size(runs: Sequence[Run], memory: int) -> Iterator[list[Run]]:
    """Cut runs into pieces of about one output stripe, in key order."""
    keys = Keys.concatenate([run.keys for run in runs])
    order = keys.order_if_needed()
    _check_unique(keys if order is None else keys[order], runs)
    pieces = min(len(keys), math.ceil(sum(run.size(memory) for run in runs)))
    if pieces <= 1:
        yield list(runs)
        return
    piece = np.arange(len(keys)) * pieces // len(keys)
    piece = piece if order is None else piece[np.argsort(order)]
    ends = np.cumsum([len(run.rows) for run in runs])
    for number in range(pieces):
        masks = np.split(piece == number, ends[:-1])
        parts = (replace(run, rows=run.rows[mask], keys=run.keys[mask]) for run, mask in zip(runs, masks, strict=True))
        yield [part for part in parts if len(part.rows)]


def _check_unique(keys: Keys, runs: Sequence[Run]) -> None:
    again = np.flatnonzero(keys.same_row_as_previous())
    if len(again):
        raise RepeatedRowError(runs[-1].stripe.path, keys.row(int(again[0])))


_DENSE = 3 / 4
"""A mask selects at least this share of the rows, their numbers a smaller one: measured, whichever is faster."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Runs whose stripes are read together: the open stripes, and which of all their rows remain, None for all.

    These are the rows' numbers, or a mask.
    """

    opened: Sequence[OpenStripe]
    rows: pa.Array | None

    @property
    def path(self) -> str:
        """The path of the first file. The others have the same columns."""
        return self.opened[0].stripe.path

    def column(self, source: ColumnSource) -> pa.Array:
        """Return the remaining values of a column."""
        values = column_of(self.opened, source)
        if self.rows is None:
            return values
        return values.filter(self.rows) if pa.types.is_boolean(self.rows.type) else values.take(self.rows)


def _parts(runs: Sequence[Run], opened: Sequence[OpenStripe], *, memory: int) -> list[_Part]:
    """Return runs and their open stripes as the parts of an output stripe, in the same order."""
    parts: list[_Part] = []
    rest = zip(runs, opened, strict=True)
    for together in read_together([run.stripe for run in runs], memory=memory):
        of_part, stripes = zip(*islice(rest, len(together)), strict=True)
        parts.append(_Part(stripes, _remaining(of_part)))
    return parts


def _remaining(runs: Sequence[Run]) -> pa.Array | None:
    """Return which rows remain of those of all stripes, or None if all remain."""
    starts = sums_before([run.stripe.rows for run in runs])
    remain = sum(len(run.rows) for run in runs)
    if remain == starts[-1]:
        return None
    rows = np.concatenate([run.rows + start for run, start in zip(runs, starts[:-1], strict=True)])
    if remain < _DENSE * starts[-1]:
        return pa.array(rows)
    mask = np.zeros(int(starts[-1]), np.bool_)
    mask[rows] = True
    return pa.array(mask)


def add_keys(builder: StripeBuilder, keys: Keys, operation: int) -> None:
    """Add the columns before `row`: those of events with these keys and one operation."""
    builder.add(OPERATION, pa.array(np.full(len(keys), operation, np.int64)))
    for column, numbers in zip(KEY_COLUMNS[1:], keys.columns, strict=True):
        builder.add(column, pa.array(numbers))


class DeleteFile:
    """An ACID file of delete events; their `row`, of the type tree, is null. An entered `OrcWriter` writes it."""

    def __init__(self, writer: OrcDraft, types: Sequence[Any]) -> None:
        self._writer = writer
        self._null_row = physical_type(types, ROW)
        self._lasts: list[RowId] = []
        self.events = 0

    def add(self, keys: Keys) -> None:
        """Add events in key order; no key may be smaller than one added before."""
        for start in range(0, len(keys), DELETES_PER_STRIPE):
            part = keys[start : start + DELETES_PER_STRIPE]
            with self._writer.stripe(len(part)) as builder:
                add_keys(builder, part, DELETE)
                builder.add(ROW, pa.nulls(len(part), self._null_row))
            self._lasts.append(part.row(len(part) - 1))
            self.events += len(part)

    def finish(self) -> int:
        """Write the file's tail; return the file's size in bytes."""
        return self._writer.finish(acid_metadata(self._lasts, inserts=0, deletes=self.events))
