"""The result of a run for people: one aligned table, the same in Markdown for the documents, and a plot."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from bench.bars import Group, bars
from bench.engine.engines import ENGINES
from bench.engine.results import Judged

WIDTH = 120
"""How long the lines of a document are."""
SHORTEST = 0.001
"""What the plot shows of less: a logarithmic scale has no 0."""
_NAMES = [engine.name for engine in ENGINES]
_HEAD = ["job", "what", *_NAMES, "Hive ÷ ours", "target", ""]
_BEGIN, _END = "<!-- make bench: begin -->", "<!-- make bench: end -->"


def table(rows: Sequence[Judged]) -> str:
    """Return the CPU seconds of all engines as a table whose columns are aligned."""
    lines = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    return "\n".join("  ".join(_aligned(line, widths)).rstrip() for line in lines)


def markdown(rows: Sequence[Judged]) -> str:
    """Return the same table in Markdown."""
    lines = [_HEAD, ["---"] * len(_HEAD), *(_cells(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def put_into(document: Path, rows: Sequence[Judged], *, told: str) -> None:
    """Replace what is between the document's two marks with a paragraph on the run, and the table."""
    marked = re.compile(f"{re.escape(_BEGIN)}.*{re.escape(_END)}", re.DOTALL)
    between = f"{_BEGIN}\n{textwrap.fill(told, WIDTH)}\n\n{markdown(rows)}\n{_END}"
    document.write_text(marked.sub(lambda _: between, document.read_text()))


def plot(rows: Sequence[Judged]) -> str:
    """Return the table as an SVG of bars."""
    groups = [
        Group(f"{row.job.name}: {row.job.title}", {name: max(one.cpu_s, SHORTEST) for name, one in row.engines.items()})
        for row in rows
    ]
    return bars(groups, names=_NAMES, title="CPU seconds of one compaction (each line is ten times the one before)")


def _cells(row: Judged) -> list[str]:
    seconds = [_number(row.engines[name].cpu_s if name in row.engines else None) for name in _NAMES]
    target = row.job.target.times_hive
    verdict = "missed" if row.misses else "met"
    return [row.job.name, row.job.title, *seconds, _number(row.times_hive), _number(target), verdict]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return words with their column's width on the right, and numbers on the left."""
    words = {0, 1, len(_HEAD) - 1}
    return [
        cell.ljust(width) if column in words else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
