"""Groups of horizontal bars as SVG, on a logarithmic scale."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.plot import picture, text

WIDTH = 820
LEFT, RIGHT, TOP, BOTTOM = 320, 60, 62, 14
BAR, GAP = 10, 12
COLOURS = ("#7f8c8d", "#1e8449", "#82c99d", "#c0392b", "#d68910", "#7d3c98")


@dataclass(frozen=True)
class Group:
    """A name, and a positive value for each bar that it has."""

    name: str
    values: Mapping[str, float]


def bars(groups: Sequence[Group], *, names: Sequence[str], title: str) -> str:
    """Return an SVG in which each name has one colour, and each bar its value at its end."""
    values = [value for group in groups for value in group.values.values()]
    low, high = math.floor(math.log10(min(values))), math.floor(math.log10(max(values))) + 1
    colours = dict(zip(names, COLOURS, strict=False))
    parts = [text(14, 22, title, size=14), *_legend(colours)]
    y, bodies = TOP, list[str]()
    for group in groups:
        bodies += _group(group, y, colours, low, high)
        y += BAR * len(group.values) + GAP
    for power in range(low, high + 1):
        x = _x(10.0**power, low, high)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{y - GAP}" stroke="#dddddd"/>')
    return picture([*parts, *bodies], width=WIDTH, height=y + BOTTOM)


def _legend(colours: Mapping[str, str]) -> list[str]:
    return [text(14 + 110 * number, 44, name, colour=colour) for number, (name, colour) in enumerate(colours.items())]


def _group(group: Group, y: float, colours: Mapping[str, str], low: int, high: int) -> list[str]:
    parts = [text(LEFT - 10, y + BAR, group.name, anchor="end")]
    for number, (name, value) in enumerate(group.values.items()):
        top, width = y + BAR * number, _x(value, low, high) - LEFT
        parts.append(f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR - 2}" fill="{colours[name]}"/>')
        parts.append(text(LEFT + width + 4, top + BAR - 2, f"{value:.3g}", size=9))
    return parts


def _x(value: float, low: int, high: int) -> float:
    return LEFT + (math.log10(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)
