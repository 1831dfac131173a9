"""Telling: numbered steps with what happens, why, and how long it took; and checks that stop the story."""

import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager

INDENT = "   "
WIDTH = 118


class CheckError(Exception):
    """Something is not as the story says it must be; says what, as one line."""


class Story:
    """Prints the story as it happens; where several are told at once, each line begins with a label."""

    def __init__(self, label: str = "") -> None:
        self._label = label
        self._step = 0
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long the story takes so far."""
        return time.monotonic() - self._began

    @contextmanager
    def step(self, title: str, why: str) -> Iterator[None]:
        """Tell what comes next and why; the seconds it took when it is over."""
        self._step += 1
        began = time.monotonic()
        self._print(f"\n{self._step}. {title}")
        self.say(why)
        yield
        self._print(f"{INDENT}({time.monotonic() - began:.1f} s)")

    def say(self, text: str) -> None:
        """Tell a paragraph."""
        self._print(textwrap.fill(" ".join(text.split()), WIDTH, initial_indent=INDENT, subsequent_indent=INDENT))

    def show(self, title: str, text: str) -> None:
        """Show what a command printed, or another quotation."""
        self._print(f"{INDENT}{title}")
        self._print(textwrap.indent(text.rstrip("\n"), f"{INDENT}| ", lambda _: True))

    def check(self, what: str, *, found: object, expected: object) -> None:
        """Tell that it is as expected; raises CheckError when it is not."""
        if found != expected:
            raise CheckError(f"{what}: expected {readable(expected)}, found {readable(found)}")
        self._print(f"{INDENT}ok: {what}")

    def _print(self, text: str) -> None:
        print(textwrap.indent(text, self._label), flush=True)


def readable(value: object) -> str:
    """Return a value in one line, sets in order."""
    if isinstance(value, set | frozenset):
        return ", ".join(sorted(map(str, value))) or "nothing"
    return str(value)
