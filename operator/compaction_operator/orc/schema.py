"""Type trees of ORC files: what makes one an ACID file's, and whether two are the same."""

from collections.abc import Collection, Sequence
from typing import Any

from compaction_operator.orc.messages import Kind, Type

ACID_FIELDS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")
"""The columns of every ACID file (Hive's OrcRecordUpdater)."""

ROW_ID = 6
"""The column id of `row`; the user's columns follow it."""

_ACID_KINDS = (Kind.INT, Kind.LONG, Kind.INT, Kind.LONG, Kind.LONG, Kind.STRUCT)
_STRINGS = frozenset({Kind.STRING, Kind.CHAR, Kind.VARCHAR})
_TIMESTAMPS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})
_KEPT = frozenset(Kind) - {Kind.UNION}


def is_acid(types: Sequence[Any]) -> bool:
    """Whether the tree is that of an ACID file: the six columns with their kinds, in their order."""
    root = types[0]
    if root.kind != Kind.STRUCT or tuple(root.field_names) != ACID_FIELDS:
        return False
    return tuple(types[child].kind for child in root.subtypes) == _ACID_KINDS


def column_names(types: Sequence[Any]) -> list[str]:
    """The dotted name of each column id, such as `row.address.city`; the root's is empty."""
    names = [""] * len(types)
    for column, type_ in enumerate(types):
        labels = list(type_.field_names) or _child_labels(type_)
        for label, child in zip(labels, type_.subtypes, strict=True):
            names[child] = f"{names[column]}.{label}".lstrip(".")
    return names


def _child_labels(type_: Any) -> list[str]:
    if type_.kind == Kind.MAP:
        return ["_key", "_value"]
    return ["_elem"] if type_.kind == Kind.LIST else [f"_{n}" for n in range(len(type_.subtypes))]


def unsupported(types: Sequence[Any]) -> str | None:
    """Say which column has a type that cannot be rewritten without loss, or None."""
    for name, type_ in zip(column_names(types), types, strict=True):
        if type_.kind not in _KEPT:
            kind = Kind(type_.kind).name.lower() if type_.kind in set(Kind) else f"of kind {type_.kind}"
            return f"column {name} is {kind}, which cannot be kept bit for bit"
        if type_.kind == Kind.DECIMAL and not 1 <= type_.precision <= 38:
            return f"column {name} is a decimal of Hive 0.11 without a precision"
    return None


def difference(types: Sequence[Any], other: Sequence[Any], *, same_encoding: bool = False) -> str | None:
    """The name of the first column in which two trees differ, or None.

    With `same_encoding` string, char and varchar count as one type: their bytes in the file are alike.
    """
    names = column_names(types)
    for name, left, right in zip(names, types, other, strict=False):
        if _signature(left, same_encoding) != _signature(right, same_encoding):
            return name or "(root)"
    return None if len(types) == len(other) else "(root)"


def _signature(type_: Any, same_encoding: bool) -> tuple[Any, ...]:
    shape = (tuple(type_.subtypes), tuple(type_.field_names))
    if same_encoding and type_.kind in _STRINGS:
        return (Kind.STRING, *shape)
    return (type_.kind, *shape, type_.maximum_length, type_.precision, type_.scale)


def columns_of(types: Sequence[Any], kinds: Collection[Kind]) -> list[str]:
    """The names of the columns of some kinds."""
    return [name for name, type_ in zip(column_names(types), types, strict=True) if type_.kind in kinds]


def has_dates(types: Sequence[Any]) -> bool:
    """Whether the calendar of the file matters."""
    return any(type_.kind == Kind.DATE or type_.kind in _TIMESTAMPS for type_ in types)


def acid_tree(row: Sequence[Any]) -> list[Any]:
    """The tree of an ACID file whose `row` is the given tree, that of a file from before the table was ACID."""
    leaves = [Type(kind=kind) for kind in _ACID_KINDS[:-1]]
    root = Type(kind=Kind.STRUCT, subtypes=range(1, ROW_ID + 1), field_names=ACID_FIELDS)
    return [root, *leaves, *(_shifted(type_) for type_ in row)]


def _shifted(type_: Any) -> Any:
    shifted = Type()
    shifted.CopyFrom(type_)
    shifted.subtypes[:] = [child + ROW_ID for child in type_.subtypes]
    return shifted
