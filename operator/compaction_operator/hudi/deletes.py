"""The content of a delete block: an Avro record of deleted keys (HoodieDeleteRecordList), since Hudi 0.14."""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from fastavro import parse_schema, schemaless_reader
from fastavro.read import SchemaResolutionError

from compaction_operator.errors import OperatorError
from compaction_operator.hudi.log_blocks import BY_FLAG_AS_INT

VERSION = 3
"""The version of such a content."""

INT, LONG = 2, 3
"""The places of an int and a long among the types of a deleted key's ordering value."""

NOT_AVRO = (
    EOFError,
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    SchemaResolutionError,
    TypeError,
    ValueError,
    struct.error,
)
"""What fastavro raises for bytes that are not what a schema says."""

_START = struct.Struct(">ii")
_SCALARS = {
    "Boolean": "boolean",
    "Int": "int",
    "Long": "long",
    "Float": "float",
    "Double": "double",
    "Bytes": "bytes",
    "String": "string",
    "Date": "int",
    "Decimal": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    "TimeMicros": "long",
    "TimestampMicros": "long",
}


class DeletesError(OperatorError):
    """The content is not as HoodieDeleteBlock writes it, or it is of another version or too large."""


@dataclass(frozen=True, slots=True)
class Delete:
    """A deleted key. `kind` is the place of the type of its ordering value, 0 for none, among those of the schema.

    The value of several ordering fields is not kept: nothing compares it.
    """

    key: str
    kind: int
    value: Any

    @property
    def is_by_operation(self) -> bool:
        """Whether it has no ordering value, or Hudi's default one."""
        return self.kind == 0 or (self.kind == INT and not self.value)

    @property
    def type(self) -> int:
        """The type of the ordering value: `kind`, but BY_FLAG_AS_INT for an int other than Hudi's default of 0."""
        return BY_FLAG_AS_INT if self.kind == INT and self.value else self.kind


def _wrapper(name: str, kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": f"{name}Wrapper", "fields": [{"name": "value", "type": kind}]}


def _schema() -> Any:
    wrappers: list[Any] = ["null", *(_wrapper(name, kind) for name, kind in _SCALARS.items())]
    inner = ["null", *(f"{name}Wrapper" for name in _SCALARS), _wrapper("LocalDate", "int")]
    values = {"name": "wrappedValues", "type": ["null", {"type": "array", "items": inner}]}
    wrappers.append({"type": "record", "name": "ArrayWrapper", "fields": [values]})
    fields = [{"name": name, "type": ["null", "string"]} for name in ("recordKey", "partitionPath")]
    fields.append({"name": "orderingVal", "type": wrappers})
    return parse_schema({"type": "record", "name": "HoodieDeleteRecord", "fields": fields})


_SCHEMA = _schema()
_LONG = parse_schema("long")
_KINDS = {name: place for place, name in enumerate([*(f"{name}Wrapper" for name in _SCALARS), "ArrayWrapper"], 1)}


def read_deletes(file: BinaryIO, length: int, *, largest: int) -> Iterator[Delete]:
    """Yield the deleted keys of a content, which begins where `file` is. Raises DeletesError, and OSError.

    A content of over `largest` bytes is not read.
    """
    if length > largest:
        raise DeletesError(f"{length} bytes of deleted keys")
    content = io.BytesIO(file.read(length))
    try:
        version, _ = _START.unpack(content.read(_START.size))
        if version != VERSION:
            raise DeletesError(f"deleted keys of version {version}")
        yield from _keys(content)
    except NOT_AVRO as error:
        raise DeletesError(f"not a list of deleted keys: {type(error).__name__}: {error}") from error


def _keys(content: BinaryIO) -> Iterator[Delete]:
    """Yield the items of an Avro array: parts of a number of items each, a negative one with its size in bytes."""
    while count := _number(content):
        if count < 0:
            _number(content)
        for _ in range(abs(count)):
            found: Any = schemaless_reader(content, _SCHEMA, None, return_record_name=True)
            yield _delete(found)


def _number(content: BinaryIO) -> int:
    found: Any = schemaless_reader(content, _LONG, None)
    return int(found)


def _delete(found: Any) -> Delete:
    key, ordering = found["recordKey"] or "", found["orderingVal"]
    if ordering is None:
        return Delete(key, 0, None)
    name, wrapper = ordering
    return Delete(key, _KINDS[name], wrapper.get("value"))
