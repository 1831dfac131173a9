"""What py4j needs in order to talk to Hudi: its lists, options and maps, and its errors as ours."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from compaction_operator.api.request import Reason
from compaction_operator.hudi.errors import HudiError, WaitingForInstantError

_MESSAGE_LENGTH = 500


class HudiFailedError(HudiError):
    """Hudi threw something that is not understood here."""

    reason: ClassVar[Reason] = Reason.DRIVER_FAILED


class HudiLockError(HudiError):
    """The table's lock was not to be had."""

    reason: ClassVar[Reason] = Reason.WAITING_FOR_LOCK


def items(java_list: Any) -> list[Any]:
    """Return a Java list (null: none) as a Python list. NB: Avro's cannot be iterated by py4j."""
    return [] if java_list is None else [java_list.get(number) for number in range(java_list.size())]


def streamed(jvm: Any, stream: Any) -> list[Any]:
    """Return what a Java stream yields."""
    return items(stream.collect(jvm.java.util.stream.Collectors.toList()))


def java_map(jvm: Any, values: Mapping[str, str]) -> Any:
    """Return a java.util.HashMap of strings."""
    found = jvm.java.util.HashMap()
    for key, value in values.items():
        found.put(key, value)
    return found


def value_of(option: Any) -> Any:
    """Return what Hudi's Option holds, or None."""
    return option.get() if option.isPresent() else None


@contextmanager
def hudi_errors(what: str) -> Iterator[None]:
    """Turn what Hudi throws into a HudiError that says `what` was being done and the deepest cause.

    NB: on 1.2.0 a compaction that somebody seems to be running is refused with a HoodieLockException as well.
    PySpark makes its own errors of some of Java's (IllegalArgumentException: a file of the timeline is gone).
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - of PySpark, which the controller does not load
    from pyspark.errors.exceptions.captured import CapturedException  # noqa: PLC0415

    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        thrown = error._origin if isinstance(error, CapturedException) else error.java_exception
        causes = _causes(thrown) or [(type(error).__name__, str(error))]
        message = f"{what}: {_said(causes)}"
        if any("heartbeat" in text for name, text in causes if name == "HoodieLockException"):
            raise WaitingForInstantError(message) from error
        if any(name == "HoodieLockException" for name, _ in causes):
            raise HudiLockError(message) from error
        raise HudiFailedError(message) from error


def _causes(thrown: Any) -> list[tuple[str, str]]:
    """Return the simple class and the message of an exception and of each of its causes."""
    found: list[tuple[str, str]] = []
    while thrown is not None and len(found) < 20:
        found.append((str(thrown.getClass().getSimpleName()), str(thrown.getMessage())))
        thrown = thrown.getCause()
    return found


def _said(causes: list[tuple[str, str]]) -> str:
    name, text = causes[-1]
    return f"{name}: {' '.join(text.split())[:_MESSAGE_LENGTH]}"
