"""The trace of each attempt, as spans: made of what statuses and the driver's result say, once a stage has ended."""

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from compaction_operator.api.conditions import SUCCEEDED, Condition, ConditionStatus, find_condition
from compaction_operator.api.request import Stage, StageTimes
from compaction_operator.controller.kube.driver_pod import DriverEnd
from compaction_operator.controller.kube.resources import Cleanup, Compaction
from compaction_operator.controller.kube.times import known_time
from compaction_operator.controller.otlp import Span

log = logging.getLogger(__name__)

Send = Callable[[Iterable[Span]], None]
ROOT = "attempt"
BUSY = "compaction.busy_ms"
ERROR_CHARACTERS = 1000
LEEWAY = timedelta(seconds=1)
"""Kubernetes gives the start and the end of a container in whole seconds."""
_USER = re.compile(r"(?<=://)[^/\s]*@")


def nowhere(_spans: Iterable[Span]) -> None:
    """Send nothing: tracing is off. NB: the spans are not even made."""


@dataclass(frozen=True)
class Traces:
    """Sends the spans of what a written status has ended. Never raises: no compaction depends on a trace."""

    send: Send = nowhere

    def judged(self, before: Compaction, after: Compaction, end: DriverEnd | None, *, now: datetime) -> None:
        """Send the spans of an attempt that a written status has judged."""
        if before.attempt_running and not after.attempt_running:
            self._send(attempt_spans(before, after, end, now=now))

    def cleaned(self, before: Cleanup, after: Cleanup) -> None:
        """Send the spans of a cleanup that a written status has ended."""
        if after.ended and not before.ended:
            self._send(cleanup_spans(after))

    def _send(self, spans: Iterable[Span]) -> None:
        try:
            self.send(spans)
        except Exception:
            log.exception("a trace is lost")


def attempt_spans(before: Compaction, after: Compaction, end: DriverEnd | None, *, now: datetime) -> Iterator[Span]:
    """Yield the spans of an attempt that has just been judged: the root, queue, launch and driver with its stages."""
    compaction, status = before, before.status
    started = known_time(status.attempt_start_time or "") or now
    first = status.attempt == 1
    make = _Maker(compaction.meta.uid, status.attempt)
    begin = compaction.meta.created if first else started
    root = replace(make.span("", ROOT, begin, now), parent="", attributes=_attributes(compaction))
    yield _judged(root, after.status.conditions)
    if first:
        yield make.span(ROOT, "queue", begin, started)
    # NB: of a container that could not be started the kubelet may say that it started in 1970.
    if end is None or end.started is None or end.finished is None or end.started < started - LEEWAY:
        return
    yield make.span(ROOT, "launch", started, end.started)
    yield make.span(ROOT, "driver", end.started, end.finished)
    stages = end.result.stages if end.result else {}
    yield from _stage_spans(make, stages, earliest=end.started - LEEWAY, latest=end.finished + LEEWAY)


def _stage_spans(
    make: "_Maker", stages: Mapping[str, StageTimes], *, earliest: datetime, latest: datetime
) -> Iterator[Span]:
    """Yield the spans of the known stages whose times are possible: a pod of a tenant says them."""
    least, most = (moment.timestamp() * 1000 for moment in (earliest, latest))
    for stage in (one for one in Stage if one in stages):
        first, last, busy = stages[stage]
        if least <= first and last <= most and 0 <= busy <= last - first:
            yield replace(make.span("driver", stage, _moment(first), _moment(last)), attributes={BUSY: busy})


def cleanup_spans(cleanup: Cleanup) -> Iterator[Span]:
    """Yield the spans of a cleanup that has ended: it belongs to its attempt, and has the wait and the deletion."""
    status, compaction = cleanup.status, cleanup.spec.compaction
    make = _Maker(compaction.uid, compaction.attempt)
    ended = known_time(status.completion_time or "") or cleanup.meta.created
    name = f"cleanup {cleanup.meta.name}"
    whole = make.span(ROOT, name, cleanup.meta.created, ended)
    attributes = {"k8s.namespace.name": cleanup.meta.namespace, "compaction.cleanup": cleanup.meta.name}
    whole = replace(whole, name="cleanup", attributes=attributes)
    yield _judged(whole, status.conditions)
    gone, deleting = known_time(status.readers_gone_time or ""), known_time(status.deletion_start_time or "")
    if gone is not None:
        yield replace(make.span(name, f"{name} wait", cleanup.meta.created, gone), name="wait for readers")
    if deleting is not None:
        yield replace(make.span(name, f"{name} deletion", deleting, ended), name="deletion")


@dataclass(frozen=True)
class _Maker:
    """Makes the spans of one attempt. Their ids follow from it, so no process tells another one."""

    uid: str
    attempt: int

    def span(self, parent: str, name: str, start: datetime, end: datetime) -> Span:
        return Span(self._id("", 32), self._id(name, 16), self._id(parent, 16), name, start, end)

    def _id(self, name: str, digits: int) -> str:
        return hashlib.sha256(f"{self.uid}/{self.attempt}/{name}".encode()).hexdigest()[:digits]


def _attributes(compaction: Compaction) -> dict[str, str | int]:
    """Return what the root is about, by OpenTelemetry's names where there are any."""
    table = compaction.spec.table
    return {
        "k8s.namespace.name": compaction.meta.namespace,
        "k8s.job.name": compaction.status.job or "",
        "db.namespace": table.database or "",
        "db.collection.name": table.name or _without_users(table.location or ""),
        "compaction.name": compaction.meta.name,
        "compaction.type": compaction.spec.type.value,
        "compaction.warehouse": compaction.spec.warehouse,
        "compaction.attempt": compaction.status.attempt,
    }


def _judged(span: Span, conditions: Sequence[Condition]) -> Span:
    """Return a span with the error that its conditions say, if they say one."""
    verdict = find_condition(conditions, SUCCEEDED)
    if verdict is None or verdict.status is ConditionStatus.TRUE:
        return span
    error = _without_users(verdict.message)[:ERROR_CHARACTERS]
    return replace(span, error=error, attributes={**span.attributes, "error.type": verdict.reason})


def _without_users(text: str) -> str:
    """Return a text whose addresses lack what is before an @: it may be a password."""
    return _USER.sub("", text)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
