"""Base models of the API: frozen, snake_case in Python, camelCase in JSON, unknown fields refused."""

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

GROUP = "compaction.dev"
VERSION = "v1alpha1"

DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?)(ms|s|m|h)$"
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

SIZE_PATTERN = r"^([1-9][0-9]{0,5})(Ki|Mi|Gi)B?$"
_UNIT_BYTES = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}
_MOST_KIBIBYTES = 999_999


class Model(BaseModel):
    """A frozen value that reads and writes the camelCase JSON of the Kubernetes API."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    def to_json(self) -> dict[str, Any]:
        """Return the camelCase JSON object without unset (None) fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class ReadModel(Model):
    """A model of an object read from the API server. It ignores unknown fields, which a newer version may add."""

    model_config = ConfigDict(extra="ignore")


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, such as `1 file` or `2 files`. The plural must end in s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def parse_duration(text: object) -> float:
    """Return the seconds of a duration such as ``2s``, ``500ms``, ``1.5m`` or ``1h``.

    Raises ValueError, naming the text, for anything else.
    """
    if isinstance(text, float | int):
        return float(text)
    match = re.match(DURATION_PATTERN, str(text))
    if not match:
        raise ValueError(f"{text!r} is not a duration: write a number and a unit, as in 500ms, 2s, 5m or 1h")
    return float(match[1]) * _UNIT_SECONDS[match[3]]


def format_duration(seconds: float) -> str:
    """Return seconds as the shortest exact duration string."""
    if seconds != int(seconds):
        return f"{round(seconds * 1000)}ms"
    return f"{int(seconds)}s"


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN}),
]
"""A duration: float seconds in Python, a string such as ``2s`` in JSON."""


def backed_off(base: float, failures: int, *, cap: float) -> float:
    """Return base * 2^(failures - 1) seconds, at most `cap`; failures count from one."""
    return min(cap, base * 2.0 ** min(max(failures, 1) - 1, 32))


def parse_size(text: object) -> int:
    """Return the bytes of a size such as ``512MiB`` or, as Kubernetes writes it, ``2Gi``.

    Raises ValueError, naming the text, for anything else.
    """
    if isinstance(text, int):
        return text
    match = re.match(SIZE_PATTERN, str(text))
    if not match:
        raise ValueError(f"{text!r} is not a size: write a number and a unit, as in 512MiB or 2GiB")
    return int(match[1]) * _UNIT_BYTES[match[2]]


def format_size(size: int) -> str:
    """Return bytes as a size string, rounded up to a KiB, or to a MiB if the number of KiB has too many digits."""
    kibibytes = -(-size // _UNIT_BYTES["Ki"])
    if kibibytes % 1024 == 0 or kibibytes > _MOST_KIBIBYTES:
        return f"{-(-kibibytes // 1024)}MiB"
    return f"{kibibytes}KiB"


Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": SIZE_PATTERN}),
]
"""A size: int bytes in Python, a string such as ``512MiB`` in JSON."""
