"""A line plot as SVG, of the few lines that one needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 60, 220, 46, 46
COLOURS = ("#c0392b", "#2471a3", "#1e8449", "#7d3c98")
STYLE = "font-family: sans-serif; font-size: 12px"


@dataclass(frozen=True)
class Line:
    """A name, and a value for each of 1, 2, 3, ..."""

    name: str
    values: Sequence[float]


def plot(lines: Sequence[Line], *, title: str, across: str, up: str) -> str:
    """Return an SVG with each line's name and last value at its end, and what the two axes tell."""
    longest = max(len(line.values) for line in lines)
    top = max(max(line.values) for line in lines)
    parts = [text(LEFT, 20, title, size=14), *_axes(longest, top, across, up)]
    for line, colour in zip(lines, COLOURS, strict=False):
        points = [(_x(number, longest), _y(value, top)) for number, value in enumerate(line.values, start=1)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        x, y = points[-1]
        parts.append(text(x + 6, y + 4, f"{line.values[-1]:.1f}  {line.name}", colour=colour))
    return picture(parts, width=WIDTH, height=HEIGHT)


def picture(parts: Sequence[str], *, width: int, height: int) -> str:
    """Return the elements as an SVG on white."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" style="{STYLE}">'
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>", ""])


def _axes(longest: int, top: float, across: str, up: str) -> list[str]:
    parts = [text(LEFT, 38, up), text(_x(longest / 2, longest), HEIGHT - 10, across, anchor="middle")]
    for value in _ticks(top):
        y = _y(value, top)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(text(LEFT - 6, y + 4, f"{value:g}", anchor="end"))
    for value in _ticks(longest):
        parts.append(text(_x(value, longest), HEIGHT - BOTTOM + 18, f"{value:g}", anchor="middle"))
    return parts


def _ticks(top: float) -> list[float]:
    """Return about five round numbers from 0 to what is not more than `top`."""
    unit = 1.0
    while unit * 10 < top:
        unit *= 10
    step = next(unit * part for part in (0.2, 0.5, 1, 2) if top / (unit * part) <= 6)
    return [number * step for number in range(int(top / step) + 1)]


def _x(value: float, longest: float) -> float:
    return LEFT + value / longest * (WIDTH - LEFT - RIGHT)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)


def text(x: float, y: float, words: str, *, anchor: str = "start", colour: str = "#222222", size: int = 12) -> str:
    """Return a line of text that begins, ends or has its middle at a place."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}"'
    return f"<text {place}>{escape(words)}</text>"
