"""The contents of log blocks, read without Hudi: what each of them does to its keys."""

import io
import json
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, BinaryIO

from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException, UnknownType

from compaction_operator.errors import OperatorError
from compaction_operator.hudi.deletes import INT, LONG, NOT_AVRO, Delete, DeletesError, read_deletes
from compaction_operator.hudi.log_format import AVRO, DELETE, RawBlock
from compaction_operator.hudi.outcomes import Change

AVRO_VERSION = 3
"""The version of a content of Avro records (HoodieAvroDataBlock): their number, and each with its size."""

LARGEST_DELETES = 1 << 20
"""Bytes. Deleted keys take much more in memory than in their block."""

KEY, IS_DELETED, OPERATION = "_hoodie_record_key", "_hoodie_is_deleted", "_hoodie_operation"

_KINDS = {"int": INT, "long": LONG}
"""The kind of a delete's ordering value by the type of the ordering field. Hudi merges others in more than one way."""

_START = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")


class ContentError(OperatorError):
    """The content of a block is of a kind that is not read here, or not as Hudi writes it."""


class Contents:
    """Reader of blocks whose records are compared: all of them by one schema, that of the merged block.

    `ordering_fields` are empty by commit time. Raises ContentError for a schema that cannot be compared.
    """

    def __init__(self, schema: str, ordering_fields: Sequence[str]) -> None:
        self._ordering_fields = tuple(ordering_fields)
        self._schema = _columns(schema)
        types = {name: _name(kind) for name, kind in self._schema}
        if OPERATION in types:
            raise ContentError(f"records with {OPERATION}")
        if len(self._ordering_fields) > 1:
            raise ContentError("several ordering fields")
        self._kind = next((_KINDS.get(types.get(field) or "") for field in self._ordering_fields), None)
        if self._ordering_fields and self._kind is None:
            raise ContentError(f"ordering field {self._ordering_fields[0]} of another type than int and long")
        self._columns = [name for name in types if not name.startswith("_hoodie_")]

    def changes(self, file: BinaryIO, block: RawBlock) -> Iterator[tuple[str, Change]]:
        """Yield the keys of a block of an open file, and what it does to each. Raises ContentError and OSError."""
        file.seek(block.position)
        try:
            if block.kind == DELETE:
                for delete in read_deletes(file, block.length, largest=LARGEST_DELETES):
                    yield delete.key, Change(self._ordering_of(delete))
            elif block.kind == AVRO:
                yield from (self._change(row) for row in self._rows(file, block))
            else:
                raise ContentError(f"a block of kind {block.kind}")
        except DeletesError as error:
            raise ContentError(str(error)) from error
        except NOT_AVRO as error:
            raise ContentError(f"{type(error).__name__}: {error}") from error

    def _rows(self, file: BinaryIO, block: RawBlock) -> Iterator[dict[str, Any]]:
        version, count = _START.unpack(file.read(_START.size))
        if version != AVRO_VERSION:
            raise ContentError(f"records of version {version}")
        if _columns(block.schema) != self._schema:
            # NB: a reader converts values of a type that was changed, or fills in columns, in its release's own way.
            raise ContentError("blocks of different schemas")
        written = _parsed(block.schema)
        for _ in range(count):
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            row: Any = schemaless_reader(io.BytesIO(file.read(length)), written, None)
            yield row

    def _change(self, row: dict[str, Any]) -> tuple[str, Change]:
        ordering = next((row[field] for field in self._ordering_fields), None)
        if self._ordering_fields and ordering is None:
            raise ContentError("an ordering value that is null")
        if row.get(IS_DELETED):
            raise ContentError(f"a row with {IS_DELETED}")
        text = json.dumps([row[name] for name in self._columns], default=repr, sort_keys=True)
        return row[KEY], Change(ordering, blake2b(text.encode(), digest_size=16).digest())

    def _ordering_of(self, delete: Delete) -> Any:
        if not self._ordering_fields or delete.is_by_operation:
            return None
        if delete.kind != self._kind:
            # NB: Hudi lets a delete win whose ordering value is of another class than the row's.
            raise ContentError("ordering values of two types")
        return delete.value


@lru_cache(maxsize=32)
def _parsed(schema: str) -> Any:
    """Return a schema without logical types, so that values are as they were written, but decimals as numbers."""
    try:
        return parse_schema(_plain(json.loads(schema)))
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError) as error:
        raise ContentError(f"a schema that cannot be read: {type(error).__name__}: {error}") from error


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _plain(value) if key in ("type", "fields", "items", "values") else value
        for key, value in schema.items()
        if key != "logicalType" or value == "decimal"
    }


def _columns(schema: str) -> list[tuple[str, Any]]:
    """Return name and type of each column."""
    _parsed(schema)
    return [(field["name"], field["type"]) for field in json.loads(schema).get("fields", ())]


def _name(kind: Any) -> str | None:
    """Return the name of a column's type, which may be a union with null; None for a logical or complex one."""
    found = next((one for one in kind if one != "null"), None) if isinstance(kind, list) else kind
    return found if isinstance(found, str) else None
