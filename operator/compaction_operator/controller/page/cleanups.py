"""The page of cleanups: which directories wait to be deleted, for whom and since when, and what has been deleted."""

import heapq
from collections.abc import Iterable, Sequence
from datetime import datetime

from compaction_operator.api.cleanup import Blocker
from compaction_operator.api.conditions import SUCCEEDED, find_condition
from compaction_operator.api.model import counted
from compaction_operator.controller.kube.resources import Cleanup
from compaction_operator.controller.page import layout
from compaction_operator.controller.page.html import Child, Html, tag
from compaction_operator.controller.page.layout import Column, Links, Query
from compaction_operator.controller.page.seen import Seen
from compaction_operator.controller.policies.standing import ended_at, table_of

NAME = "cleanups"
BLOCKERS = 5
"""Readers to name in a row; the status of a cleanup names more."""
_OPEN = (
    Column("Cleanup"),
    Column("Table"),
    Column("Phase", "word"),
    Column("Waits for"),
    Column("Since"),
    Column("Obsolete", "number"),
)
_ENDED = (
    Column("Cleanup"),
    Column("Table"),
    Column("Ended"),
    Column("Result"),
    Column("Deleted", "number"),
    Column("Bytes freed", "number"),
    Column("Had waited for"),
)


def cleanups(seen: Seen, links: Links, query: Query) -> Html:
    """Return the page. Its pages are those of what has ended; what has not is on the first."""
    found = [one for one in seen.cleanups if matches(one, query.text)]
    unended, ended = waiting(found), [one for one in found if one.ended]
    begins: list[Child] = [
        tag("h2", f"Not ended: {len(unended)}"),
        open_table(oldest(unended, layout.PAGE_ROWS), seen.now, links),
        tag("p", f"The {layout.PAGE_ROWS} oldest are shown. Search for a table to see others.")
        if len(unended) > layout.PAGE_ROWS
        else None,
    ]
    last = heapq.nlargest(query.page * layout.PAGE_ROWS, ended, key=lambda one: (ended_at(one), one.meta.name))
    return layout.page(
        "Cleanups",
        tag("p", "A cleanup deletes the directories that a compaction replaced, when no older reader is left."),
        layout.search(links, NAME, query, "Table, name or reader"),
        begins if query.page == 1 else None,
        tag("h2", "Ended"),
        ended_table(last[layout.rows_of(query)], seen.now, links),
        layout.pages(links, NAME, query, len(ended), "ended cleanup"),
        links=links,
        here=NAME,
        now=seen.now,
    )


def matches(one: Cleanup, text: str) -> bool:
    """Whether a cleanup has a text in its table, its name or a reader that it waits for."""
    wanted = text.lower()
    if not wanted or wanted in table_of(one) or wanted in str(one.key):
        return True
    return any(wanted in f"{blocker.user}@{blocker.host}".lower() for blocker in one.status.blockers)


def waiting(found: Iterable[Cleanup]) -> list[Cleanup]:
    """Return those that have not ended."""
    return [one for one in found if not one.ended]


def oldest(found: Iterable[Cleanup], number: int) -> list[Cleanup]:
    """Return the oldest of some cleanups first."""
    return heapq.nsmallest(number, found, key=lambda one: (one.meta.created, one.meta.name))


def open_table(found: Sequence[Cleanup], now: datetime, links: Links) -> Html:
    """Return a table of cleanups that have not ended: whom each waits for, and since when."""
    rows = [
        (*_subject(one, links), _phase(one), waits_for(one, now), _since(one, now), _obsolete(one)) for one in found
    ]
    return layout.table("Cleanups that have not ended", _OPEN, rows, empty="No cleanup waits.")


def ended_table(found: Sequence[Cleanup], now: datetime, links: Links) -> Html:
    """Return a table of cleanups that have ended."""
    rows = [
        (
            *_subject(one, links),
            layout.ago(ended_at(one), now),
            _phase(one),
            one.status.directories_deleted,
            layout.size(one.status.bytes_deleted),
            _readers(one.status.waited_for, len(one.status.waited_for), now),
        )
        for one in found
    ]
    return layout.table("Cleanups that have ended", _ENDED, rows, empty="No cleanup that has ended is kept.")


def waits_for(one: Cleanup, now: datetime) -> Child:
    """Return whom or what a cleanup waits for."""
    if one.status.blockers:
        return _readers(one.status.blockers, one.status.blocker_count, now)
    found = find_condition(one.status.conditions, SUCCEEDED)
    return [tag("b", found.reason), f" {layout.short(found.message)}"] if found else "not looked at yet"


def _readers(blockers: Sequence[Blocker], number: int, now: datetime) -> Child:
    if not blockers:
        return None
    shown = [tag("li", _reader(one, now)) for one in blockers[:BLOCKERS]]
    more = max(number, len(blockers)) - len(shown)
    return tag("ul", shown, tag("li", f"and {counted(more, 'more reader')}") if more > 0 else None)


def _reader(one: Blocker, now: datetime) -> Child:
    """Return one reader, with how long it has been there; its text has the exact time."""
    said = layout.ago_text(one.since, now)
    about = one.model_copy(update={"since": None})
    return [layout.short(str(about)), [", since ", said] if said else None]


def _subject(one: Cleanup, links: Links) -> tuple[Child, Child]:
    return str(one.key), links.table(one.spec.warehouse, table_of(one))


def _phase(one: Cleanup) -> Child:
    found, word = find_condition(one.status.conditions, SUCCEEDED), layout.word(one.status.phase)
    return [word, f" {found.reason}: {layout.short(found.message)}"] if found and one.ended else word


def _since(one: Cleanup, now: datetime) -> Child:
    """Return since when it waits: its readers were counted then, or it was created."""
    counted_at = one.status.baseline.time if one.status.baseline else None
    return layout.ago_text(counted_at, now) or layout.ago(one.meta.created, now)


def _obsolete(one: Cleanup) -> int:
    return sum(len(entry.obsolete) for entry in one.spec.partitions)
