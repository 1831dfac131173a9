"""The page of tables: all that policies know, those with the largest debt first."""

import heapq
from collections.abc import Iterable, Sequence
from datetime import datetime

from compaction_operator.controller.page import layout
from compaction_operator.controller.page.debt import Debt, Owed
from compaction_operator.controller.page.html import Child, Html, tag
from compaction_operator.controller.page.layout import Column, Links, Query
from compaction_operator.controller.page.seen import Seen

NAME = "tables"
_COLUMNS = (
    Column("Table"),
    Column("Warehouse", "word"),
    Column("Deltas", "number"),
    Column("Files to save", "number"),
    Column("Delete ratio", "number"),
    Column("A read wastes", "number"),
    Column("Partitions", "number"),
    Column("Due"),
    Column("Read by the policy"),
)


def tables(seen: Seen, known: Sequence[Owed], links: Links, query: Query) -> Html:
    """Return the page; `known` are all tables that policies know."""
    wanted = query.text.lower()
    found = [one for one in known if wanted in one.state.name]
    shown = largest(found, query.page * layout.PAGE_ROWS)[layout.rows_of(query)]
    return layout.page(
        "Tables by debt",
        tag(
            "p",
            "Debt is what readers pay until a table is compacted: files that they would not have to open, and delete "
            "events that they read only to leave rows out. The deleted rows themselves come on top. "
            "Tables that no policy selects are not here: see ",
            tag("a", "compactions", href=links.page("compactions")),
            ".",
        ),
        layout.search(links, NAME, query, "Table"),
        debt_table(shown, seen.now, links),
        layout.pages(links, NAME, query, len(found), "table"),
        links=links,
        here=NAME,
        now=seen.now,
    )


def largest(found: Iterable[Owed], number: int) -> list[Owed]:
    """Return the tables with the largest debt first."""
    return heapq.nlargest(number, found, key=lambda one: one.order)


def debt_table(found: Sequence[Owed], now: datetime, links: Links) -> Html:
    """Return a table of tables and their debt."""
    rows = [_row(one, now, links) for one in found]
    return layout.table("Tables by debt", _COLUMNS, rows, empty="No policy knows such a table.")


def _row(one: Owed, now: datetime, links: Links) -> Sequence[Child]:
    state, debt = one.state, one.debt
    read = layout.ago(state.looked, now)
    return (
        links.table(one.warehouse, state.name),
        one.warehouse,
        debt.deltas,
        debt.files,
        ratio(debt),
        layout.size(debt.deletes),
        len(state.partitions),
        _due(one, now),
        [read, ", has changed since"] if one.changed else read,
    )


def ratio(debt: Debt) -> str:
    """Return how large the delete events are, compared with the other data."""
    return "-" if debt.delete_percent is None else f"{debt.delete_percent:.1f} %"


def _due(one: Owed, now: datetime) -> Child:
    if one.state.problem is not None:
        return [tag("span", "left alone", class_="wait"), f" {one.state.problem.reason}"]
    if one.due_since is None:
        return "no"
    return [tag("span", "due", class_="wait"), f" for {layout.span((now - one.due_since).total_seconds())}"]
