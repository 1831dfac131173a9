"""The page of compactions: what runs and how far, what waits for what, and what has ended."""

import heapq
from collections.abc import Iterable, Sequence
from datetime import datetime

from compaction_operator.api.compaction import Phase
from compaction_operator.api.conditions import SUCCEEDED, find_condition
from compaction_operator.controller.kube.resources import Compaction
from compaction_operator.controller.page import layout
from compaction_operator.controller.page.html import Child, Html, tag
from compaction_operator.controller.page.layout import Column, Links, Query
from compaction_operator.controller.page.seen import Seen
from compaction_operator.controller.policies.standing import ended_at

NAME = "compactions"
_RUNNING = (Column("Compaction"), Column("Table"), Column("Type", "word"), Column("Progress"), Column("Attempt began"))
_WAITING = (
    Column("Compaction"),
    Column("Table"),
    Column("Type", "word"),
    Column("Phase", "word"),
    Column("Waits for"),
    Column("Created"),
)
_ENDED = (
    Column("Compaction"),
    Column("Table"),
    Column("Type", "word"),
    Column("Ended"),
    Column("Result"),
    Column("Files", "word"),
    Column("Bytes", "word"),
    Column("Cleanup", "word"),
)


def compactions(seen: Seen, links: Links, query: Query) -> Html:
    """Return the page. Its pages are those of what has ended; what has not is on the first."""
    found = [one for one in seen.compactions if matches(one, query.text)]
    ended = [one for one in found if one.ended]
    first = query.page == 1
    return layout.page(
        "Compactions",
        layout.search(links, NAME, query, "Table or name"),
        _now(found, seen.now, links) if first else None,
        tag("h2", "Ended"),
        ended_table(newest(ended, query.page * layout.PAGE_ROWS)[layout.rows_of(query)], seen.now, links),
        layout.pages(links, NAME, query, len(ended), "ended compaction"),
        links=links,
        here=NAME,
        now=seen.now,
    )


def _now(found: Sequence[Compaction], now: datetime, links: Links) -> list[Child]:
    at_work, waits = running(found), waiting(found)
    more = len(waits) - layout.PAGE_ROWS
    return [
        tag("h2", f"Running: {len(at_work)}"),
        running_table(at_work[: layout.PAGE_ROWS], now, links),
        tag("h2", f"Waiting: {len(waits)}"),
        waiting_table(oldest(waits, layout.PAGE_ROWS), now, links),
        tag("p", f"The {layout.PAGE_ROWS} oldest are shown. Search for a table to see others.") if more > 0 else None,
    ]


def matches(one: Compaction, text: str) -> bool:
    """Whether a compaction has a text in its table or its name."""
    wanted = text.lower()
    return not wanted or wanted in str(one.spec.table).lower() or wanted in str(one.key)


def running(found: Iterable[Compaction]) -> list[Compaction]:
    """Return those whose attempt runs."""
    return [one for one in found if one.attempt_running]


def waiting(found: Iterable[Compaction]) -> list[Compaction]:
    """Return those that have neither ended nor an attempt that runs."""
    return [one for one in found if not one.ended and not one.attempt_running]


def oldest(found: Iterable[Compaction], number: int) -> list[Compaction]:
    """Return the oldest of some compactions first."""
    return heapq.nsmallest(number, found, key=lambda one: (one.meta.created, one.meta.name))


def newest(ended: Iterable[Compaction], number: int) -> list[Compaction]:
    """Return those that ended last first."""
    return heapq.nlargest(number, ended, key=lambda one: (ended_at(one), one.meta.name))


def running_table(found: Sequence[Compaction], now: datetime, links: Links) -> Html:
    """Return a table of what runs, and how far it is."""
    rows = [
        (*_subject(one, links), _progress(one), layout.ago_text(one.status.attempt_start_time, now)) for one in found
    ]
    return layout.table("Compactions that run", _RUNNING, rows, empty="No compaction runs.")


def waiting_table(found: Sequence[Compaction], now: datetime, links: Links) -> Html:
    """Return a table of what waits, and for what."""
    rows = [(*_subject(one, links), one.status.phase, _reason(one), layout.ago(one.meta.created, now)) for one in found]
    return layout.table("Compactions that wait", _WAITING, rows, empty="No compaction waits.")


def ended_table(found: Sequence[Compaction], now: datetime, links: Links) -> Html:
    """Return a table of what has ended, with files and bytes before and after."""
    rows = [
        (
            *_subject(one, links),
            layout.ago(ended_at(one), now),
            _result(one),
            *_totals(one),
            layout.word(one.status.cleanup_phase),
        )
        for one in found
    ]
    return layout.table("Compactions that have ended", _ENDED, rows, empty="No compaction has ended.")


def _subject(one: Compaction, links: Links) -> tuple[Child, Child, Child]:
    table = one.spec.table
    named = str(table) if table.location else links.table(one.spec.warehouse, str(table))
    return str(one.key), named, one.spec.type


def _progress(one: Compaction) -> Child:
    found = one.status.progress
    trouble = one.status.pod_trouble
    if trouble is not None:
        return [tag("span", trouble.reason, class_="wait"), f" {layout.short(trouble.message)}"]
    if found is None:
        return "the driver starts"
    return [tag("progress", max=100, value=found.percent, aria_label=f"Progress of {one.meta.name}"), f" {found}"]


def _reason(one: Compaction) -> Child:
    found = find_condition(one.status.conditions, SUCCEEDED)
    return [tag("b", found.reason), f" {layout.short(found.message)}"] if found else "not looked at yet"


def _result(one: Compaction) -> Child:
    found = find_condition(one.status.conditions, SUCCEEDED)
    word = layout.word(one.status.phase)
    if found is None:
        return word
    said = f" {layout.short(found.message)}" if one.status.phase is Phase.FAILED else ""
    return [word, f" {found.reason}{said}"]


def _totals(one: Compaction) -> tuple[Child, Child]:
    """Return files and bytes before and after; nothing where they are not known, or where nothing was done."""
    totals, hudi = one.status.totals, one.status.hudi
    if totals is not None and totals.files_in:
        files = layout.change(f"{totals.files_in:,}", f"{totals.files_out:,}")
        return files, layout.change(layout.size(totals.bytes_in), layout.size(totals.bytes_out))
    if hudi is not None and hudi.bytes_in:
        return None, layout.change(layout.size(hudi.bytes_in), layout.size(hudi.bytes_out))
    return None, None
