"""Text for a terminal: tables, ages and colours. Pure; click leaves colours out where no terminal reads them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import click

from compaction_operator.controller.kube.times import parse_time

GAP = "  "
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


@dataclass(frozen=True)
class Cell:
    """A text in a table, with its colour if it has one."""

    text: str
    colour: str | None = None


@dataclass(frozen=True)
class Row:
    """One line of a table, and the lines that belong below it."""

    cells: tuple[Cell, ...]
    below: tuple[str, ...] = ()


def printable(text: str) -> str:
    """Return a text in which nothing moves the cursor or begins a line: clients of Hive choose their own names."""
    return "".join(one if one.isprintable() else " " if one.isspace() else "\N{REPLACEMENT CHARACTER}" for one in text)


def table(headings: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table's lines: columns as wide as their longest text, and below each row what belongs to it."""
    rows = [replace(row, cells=tuple(replace(cell, text=printable(cell.text)) for cell in row.cells)) for row in rows]
    columns = zip(headings, *([cell.text for cell in row.cells] for row in rows), strict=True)
    widths = [max(map(len, column)) for column in columns]
    yield _line([Cell(heading) for heading in headings], widths, bold=True)
    for row in rows:
        yield _line(row.cells, widths)
        yield from (f"{GAP * 2}{printable(line)}" for line in row.below)


def pairs(found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a line for each title and text; the texts begin in one column. A repeated title is left out."""
    known = tuple(found)
    width = max((len(title) for title, _ in known), default=0) + len(GAP)
    last = None
    for title, text in known:
        yield f"{GAP}{'' if title == last else title:{width}}{printable(text)}"
        last = title


def age(since: str, now: datetime) -> str:
    """Return how long ago an RFC 3339 time was, in its largest unit, such as `3h`; the text itself if it is none."""
    try:
        seconds = max(0, int((now - parse_time(since)).total_seconds()))
    except ValueError:
        return since
    number, unit = next(((seconds // size, unit) for size, unit in _UNITS if seconds >= size), (seconds, "s"))
    return f"{number}{unit}"


def _line(cells: Sequence[Cell], widths: Sequence[int], *, bold: bool = False) -> str:
    """Return one line without blanks at its end. NB: colours have no width, so texts are padded before."""
    last = len(cells) - 1
    texts = (cell.text if place == last else cell.text.ljust(widths[place]) for place, cell in enumerate(cells))
    styled = (_styled(text, cell.colour, bold=bold) for text, cell in zip(texts, cells, strict=True))
    return (GAP + GAP.join(styled)).rstrip()


def _styled(text: str, colour: str | None, *, bold: bool) -> str:
    return click.style(text, fg=colour, bold=bold or None) if colour or bold else text
