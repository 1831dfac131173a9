"""Kubernetes events for people. Best effort: no decision depends on one."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from compaction_operator.controller.kube.times import rfc3339_seconds

COMPONENT = "compaction-operator"
MESSAGE_LIMIT = 1024
"""The API server's limit for an event's message."""


class EventType(StrEnum):
    """The two event types of Kubernetes."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True)
class Event:
    """Something that happened to a resource."""

    reason: str
    message: str
    type: EventType = EventType.NORMAL


def event_manifest(event: Event, about: Mapping[str, Any], *, now: datetime) -> dict[str, Any]:
    """Return the core/v1 Event about an object in its API form."""
    metadata, time = about["metadata"], rfc3339_seconds(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name'][:200]}.", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "reason": event.reason,
        "message": event.message[:MESSAGE_LIMIT],
        "type": event.type.value,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
