"""The page of one table: its directories in three stages, what runs or waits on it, why, and its history."""

import shlex
from collections.abc import Sequence
from itertools import islice

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.why import Explanation
from compaction_operator.controller.kube.resources import Cleanup, Compaction
from compaction_operator.controller.page import cleanups, compactions, layout, tables
from compaction_operator.controller.page.debt import Owed
from compaction_operator.controller.page.directories import Drawing, Group, drawings
from compaction_operator.controller.page.html import Child, Html, tag
from compaction_operator.controller.page.layout import Links
from compaction_operator.controller.page.seen import Seen
from compaction_operator.policy.text import lines_of

HISTORY = 20
NAMES = 12
"""Names of directories to list in a group."""
BARS = 60
"""Bars to draw in a group."""
WIDTH = 1000
_GAP = 3


def table(seen: Seen, owed: Sequence[Owed], links: Links, *, warehouse: str, name: str) -> Html | None:
    """Return the page; None if neither a policy nor a resource knows such a table.

    `owed` are all tables that policies know.
    """
    metastore = seen.metastore(warehouse)
    known = next((o for o in owed if o.state.name == name and seen.metastore(o.warehouse) == metastore), None)
    works = seen.of_table(seen.compactions, warehouse, name)
    journals = seen.of_table(seen.cleanups, warehouse, name)
    if known is None and not works and not journals:
        return None
    explained = seen.explain(known.warehouse if known else warehouse, name)
    ended = compactions.newest((one for one in works if one.ended), HISTORY)
    content: list[Child] = [
        tag("p", f"In warehouse {warehouse}."),
        _figures(known) if known else None,
        tag("h2", "Directories"),
        _directories(seen, known, journals, _next(works, explained, hudi=_is_hudi(known, works))),
        tag("h2", "What runs or waits"),
        compactions.running_table(compactions.running(works), seen.now, links),
        compactions.waiting_table(compactions.oldest(compactions.waiting(works), HISTORY), seen.now, links),
        cleanups.open_table(cleanups.oldest(cleanups.waiting(journals), HISTORY), seen.now, links),
        tag("h2", "What policies say"),
        _explained(explained),
        tag("h2", "History"),
        compactions.ended_table(ended, seen.now, links),
    ]
    return layout.page(name, *content, links=links, here=tables.NAME, now=seen.now)


def _figures(known: Owed) -> Html:
    debt = known.debt
    return layout.figures(
        ("deltas", debt.deltas),
        ("files that readers need not open", debt.files),
        ("delete events to data", tables.ratio(debt)),
        ("wasted by one read of all", layout.size(debt.deletes)),
        ("partitions with something to merge", len(known.state.partitions)),
    )


def _is_hudi(known: Owed | None, works: Sequence[Compaction]) -> bool:
    if known is not None:
        return known.state.place is not None
    return any(one.is_hudi for one in works)


def _next(works: Sequence[Compaction], explained: Sequence[Explanation], *, hudi: bool) -> tuple[CompactionType, str]:
    """Return the type of the next compaction, and what stands behind it."""
    unended = [one for one in works if not one.ended]
    if unended:
        first = min(unended, key=lambda one: (not one.attempt_running, one.meta.created))
        return first.spec.type, f"{first.spec.type.noun}, {first.meta.name}"
    wanted = [one for policy in explained for one in policy.due]
    if wanted:
        best = min(wanted, key=lambda one: (one.kept_back_by is not None, one.place))
        return best.type, f"{best.type.noun}, as a policy would start it"
    type_ = CompactionType.COMPACTION if hudi else CompactionType.MAJOR
    return type_, f"{type_.noun}, if you start one: no policy is about to"


def _directories(
    seen: Seen, known: Owed | None, journals: Sequence[Cleanup], coming: tuple[CompactionType, str]
) -> list[Child]:
    type_, behind = coming
    drawn = drawings(known.state if known else None, journals, type_)
    said: list[Child] = [_source(seen, known, journals)]
    said += [_drawing(one, behind) for one in drawn]
    if known is not None and (more := len(known.state.partitions) - len(drawn)) > 0:
        said.append(tag("p", f"{more} more partitions have something to merge, with less debt."))
    return said


def _source(seen: Seen, known: Owed | None, journals: Sequence[Cleanup]) -> Child:
    """Return where the picture comes from, and how to get one of what no policy knows."""
    if known is None:
        location = journals[0].spec.table.location if journals else "LOCATION"
        command = f"compaction-operator plan --location {shlex.quote(location)} --type major --write-ids WRITE_IDS"
        return [
            tag("p", "No policy looks at this table, so the controller does not know its directories of today. "
                     "Where its files can be read, this lists them and plans a compaction; of a partitioned table, "
                     "give the directory of one partition:"),
            tag("pre", tag("code", command)),
        ]  # fmt: skip
    state = known.state
    said: list[Child] = ["As policy ", known.policy, " read it at ", layout.ago(state.looked, seen.now), "."]
    if known.changed:
        said.append(" The table has changed since then, and is read again in the next looks.")
    if state.problem is not None:
        said += [" It is left alone: ", tag("b", state.problem.reason), f" {layout.short(state.problem.message)}"]
    elif not state.partitions:
        said.append(" It had nothing to merge.")
    return tag("p", said)


def _drawing(one: Drawing, behind: str) -> Html:
    title = f"Partition {one.partition}" if one.partition else "The table"
    before = f"Before: replaced by the last compaction{f', {one.last}' if one.last else ''}"
    return tag(
        "section",
        tag("h3", title),
        tag(
            "div",
            _stage(before, one.before, one.largest, "The journal of the last compaction is not kept any more."),
            _stage("Now", one.now, one.largest, "No policy has read it."),
            _stage(f"After the next compaction ({behind})", one.after, one.largest, "Not known: see above."),
            class_="stages",
        ),
    )


def _stage(title: str, groups: Sequence[Group] | None, largest: int, unknown: str) -> Html:
    content = tag("p", unknown, class_="dim") if groups is None else tag("ul", [_group(one, largest) for one in groups])
    return tag("div", tag("h4", title), content, class_="stage")


def _group(one: Group, largest: int) -> Html:
    number = f"{one.count} " if one.count > 1 else ""
    files = None if one.files is None else f", {one.files} file{'' if one.files == 1 else 's'}"
    size = None if one.bytes is None else f", {layout.size(one.bytes)}"
    names = [tag("div", name, class_="name") for name in islice(one.names, NAMES)]
    more = len(one.names) - len(names)
    rest = tag("div", f"and {more} more", class_="dim") if more > 0 else None
    return tag("li", number, one.label, files, size, _bars(one, largest), names, rest)


def _bars(one: Group, largest: int) -> Html:
    """Return a bar for each directory; together they are as long as the group is large, compared with the largest.

    NB: the picture repeats what the text beside it says, so a screen reader leaves it out.
    """
    count = min(one.count, BARS)
    share = (one.bytes or 0) / largest if largest and one.bytes is not None else 0.0
    width = max(int(WIDTH * share), count * (_GAP + 4))
    each = width / count
    bars = [
        tag("rect", class_=one.kind.value, x=f"{number * each:.1f}", width=f"{each - _GAP:.1f}", height=8)
        for number in range(count)
    ]
    return tag("svg", bars, viewBox=f"0 0 {WIDTH} 8", preserveAspectRatio="none", aria_hidden="true", focusable="false")


def _explained(explained: Sequence[Explanation]) -> Html:
    if not explained:
        return tag("p", "There is no CompactionPolicy.", class_="dim")
    return tag("pre", "\n".join(lines_of(explained)))
