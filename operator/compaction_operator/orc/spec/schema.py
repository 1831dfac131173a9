"""Type trees of ORC files: validity, the ACID layout, column names and equality."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from compaction_operator.orc.spec.messages import Kind, Type

ACID_FIELDS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")
"""The top-level columns of every ACID file (Hive's OrcRecordUpdater)."""

ROW_ID = 6
"""The column id of `row`; the user's columns follow it."""

_ACID_KINDS = (Kind.INT, Kind.LONG, Kind.INT, Kind.LONG, Kind.LONG, Kind.STRUCT)
_MAX_PRECISION = 38
_DEEPEST = 100  # functions that descend a tree recurse once per level


@dataclass(frozen=True)
class TypeTree:
    """A type tree, and what follows from it. Only `types` and `problem` are there if there is a `problem`."""

    types: Sequence[Any]

    @cached_property
    def problem(self) -> str | None:
        """Why the tree cannot be rewritten, or None if it can."""
        return problem(self.types)

    @cached_property
    def column_names(self) -> Sequence[str]:
        """The name of each column by its id."""
        return column_names(self.types)

    @cached_property
    def ends(self) -> Sequence[int]:
        """The first column id after each column and its descendants."""
        return [subtree_end(self.types, column) for column in range(len(self.types))]

    @cached_property
    def structs_above(self) -> Sequence[Sequence[int] | None]:
        """The ancestors of each column, the nearest first; None if one of them is not a struct."""
        found: list[Sequence[int] | None] = [()] * len(self.types)
        for column, type_ in enumerate(self.types):
            above = found[column]
            for child in type_.subtypes:
                found[child] = None if above is None or type_.kind != Kind.STRUCT else (column, *above)
        return found


def type_tree(types: Sequence[Any]) -> TypeTree:
    """Return a tree of Type messages; equal ones are the same object, as a table has thousands of files with them."""
    return _shared_tree(tuple(type_.SerializeToString(deterministic=True) for type_ in types))


@lru_cache(maxsize=32)
def _shared_tree(types: tuple[bytes, ...]) -> TypeTree:
    return TypeTree([Type.FromString(type_) for type_ in types])


def is_acid(types: Sequence[Any]) -> bool:
    """Return whether the tree is an ACID file's: the six columns, with their kinds, in order."""
    root = types[0]
    if root.kind != Kind.STRUCT or tuple(root.field_names) != ACID_FIELDS:
        return False
    return tuple(types[child].kind for child in root.subtypes) == _ACID_KINDS


def column_names(types: Sequence[Any]) -> list[str]:
    """Return the dotted name of each column id, such as `row.address.city`; the root's is empty."""
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
    """Return why a type tree cannot be rewritten, with the column's name, or None if it can.

    NB: after this check, code that follows column ids (names, levels, ancestors) may rely on a well-formed tree.
    """
    if not _is_tree(types):
        return "its types are not a tree"
    if max(_levels(types)) > _DEEPEST:
        return f"its types are nested more than {_DEEPEST} levels deep"
    for name, type_ in zip(column_names(types), types, strict=True):
        if type_.kind not in set(Kind):
            return f"column {name} has the unknown kind {type_.kind}"
        if type_.kind == Kind.DECIMAL and not 1 <= type_.precision <= _MAX_PRECISION:
            return f"column {name} is a decimal without a precision, as Hive 0.11 wrote it"
    return None


def _is_tree(types: Sequence[Any]) -> bool:
    """Return whether column ids are in pre-order (ORC specification, "Types") and each kind has valid children.

    NB: a struct or union needs at least one child. Without one, no stream would confirm how many values it has.
    """
    following = [0]
    for column, type_ in enumerate(types):
        if not following or following.pop() != column or not _has_its_children(type_):
            return False
        following += reversed(type_.subtypes)
    return not following


def _levels(types: Sequence[Any]) -> list[int]:
    """Return the number of ancestors of each column."""
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
    """Return the first column id after a column and its descendants."""
    end = column + 1
    while types[end - 1].subtypes:
        end = types[end - 1].subtypes[-1] + 1
    return end


def same(types: Sequence[Any], column: int, other: Sequence[Any], other_column: int) -> bool:
    """Return whether two columns have the same type and field names, descendants included."""
    if types is other and column == other_column:
        return True
    left, right = types[column], other[other_column]
    if _signature(left) != _signature(right) or len(left.subtypes) != len(right.subtypes):
        return False
    children = zip(left.subtypes, right.subtypes, strict=True)
    return all(same(types, one, other, another) for one, another in children)


def _signature(type_: Any) -> tuple[Any, ...]:
    return type_.kind, tuple(type_.field_names), type_.maximum_length, type_.precision, type_.scale


def signature(types: Sequence[Any], column: int) -> str:
    """Return a text that two columns share exactly if they are the `same`."""
    # NB: column ids are in pre-order, so the numbers of children say which column each one belongs to.
    return repr([(*_signature(type_), len(type_.subtypes)) for type_ in types[column : subtree_end(types, column)]])


def has_dates(types: Sequence[Any]) -> bool:
    """Return whether the tree has a date or timestamp, so that the file's calendar matters."""
    return any(type_.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT) for type_ in types)


def acid_tree(row: Sequence[Any]) -> list[Any]:
    """Return the ACID tree whose `row` is the tree of a file that predates the ACID table."""
    leaves = [Type(kind=kind) for kind in _ACID_KINDS[:-1]]
    root = Type(kind=Kind.STRUCT, subtypes=range(1, ROW_ID + 1), field_names=ACID_FIELDS)
    return [root, *leaves, *(_shifted(type_) for type_ in row)]


def _shifted(type_: Any) -> Any:
    shifted = Type()
    shifted.CopyFrom(type_)
    shifted.subtypes[:] = [child + ROW_ID for child in type_.subtypes]
    return shifted
