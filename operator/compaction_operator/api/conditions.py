"""Kubernetes conditions as values: one entry per type, the transition time moves only with the status."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator

from compaction_operator.api.model import ReadModel

SUCCEEDED = "Succeeded"
"""The condition type that says how a resource ended, or what it waits for."""


class ConditionStatus(StrEnum):
    """The three values of a condition's status."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


MESSAGE_LIMIT = 4096
"""Characters of a condition's message: the API server would refuse the whole status for one beyond 32768."""


def _shortened(message: str) -> str:
    return message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 1]}…"


Message = Annotated[str, BeforeValidator(_shortened)]
"""A sentence for people, no longer than a status can take."""


class Condition(ReadModel):
    """One condition of a resource (the metav1.Condition convention)."""

    type: str
    status: ConditionStatus
    reason: str
    message: Message = ""
    observed_generation: int | None = None
    last_transition_time: str


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of that type, or None."""
    return next((condition for condition in conditions if condition.type == type_), None)


def with_condition(conditions: Iterable[Condition], new: Condition) -> tuple[Condition, ...]:
    """Return the conditions with `new` in the place of the one of its type.

    The old transition time is kept when the status did not change; the order of types is kept too.
    """
    kept = tuple(conditions)
    old = find_condition(kept, new.type)
    if old is None:
        return (*kept, new)
    if old.status == new.status:
        new = new.model_copy(update={"last_transition_time": old.last_transition_time})
    return tuple(new if condition.type == new.type else condition for condition in kept)
