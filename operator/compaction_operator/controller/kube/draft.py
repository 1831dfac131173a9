"""Draft of a decision's result: a status that is changed field by field, and the events that accompany it."""

from datetime import datetime
from typing import Any, Generic

from compaction_operator.api.conditions import (
    COMPLETE,
    FAILED,
    SUCCEEDED,
    Condition,
    ConditionStatus,
    find_condition,
)
from compaction_operator.controller.kube.events import Event, EventType
from compaction_operator.controller.kube.resources import Resource, StatusT
from compaction_operator.controller.kube.times import rfc3339


class Draft(Generic[StatusT]):
    """A resource's status to be written; starts as a copy of the current one, for the observed generation."""

    def __init__(self, resource: Resource[Any, StatusT], now: datetime) -> None:
        self._generation = resource.meta.generation
        self.now = now
        self.status: StatusT = resource.status.model_copy(update={"observed_generation": self._generation})
        self.events: list[Event] = []

    def update(self, **fields: Any) -> None:
        """Change fields of the status."""
        self.status = self.status.model_copy(update=fields)

    def find(self, type_: str) -> Condition | None:
        """Return the condition of that type, or None."""
        return find_condition(self.status.conditions, type_)

    def set(self, type_: str, outcome: ConditionStatus, reason: str, message: str) -> bool:
        """Set a condition; its transition time changes only with its status. Return whether anything changed."""
        old = self.find(type_)
        known: tuple[Condition, ...] = self.status.conditions
        condition = Condition(
            type=type_,
            status=outcome,
            reason=reason,
            message=message,
            observed_generation=self._generation,
            last_transition_time=old.last_transition_time if old and old.status is outcome else rfc3339(self.now),
        )
        replaced = tuple(condition if one.type == type_ else one for one in known)
        self.update(conditions=replaced if old else (*known, condition))
        return old is None or (old.status, old.reason, old.message) != (outcome, reason, condition.message)

    def conclude(self, reason: str, message: str, *, success: bool) -> None:
        """Record the end in Succeeded and in Complete or Failed, with an event."""
        outcome = ConditionStatus.TRUE if success else ConditionStatus.FALSE
        self.set(SUCCEEDED, outcome, reason, message)
        self.set(COMPLETE if success else FAILED, ConditionStatus.TRUE, reason, message)
        self.event(reason, message, EventType.NORMAL if success else EventType.WARNING)

    def event(self, reason: str, message: str, type_: EventType = EventType.NORMAL) -> None:
        """Add an event to post after the status is written."""
        self.events.append(Event(reason, message, type_))
