"""Whole types as Hive spells them, from the type tree of a file."""

from collections.abc import Sequence
from typing import Any

from compaction_operator.orc.spec.hive_types import spell
from compaction_operator.orc.spec.messages import Kind


def spelled(types: Sequence[Any], column: int) -> str:
    """Return the type of a column and all below it, which `parse_type` reads."""
    type_ = types[column]
    if not type_.subtypes:
        return spell(type_)
    children = [spelled(types, child) for child in type_.subtypes]
    if type_.kind == Kind.STRUCT:
        children = [f"{name}:{child}" for name, child in zip(type_.field_names, children, strict=True)]
    return f"{spell(type_)}<{','.join(children)}>"
