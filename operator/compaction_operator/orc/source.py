"""The bucket files that go into a compaction: opened, checked, and read stripe by stripe as ACID events."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po

from compaction_operator.acid.names import bucket_of_property
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc import schema
from compaction_operator.orc.errors import OrcError
from compaction_operator.orc.events import InputFile
from compaction_operator.orc.keys import Integers, Keys, Mask, valid_write_ids
from compaction_operator.orc.messages import Kind
from compaction_operator.orc.tail import Tail, read_tail

INSERT, UPDATE, DELETE = 0, 1, 2
"""The values of `operation` (Hive's AcidInputFormat); UPDATE is of Hive before 3."""

KEY_FIELDS = ("originalTransaction", "bucket", "rowId", "currentTransaction")
_ACID_TYPES = (pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64())


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn what the ORC reader raises into an OrcError of one line that names the file."""
    try:
        yield
    except (OSError, ValueError, zlib.error, pa.ArrowException) as error:
        raise OrcError(path, f"cannot be read: {str(error).partition(chr(10))[0]}") from error


@dataclass(frozen=True)
class Source:
    """One bucket file: its tail, and its events stripe by stripe."""

    file: InputFile
    tail: Tail

    @property
    def path(self) -> str:
        """Where the file is."""
        return self.file.path

    @cached_property
    def types(self) -> list[Any]:
        """The type tree of the ACID events; for a file from before ACID, the one its rows get."""
        return list(self.tail.types) if self.file.original is None else schema.acid_tree(self.tail.types)

    def _open(self) -> po.ORCFile:
        """NB: opened for each stripe and not held: a compaction may have more files than a process may have open."""
        return po.ORCFile(self.path)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the ACID events."""
        with reading(self.path):
            fields = list(self._open().schema.remove_metadata())
        if self.file.original is not None:
            fields = [*map(pa.field, schema.ACID_FIELDS[:-1], _ACID_TYPES), pa.field("row", pa.struct(fields))]
        return pa.schema(fields)

    def keys(self, stripe: int, write_ids: ValidWriteIdList, *, operation: int) -> tuple[Keys, Mask]:
        """Return the keys of a stripe's events, and which of them have a valid write id.

        Raises OrcError when the stripe holds anything else than events of that operation.
        """
        keys = self._original_keys(stripe) if self.file.original else self._read_keys(stripe, operation)
        return keys, valid_write_ids(keys.current, write_ids)

    def _read_keys(self, stripe: int, operation: int) -> Keys:
        with reading(self.path):
            batch = self._open().read_stripe(stripe, columns=list(schema.ACID_FIELDS[:-1]))
        for name in schema.ACID_FIELDS[:-1]:
            if batch.column(name).null_count:
                raise OrcError(self.path, f"column {name} has nulls, so it is not a Hive ACID file")
        self._check_buckets(batch.column("bucket").to_numpy())
        self._check_operations(batch.column("operation").to_numpy(), operation)
        return Keys(*(batch.column(name).to_numpy().astype(np.int64) for name in KEY_FIELDS))

    def _check_buckets(self, properties: Integers) -> None:
        try:
            for extreme in (properties.min(initial=0), properties.max(initial=0)):
                bucket_of_property(int(extreme))
        except ValueError as error:
            raise OrcError(self.path, f"column bucket: {error}") from error

    def _check_operations(self, operations: Integers, expected: int) -> None:
        other = operations[operations != expected]
        if not len(other):
            return
        if other[0] == UPDATE:
            raise OrcError(self.path, "column operation has update events of Hive before 3: compact it there first")
        raise OrcError(self.path, f"column operation is {other[0]} where only {expected} can be")

    def _original_keys(self, stripe: int) -> Keys:
        original = self.file.original
        assert original is not None
        count = self.tail.stripe_rows[stripe]
        first = original.first_row_id + sum(self.tail.stripe_rows[:stripe])
        zeros = np.zeros(count, np.int64)
        return Keys(zeros, np.full(count, original.bucket_property), np.arange(first, first + count), zeros)

    def events(self, stripe: int) -> pa.Table:
        """Return the events of a stripe with all columns."""
        batch = self._read_values(stripe)
        columns = batch.columns
        if self.file.original is not None:
            columns = self._as_events(stripe, batch)
        return pa.Table.from_arrays(columns, schema=self.arrow_schema)

    def _read_values(self, stripe: int) -> pa.RecordBatch:
        """Read all columns of a stripe, and name the columns at fault when Arrow has no place for a value.

        NB: Arrow takes a null as the key of a map for granted when reading, and aborts the process later on.
        """
        with reading(self.path):
            try:
                batch = self._open().read_stripe(stripe)
            except pa.ArrowInvalid as error:
                if "timestamp" not in str(error):
                    raise
                raise self._not_kept(error, Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT) from error
        try:
            batch.validate()
        except pa.ArrowInvalid as error:
            raise self._not_kept(error, Kind.MAP) from error
        return batch

    def _not_kept(self, error: pa.ArrowInvalid, *kinds: Kind) -> OrcError:
        columns = ", ".join(schema.columns_of(self.types, kinds))
        why = str(error).partition("\n")[0].rpartition("Invalid: ")[2]
        return OrcError(self.path, f"a value of column {columns} cannot be kept bit for bit: {why}")

    def _as_events(self, stripe: int, batch: pa.RecordBatch) -> list[pa.Array]:
        keys = self._original_keys(stripe)
        values = (np.full(len(keys), INSERT), keys.write_id, keys.bucket, keys.row_id, keys.current)
        made = [pa.array(column, type=type_) for column, type_ in zip(values, _ACID_TYPES, strict=True)]
        return [*made, pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))]


def open_source(file: InputFile) -> Source:
    """Open a bucket file and check that it is what the task says.

    Raises OrcError for an unreadable file, for one that is not an ACID file (or is one, given as an original),
    and for a column type that cannot be kept bit for bit.
    """
    tail = read_tail(file.path)
    if schema.is_acid(tail.types) == (file.original is not None):
        found = "a Hive ACID file" if file.original else "not a Hive ACID file"
        raise OrcError(file.path, f"it is {found}")
    problem = schema.unsupported(tail.types)
    if problem:
        raise OrcError(file.path, problem)
    return Source(file, tail)
