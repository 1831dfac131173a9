"""Kubernetes conditions as values. There is one per type, and its transition time changes only with its status."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator

from compaction_operator.api.model import ReadModel

SUCCEEDED = "Succeeded"
"""The condition type that reports how a resource ended, or what it waits for."""
COMPLETE = "Complete"
FAILED = "Failed"
"""The condition types of an end, as a Job has them: one of the two is True then, and both are absent before."""


class ConditionStatus(StrEnum):
    """The three values of a condition's status."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


MESSAGE_LIMIT = 4096
"""Maximum characters of a condition's message. The API server refuses a whole status if one exceeds 32768."""


def _shortened(message: str) -> str:
    return message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 1]}…"


Message = Annotated[str, BeforeValidator(_shortened)]
"""A sentence for people, shortened to MESSAGE_LIMIT."""


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
