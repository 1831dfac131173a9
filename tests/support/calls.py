"""Records the calls that a fake receives, and lets a test do something at one of them, or fail it."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

ANY = "*"

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound="Recorded")


class Call(NamedTuple):
    """A call with its positional arguments."""

    name: str
    arguments: tuple[Any, ...]


def _callbacks() -> dict[str, list[Callable[..., object]]]:
    return defaultdict(list)


@dataclass
class Recorded:
    """A fake whose methods marked with `call` are recorded, also when they fail."""

    calls: list[Call] = field(default_factory=list, kw_only=True)
    _before: dict[str, list[Callable[..., object]]] = field(default_factory=_callbacks, kw_only=True, repr=False)
    _after: dict[str, list[Callable[..., object]]] = field(default_factory=_callbacks, kw_only=True, repr=False)

    def on(self, call: str, callback: Callable[..., object], *, after: bool = False) -> None:
        """Run a callback with the arguments of each such call (ANY: of each call), before or after it is answered.

        It may change the fake, or raise what the caller gets instead of an answer.
        """
        assert call == ANY or hasattr(self, call), call
        (self._after if after else self._before)[call].append(callback)

    def fail(self, error: Exception, *calls: str) -> None:
        """Answer these calls, or all, with an error from now on, and do nothing."""

        def refuse(*_: object, **__: object) -> None:
            raise error

        for call in calls or (ANY,):
            self.on(call, refuse)

    def recover(self) -> None:
        """Forget all callbacks and failures."""
        self._before.clear()
        self._after.clear()

    def asked(self, call: str) -> list[Any]:
        """Return the first argument of each such call."""
        return [received.arguments[0] for received in self.calls if received.name == call]

    def count(self, call: str) -> int:
        """Return how many such calls there were."""
        return [received.name for received in self.calls].count(call)


def call(method: Callable[Concatenate[F, P], R]) -> Callable[Concatenate[F, P], R]:
    """Make a method a call that is recorded and runs the callbacks of `on`."""
    name = method.__name__

    @wraps(method)
    def answer(self: F, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self.calls.append(Call(name, args))
        for callback in (*self._before[ANY], *self._before[name]):
            callback(*args, **kwargs)
        result = method(self, *args, **kwargs)
        for callback in (*self._after[ANY], *self._after[name]):
            callback(*args, **kwargs)
        return result

    return answer
