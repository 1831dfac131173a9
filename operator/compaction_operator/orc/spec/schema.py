"""Type trees of ORC files: what makes one an ACID file's, how Hive spells it, and whether two are the same."""

from collections.abc import Sequence
from typing import Any

from compaction_operator.orc.spec.messages import Kind, Type

ACID_FIELDS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")
"""The columns of every ACID file (Hive's OrcRecordUpdater)."""

ROW_ID = 6
"""The column id of `row`; the user's columns follow it."""

_ACID_KINDS = (Kind.INT, Kind.LONG, Kind.INT, Kind.LONG, Kind.LONG, Kind.STRUCT)
_TIMESTAMPS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})
_MAX_PRECISION = 38
_DEEPEST = 100  # what follows a tree downwards calls itself for each level


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


def problem(types: Sequence[Any]) -> str | None:
    """Say what makes a type tree one that cannot be rewritten, naming the column, or None.

    NB: whatever follows the columns' numbers (names, levels, ancestors) may rely on the tree being one.
    """
    if not _is_tree(types):
        return "its types are not a tree"
    if max(_levels(types)) > _DEEPEST:
        return f"its types are nested more than {_DEEPEST} levels deep"
    for name, type_ in zip(column_names(types), types, strict=True):
        if type_.kind not in set(Kind):
            return f"column {name} is of the unknown kind {type_.kind}"
        if type_.kind == Kind.DECIMAL and not 1 <= type_.precision <= _MAX_PRECISION:
            return f"column {name} is a decimal of Hive 0.11 without a precision"
    return None


def _is_tree(types: Sequence[Any]) -> bool:
    """Whether columns are numbered in pre-order (ORC specification, "Types"), with the children that their kind has.

    NB: of a struct or union without any, nothing would bear witness how many values it has.
    """
    following = [0]
    for column, type_ in enumerate(types):
        if not following or following.pop() != column or not _has_its_children(type_):
            return False
        following += reversed(type_.subtypes)
    return not following


def _levels(types: Sequence[Any]) -> list[int]:
    """How many columns each column is in."""
    levels = [0] * len(types)
    for column, type_ in enumerate(types):
        for child in type_.subtypes:
            levels[child] = levels[column] + 1
    return levels


def _has_its_children(type_: Any) -> bool:
    match type_.kind:
        case Kind.STRUCT:
            return len(type_.subtypes) == len(type_.field_names) > 0
        case Kind.UNION:
            return len(type_.subtypes) > 0 and not type_.field_names
        case Kind.LIST | Kind.MAP as kind:
            return len(type_.subtypes) == (1 if kind == Kind.LIST else 2) and not type_.field_names
    return not type_.subtypes and not type_.field_names


def subtree_end(types: Sequence[Any], column: int) -> int:
    """The first column id behind a column and all below it."""
    end = column + 1
    while types[end - 1].subtypes:
        end = types[end - 1].subtypes[-1] + 1
    return end


def same(types: Sequence[Any], column: int, other: Sequence[Any], other_column: int) -> bool:
    """Whether two columns, with all below them, have one type and the same field names."""
    left, right = types[column], other[other_column]
    if _signature(left) != _signature(right) or len(left.subtypes) != len(right.subtypes):
        return False
    children = zip(left.subtypes, right.subtypes, strict=True)
    return all(same(types, one, other, another) for one, another in children)


def _signature(type_: Any) -> tuple[Any, ...]:
    return type_.kind, tuple(type_.field_names), type_.maximum_length, type_.precision, type_.scale


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
