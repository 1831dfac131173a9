"""The first page: the fleet at a glance, what runs, what waits for whom, and what ended last."""

from collections.abc import Sequence

from compaction_operator.api.conditions import ConditionStatus, find_condition
from compaction_operator.api.policy import ACTIVE, READY, TableCounts
from compaction_operator.controller.page import cleanups, compactions, layout, tables
from compaction_operator.controller.page.debt import Owed, due_tables, total
from compaction_operator.controller.page.html import Child, Html, tag
from compaction_operator.controller.page.layout import Column, Links
from compaction_operator.controller.page.seen import Looked, Seen

ROWS = 10
POLICIES = 50
_POLICIES = (
    Column("Policy"),
    Column("Warehouse"),
    Column("Ready"),
    Column("Active"),
    Column("Tables", "number"),
    Column("Due", "number"),
    Column("Running", "number"),
    Column("Kept back", "number"),
    Column("Failed", "number"),
)


def overview(seen: Seen, known: Sequence[Owed], links: Links) -> Html:
    """Return the page; `known` are all tables that policies know."""
    at_work, waits = compactions.running(seen.compactions), compactions.waiting(seen.compactions)
    unended = cleanups.waiting(seen.cleanups)
    ended = compactions.newest((one for one in seen.compactions if one.ended), ROWS)
    return layout.page(
        "Fleet",
        _figures(known, running=len(at_work), waiting=len(waits), unended=len(unended)),
        _section("Tables by debt", "tables", len(known), links),
        tables.debt_table(tables.largest(known, ROWS), seen.now, links),
        _section("Compactions that run", "compactions", len(at_work), links),
        compactions.running_table(compactions.oldest(at_work, ROWS), seen.now, links),
        _section("Compactions that wait", "compactions", len(waits), links),
        compactions.waiting_table(compactions.oldest(waits, ROWS), seen.now, links),
        _section("Cleanups that have not ended", "cleanups", len(unended), links),
        cleanups.open_table(cleanups.oldest(unended, ROWS), seen.now, links),
        _section("Compactions that ended last", "compactions", len(seen.compactions), links),
        compactions.ended_table(ended, seen.now, links),
        tag("h2", "Policies"),
        _policies(seen.policies),
        links=links,
        here="",
        now=seen.now,
    )


def _figures(known: Sequence[Owed], *, running: int, waiting: int, unended: int) -> Html:
    debt = total(known)
    return layout.figures(
        ("tables that policies know", len(known)),
        ("of them due", due_tables(known)),
        ("deltas", debt.deltas),
        ("files that readers need not open", debt.files),
        ("delete events to data", tables.ratio(debt)),
        ("wasted by one read of all", layout.size(debt.deletes)),
        ("compactions that run", running),
        ("compactions that wait", waiting),
        ("cleanups that have not ended", unended),
    )


def _section(title: str, name: str, number: int, links: Links) -> list[Child]:
    """Return a section's title, with a link to all if there are more than fit here."""
    more = tag("p", tag("a", f"All {title[0].lower()}{title[1:]}", href=links.page(name))) if number > ROWS else None
    return [tag("h2", title), more]


def _policies(found: Sequence[Looked]) -> Html:
    shown = sorted(found, key=lambda one: str(one.policy.key))[:POLICIES]
    more = len(found) - len(shown)
    listed = layout.table("Policies", _POLICIES, [_policy(one) for one in shown], empty="There is no CompactionPolicy.")
    return tag("div", listed, tag("p", f"and {more} more") if more > 0 else None)


def _policy(one: Looked) -> Sequence[Child]:
    policy = one.policy
    counts = policy.status.tables or TableCounts()
    numbers = counts.seen, counts.due, counts.running, counts.kept_back, counts.failed
    return str(policy.key), policy.spec.warehouse, _says(one, READY), _says(one, ACTIVE), *numbers


def _says(one: Looked, condition: str) -> Child:
    found = find_condition(one.policy.status.conditions, condition)
    if found is None:
        return "not known"
    class_ = "good" if found.status is ConditionStatus.TRUE else "wait"
    return [tag("span", found.reason, class_=class_), f" {layout.short(found.message)}"]
