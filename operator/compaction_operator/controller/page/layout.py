"""What all pages have in common: the frame, links, tables, and how sizes and times are written."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import quote, urlencode

from compaction_operator.api.compaction import CleanupPhase, Phase
from compaction_operator.api.model import counted
from compaction_operator.controller.kube.times import parse_time, rfc3339_seconds
from compaction_operator.controller.page.html import Child, Html, raw_text, tag
from compaction_operator.controller.page.style import STYLE

PAGE_ROWS = 100
NAME = "compaction-operator"
SHORT = 300
"""Characters of a message in a table's cell."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_CLASSES = {Phase.FAILED.value: "bad", Phase.SUCCEEDED.value: "good"}
_SPANS = ((86400, "d"), (3600, "h"), (60, "min"))


@dataclass(frozen=True)
class Query:
    """What a page is asked for: a text to search for, and the number of a page of rows, from 1."""

    text: str = ""
    page: int = 1


@dataclass(frozen=True)
class Links:
    """Addresses of the pages, relative to one of them: a proxy may serve them below any path. `root` leads to /ui/."""

    root: str

    @property
    def overview(self) -> str:
        """The first page."""
        return self.root or "./"

    def page(self, name: str, query: Query | None = None) -> str:
        """Return the address of a list."""
        asked = query or Query()
        wanted = {"q": asked.text or None, "page": asked.page if asked.page > 1 else None}
        parameters = urlencode({key: value for key, value in wanted.items() if value is not None}, errors="replace")
        return f"{self.root}{name}{'?' if parameters else ''}{parameters}"

    def table(self, warehouse: str, name: str) -> Html:
        """Return a link to a table's page, with its name."""
        address = f"{self.root}tables/{_quoted(warehouse)}/{_quoted(name)}"
        return tag("a", name, href=address)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")


MENU = (("tables", "Tables"), ("compactions", "Compactions"), ("cleanups", "Cleanups"))


def page(title: str, *content: Child, links: Links, here: str, now: datetime, again: int | None = None) -> Html:
    """Return a whole page. `here` is its place in the menu; after `again` seconds a browser loads it again."""
    entries = [_entry("Overview", links.overview, here == "")]
    entries += [_entry(text, links.page(name), here == name) for name, text in MENU]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="refresh", content=again) if again else None,
        tag("title", f"{title} - {NAME}"),
        raw_text("style", STYLE),
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", class_="skip", href="#content"),
        tag("header", tag("p", NAME), tag("nav", tag("ul", entries), aria_label="Pages")),
        tag("main", tag("h1", title), *content, id="content", tabindex=-1),
        tag("footer", "As of ", moment(now), ". All times are in UTC. Load the page again for newer figures."),
    )
    return tag("html", head, body, lang="en")


def _entry(text: str, address: str, here: bool) -> Html:
    return tag("li", tag("a", text, href=address, aria_current="page" if here else None))


@dataclass(frozen=True)
class Column:
    """A column of a table. A `word` is short and stays on one line, and a `number` stands to the right."""

    title: str
    kind: Literal["text", "word", "number"] = "text"


def table(caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Child]], *, empty: str) -> Html:
    """Return a table that a phone shows as cards, or the sentence `empty` if there are no rows.

    NB: the roles stay where the style sheet makes blocks of rows and cells.
    """
    if not rows:
        return tag("p", empty, class_="dim")
    heads = [tag("th", one.title, role="columnheader", scope="col", class_=_class(one)) for one in columns]
    lines = [
        tag("tr", [_cell(child, one) for child, one in zip(row, columns, strict=True)], role="row") for row in rows
    ]
    head = tag("thead", tag("tr", heads, role="row"), role="rowgroup")
    return tag("table", head, tag("tbody", lines, role="rowgroup"), role="table", aria_label=caption)


def _cell(child: Child, column: Column) -> Html:
    empty = " empty" if child in (None, "") else ""
    return tag(
        "td", _grouped(child), role="cell", data_label=column.title, class_=f"{_class(column) or ''}{empty}" or None
    )


def _class(column: Column) -> str | None:
    return None if column.kind == "text" else column.kind


def _grouped(child: Child) -> Child:
    return f"{child:,}" if isinstance(child, int) else child


def figures(*found: tuple[str, Child]) -> Html:
    """Return some numbers with their names, at a glance."""
    return tag(
        "dl", [tag("div", tag("dt", name), tag("dd", _grouped(value))) for name, value in found], class_="figures"
    )


def search(links: Links, name: str, query: Query, label: str) -> Html:
    """Return the form that searches a list."""
    field = tag("input", type="search", id="q", name_="q", value=query.text, maxlength=MOST_TEXT)
    labelled = tag("div", tag("label", label, for_="q"), field)
    return tag("form", labelled, tag("button", "Search", type="submit"), action=links.page(name), role="search")


MOST_TEXT = 200


def pages(links: Links, name: str, query: Query, total: int, noun: str) -> Html:
    """Return how many rows there are, and links to the pages before and after."""
    last = max(1, math.ceil(total / PAGE_ROWS))
    around = ((query.page - 1, "Previous page"), (query.page + 1, "Next page"))
    to = [
        tag("li", tag("a", text, href=links.page(name, Query(query.text, number))))
        for number, text in around
        if 1 <= number <= last
    ]
    said = f"{counted(total, noun)}, page {query.page} of {last}"
    return tag("nav", tag("p", said, class_="dim"), tag("ul", to, class_="pages") if to else None, aria_label="Rows")


def rows_of(query: Query) -> slice:
    """Return which rows of a list a page shows."""
    return slice((query.page - 1) * PAGE_ROWS, query.page * PAGE_ROWS)


def size(number: int) -> str:
    """Return bytes for people."""
    value, unit = float(number), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{number} B" if unit == 0 else f"{value:.{0 if value >= 100 else 1}f} {_UNITS[unit]}"


def change(before: str, after: str) -> str:
    """Return a number before and after a compaction."""
    return f"{before} → {after}"


def moment(at: datetime) -> Html:
    """Return a time."""
    text = at.astimezone(UTC)
    return tag("time", f"{text:%Y-%m-%d %H:%M:%S}", datetime=rfc3339_seconds(text))


def ago(at: datetime, now: datetime) -> Html:
    """Return a time, and how long ago it was."""
    return tag("span", moment(at), " ", tag("span", f"({span((now - at).total_seconds())} ago)", class_="age"))


def ago_text(text: str | None, now: datetime) -> Child:
    """Return a resource's time as `ago` does. A text that is no time stays as it is."""
    try:
        return ago(parse_time(text), now) if text else None
    except (ValueError, OverflowError):
        return text


def span(seconds: float) -> str:
    """Return a length of time for people, such as `3 h`."""
    for unit, name in _SPANS:
        if seconds >= unit:
            return f"{int(seconds // unit)} {name}"
    return f"{max(0, int(seconds))} s"


def word(phase: Phase | CleanupPhase | None) -> Child:
    """Return a phase as one word in its colour."""
    return tag("span", phase.value, class_=_CLASSES.get(phase.value, "wait")) if phase else None


def short(text: str) -> str:
    """Return a message for a table's cell."""
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"
