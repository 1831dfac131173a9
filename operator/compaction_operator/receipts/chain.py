"""Verification of a chain of receipts. Pure: the lines in, what is wrong with them out.

A line proves all lines before it, and nothing proves the last one. With a `Head` that was kept elsewhere, such as in a
log, it is also found that the newest receipts were removed, or that the whole chain was made again.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from compaction_operator.receipts.receipt import GENESIS, DamagedReceiptError, Receipt, digest

_HEAD = re.compile(r"([1-9][0-9]*):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Head:
    """The newest receipt at some time: its number (0 for none), and the SHA-256 of its line."""

    number: int = 0
    digest: str = GENESIS

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the head of a text as `str` makes it. Raises ValueError, naming the text."""
        match = _HEAD.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a head: write the number and the SHA-256, as history --verify prints it")
        return cls(int(match[1]), match[2])

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The newest receipt that was seen, how many were seen, and what is wrong with them, a sentence each."""

    head: Head
    count: int
    findings: tuple[str, ...]


def verify(lines: Iterable[tuple[int, bytes]], *, known: Head | None = None) -> Verdict:
    """Return what was altered, or is missing, among lines that are given with the numbers under which they are stored.

    `known` is a head that was seen before: its receipt must still be there, unchanged.
    """
    last, count, findings, met = Head(), 0, list[str](), known is None
    for number, line in lines:
        count += 1
        findings += _faults(number, line, last)
        last = Head(number, digest(line))
        if known is not None and number == known.number:
            met = True
            if last != known:
                findings.append(f"receipt {number} was altered: its SHA-256 was {known.digest}")
    if known is not None and not met:
        findings.append(f"receipt {known.number} was there before and is missing; the newest one is {last.number}")
    return Verdict(last, count, tuple(findings))


def _faults(number: int, line: bytes, last: Head) -> Iterator[str]:
    """Yield what is wrong with a line, which should follow `last`."""
    if number <= last.number:
        yield f"receipt {number} is there twice, or not in its place"
        return
    if number > last.number + 1:
        yield f"missing: {_range(last.number + 1, number - 1)}"
    try:
        receipt = Receipt.parse(line)
    except DamagedReceiptError as error:
        yield f"receipt {number} was altered and cannot be read: {error}"
        return
    if receipt.number != number:
        yield f"receipt {number} was altered, or moved: it says that it is number {receipt.number}"
    elif number == last.number + 1 and receipt.previous != last.digest:
        before = f"receipt {last.number} or receipt {number}" if last.number else f"receipt {number}"
        yield f"{before} was altered: receipt {number} has another hash of the one before"


def _range(first: int, last: int) -> str:
    return f"receipt {first}" if first == last else f"receipts {first} to {last}"
