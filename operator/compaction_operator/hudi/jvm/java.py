"""Conversions between Python and Java by py4j: lists, options and maps, and Hudi's exceptions as HudiError."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from compaction_operator.hudi.errors import HudiFailedError, HudiLockError, WaitingForInstantError

_MESSAGE_LENGTH = 500


def items(java_list: Any) -> list[Any]:
    """Return a Java list as a Python list, null as an empty one. NB: py4j cannot iterate over Avro's lists."""
    return [] if java_list is None else [java_list.get(number) for number in range(java_list.size())]


def streamed(jvm: Any, stream: Any) -> list[Any]:
    """Return the elements of a Java stream."""
    return items(stream.collect(jvm.java.util.stream.Collectors.toList()))


def java_list(jvm: Any, values: Iterable[Any] = ()) -> Any:
    """Return a java.util.ArrayList."""
    found = jvm.java.util.ArrayList()
    for value in values:
        found.add(value)
    return found


def java_map(jvm: Any, values: Mapping[str, str]) -> Any:
    """Return a java.util.HashMap of strings."""
    found = jvm.java.util.HashMap()
    for key, value in values.items():
        found.put(key, value)
    return found


def call_hidden(jvm: Any, target: Any, name: str, *arguments: Any) -> Any:
    """Call a method that is not public, of the class of an object or of one that it extends, by Java's reflection."""
    types = [argument.getClass() for argument in arguments]
    method = next(one for one in _methods(target) if str(one.getName()) == name and _takes(one, types))
    method.setAccessible(True)
    return method.invoke(target, _java_array(jvm, arguments))


def _methods(target: Any) -> Iterator[Any]:
    declaring = target.getClass()
    while declaring is not None:
        yield from declaring.getDeclaredMethods()
        declaring = declaring.getSuperclass()


def _takes(method: Any, types: Sequence[Any]) -> bool:
    """Whether a method takes arguments of these classes."""
    wanted = list(method.getParameterTypes())
    return len(wanted) == len(types) and all(one.isAssignableFrom(own) for one, own in zip(wanted, types, strict=True))


def _java_array(jvm: Any, values: Sequence[Any]) -> Any:
    """Return a Java array of objects."""
    arrays = jvm.java.lang.reflect.Array
    found = arrays.newInstance(jvm.java.lang.Class.forName("java.lang.Object"), len(values))
    for number, value in enumerate(values):
        arrays.set(found, number, value)
    return found


def value_of(option: Any) -> Any:
    """Return the value of an Option of Hudi, None for an empty one."""
    return option.get() if option.isPresent() else None


@contextmanager
def hudi_errors(what: str) -> Iterator[None]:
    """Raise Hudi's exceptions as a HudiError. Its message names the operation (`what`) and the deepest cause.

    NB: Hudi 1.2.0 also throws HoodieLockException when another client seems to run the compaction.
    PySpark converts some Java exceptions to its own (IllegalArgumentException: a file of the timeline is gone).
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - part of PySpark, which the controller does not load
    from pyspark.errors.exceptions.captured import CapturedException  # noqa: PLC0415

    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        thrown = error._origin if isinstance(error, CapturedException) else error.java_exception
        causes = _causes(thrown) or [(type(error).__name__, str(error))]
        name, text = causes[-1]
        message = f"{what}: {name}: {' '.join(text.split())[:_MESSAGE_LENGTH]}"
        if any("heartbeat" in text for name, text in causes if name == "HoodieLockException"):
            raise WaitingForInstantError(message) from error
        if any(name == "HoodieLockException" for name, _ in causes):
            raise HudiLockError(message) from error
        raise HudiFailedError(message) from error


def _causes(thrown: Any) -> list[tuple[str, str]]:
    """Return the simple class name and the message of an exception and of each of its causes."""
    found: list[tuple[str, str]] = []
    while thrown is not None and len(found) < 20:
        found.append((str(thrown.getClass().getSimpleName()), str(thrown.getMessage())))
        thrown = thrown.getCause()
    return found
