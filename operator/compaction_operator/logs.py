"""Logs: lines of text, or one JSON object a line that says in fields of its own what the line is about."""

import json
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum

TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"

Value = str | int
Subject = Mapping[str, Value]
"""What a line is about: `warehouse`, `namespace`, `resource` (kind/name), `table`, `attempt`; not all have all."""

_subject: ContextVar[Subject | None] = ContextVar("subject", default=None)


class LogFormat(StrEnum):
    """How lines are written."""

    TEXT = "Text"
    JSON = "Json"


def subject(
    *, warehouse: str, namespace: str = "", resource: str = "", table: object = "", attempt: int = 0
) -> dict[str, Value]:
    """Return a subject without the fields that are empty."""
    fields: dict[str, Value] = {
        "warehouse": warehouse,
        "namespace": namespace,
        "resource": resource,
        "table": str(table),
        "attempt": attempt,
    }
    return {name: value for name, value in fields.items() if value}


def set_subject(about: Subject) -> None:
    """Say what all further lines of this task are about. Tasks and copies of its context that it makes inherit that."""
    _subject.set(about)


def write_as(log_format: LogFormat, about: Subject | None = None) -> None:
    """Write all further lines in a format. `about` is what lines without a subject of their own are about."""
    if log_format is LogFormat.JSON:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonFormatter(about or {}))


class JsonFormatter(logging.Formatter):
    """Writes a line as an object: `time`, `level`, `logger`, `message`, then the subject, then `exception`."""

    def __init__(self, about: Subject) -> None:
        super().__init__()
        self._about = about

    def format(self, record: logging.LogRecord) -> str:
        """Return the object of a record, on a single line."""
        line: dict[str, Value] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **(_subject.get() or self._about),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
