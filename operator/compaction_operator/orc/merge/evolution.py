"""Converts rows from older column lists to the table's: the lossless rules of ORC's SchemaEvolution."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from compaction_operator.errors import OperatorError
from compaction_operator.orc.spec import Kind, physical_type, spell, sums_before
from compaction_operator.orc.spec.schema import same

Convert = Callable[[pa.Array], pa.Array]
"""Converts the physical array of a file's column into the target column's, of the same length."""

_INTEGERS = (Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG)
_FLOATS = (Kind.FLOAT, Kind.DOUBLE)
_POSITIONAL = re.compile(r"_col[0-9]+")


class Incompatible(OperatorError, ValueError):  # noqa: N818 - a verdict on two types
    """A file's column cannot be converted to the table's without possible loss."""


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """The source of a target column: the file's column id (None: nulls) and the conversion."""

    target: int
    column: int | None
    convert: Convert

    @property
    def is_unchanged(self) -> bool:
        """Whether the target has the values of the file's column as they are."""
        return self.convert is _unchanged


def evolve(types: Sequence[Any], row: int, target_types: Sequence[Any], target_row: int) -> tuple[ColumnSource, ...]:
    """Return the source in a file for each child of the target's row struct.

    `row` and `target_row` are the column ids of the two structs. Columns match by name. If all names in the file are
    `_colN`, as old Hive wrote them, columns match by position (SchemaEvolution.buildConversion).
    NB: names are case-sensitive (`orc.schema.evolution.case.sensitive`): if the file has `ID`, Hive reads nulls for
    `id`.
    Raises Incompatible naming a column that would lose data: the table lacks it, or has a narrower or unrelated type.
    """
    positional = all(_POSITIONAL.fullmatch(name) for name in types[row].field_names)
    pairs = _pairs(types[row], target_types[target_row], positional=positional, path="")
    return tuple(_source(types, column, target_types, target, name) for name, column, target in pairs)


def _source(
    types: Sequence[Any], column: int | None, target_types: Sequence[Any], target: int, name: str
) -> ColumnSource:
    if column is None:
        type_ = physical_type(target_types, target)
        return ColumnSource(target, None, lambda array: pa.nulls(len(array), type_))
    return ColumnSource(target, column, _conversion(types, column, target_types, target, name))


def _unchanged(array: pa.Array) -> pa.Array:
    return array


def _pairs(struct: Any, target: Any, *, positional: bool, path: str) -> list[tuple[str, int | None, int]]:
    """Return (name, file's column id, target's column id) for each field of a target struct."""
    names = list(target.field_names) if positional else list(struct.field_names)
    found = dict(zip(names, struct.subtypes, strict=False))
    if len(found) != len(struct.subtypes):
        raise Incompatible(f"column {path or 'row'} has fields that the table does not have")
    pairs = [
        (f"{path}.{name}".lstrip("."), found.pop(name, None), column)
        for name, column in zip(target.field_names, target.subtypes, strict=True)
    ]
    if found:
        name = next(iter(found))
        lost = f"{path}.{name}".lstrip(".")
        other_case = name.lower() in (known.lower() for known in target.field_names)
        why = "the table's name differs in case" if other_case else "its values would be lost"
        raise Incompatible(f"column {lost} is in this file but not in the table: {why}")
    return pairs


def _conversion(types: Sequence[Any], column: int, target_types: Sequence[Any], target: int, name: str) -> Convert:
    if same(types, column, target_types, target):
        return _unchanged
    one, other = types[column], target_types[target]
    if one.kind == other.kind and other.subtypes:
        return _nested(types, column, target_types, target, name)
    convert = _primitive(one, other)
    if convert is None:
        raise Incompatible(f"column {name} is {spell(one)} in this file but {spell(other)} in the table")
    return convert


def _primitive(one: Any, other: Any) -> Convert | None:
    """Return the lossless conversion between two primitive types, or None.

    NB: float to double is excluded: Hive 3.1 converts through the decimal text (0.1), Hive 4 exactly (0.10000000149).
    """
    if one.kind in _INTEGERS:
        return _from_integer(one.kind, other)
    match one.kind, other.kind:
        case Kind.DECIMAL, Kind.DECIMAL:
            roomy = other.scale >= one.scale and other.precision - other.scale >= one.precision - one.scale
            return _unchanged if roomy else None
        case (Kind.CHAR, Kind.CHAR) | (Kind.VARCHAR, Kind.VARCHAR):
            return _unchanged if other.maximum_length >= one.maximum_length else None
        case Kind.VARCHAR, Kind.STRING:
            return _unchanged
    return None


def _from_integer(kind: Kind, other: Any) -> Convert | None:
    if other.kind in _INTEGERS and other.kind > kind:
        return lambda array: array.cast(pa.int64())
    # NB: a bigint has more digits than a double, an int more than a float.
    if other.kind in _FLOATS and kind < (Kind.LONG if other.kind == Kind.DOUBLE else Kind.INT):
        floating = physical_type([other], 0)
        return lambda array: array.cast(pa.int64()).cast(floating)
    return (lambda array: array.cast(pa.large_string()).cast(pa.large_binary())) if other.kind == Kind.STRING else None


def _nested(types: Sequence[Any], column: int, target_types: Sequence[Any], target: int, name: str) -> Convert:
    one, other, result = types[column], target_types[target], physical_type(target_types, target)
    if one.kind == Kind.STRUCT:
        pairs = _pairs(one, other, positional=False, path=name)
        sources = [_source(types, child, target_types, wanted, path) for path, child, wanted in pairs]
        positions = {child: position for position, child in enumerate(one.subtypes)}
        return _fields(sources, positions, result)
    if len(one.subtypes) != len(other.subtypes):
        raise Incompatible(f"column {name} is a union with another number of types in the table")
    children = [
        _conversion(types, child, target_types, wanted, f"{name}._{position}")
        for position, (child, wanted) in enumerate(zip(one.subtypes, other.subtypes, strict=True))
    ]
    return _alternatives(children, result) if one.kind == Kind.UNION else _elements(children, result)


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _fields(sources: Sequence[ColumnSource], positions: Mapping[int, int], type_: pa.DataType) -> Convert:
    """Return the conversion that converts, adds and reorders the fields of a struct."""

    def apply(array: pa.Array) -> pa.Array:
        fields = [array if source.column is None else array.field(positions[source.column]) for source in sources]
        children = [source.convert(field) for source, field in zip(sources, fields, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=_null_mask(array))

    return apply


def _alternatives(converts: Sequence[Convert], type_: pa.DataType) -> Convert:
    """Return the conversion of the alternatives of a union."""

    def apply(array: pa.Array) -> pa.Array:
        tags, *alternatives = (array.field(position) for position in range(len(converts) + 1))
        children = [tags, *(convert(field) for convert, field in zip(converts, alternatives, strict=True))]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=_null_mask(array))

    return apply


def _elements(converts: Sequence[Convert], type_: pa.DataType) -> Convert:
    """Return the conversion of the elements of a list, or of the keys and values of a map."""

    def apply(array: pa.Array) -> pa.Array:
        offsets = sums_before(array.value_lengths().fill_null(0).to_numpy())
        values = array.flatten()
        if len(converts) == 1:
            converted = converts[0](values)
        else:
            parts = [convert(values.field(position)) for position, convert in enumerate(converts)]
            converted = pa.StructArray.from_arrays(parts, fields=list(type_.value_type))
        return pa.LargeListArray.from_arrays(pa.array(offsets), converted, type=type_, mask=_null_mask(array))

    return apply
