"""Explanations as lines of text, for people."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from compaction_operator.api.conditions import ConditionStatus
from compaction_operator.api.model import counted
from compaction_operator.api.why import DueCompaction, Explanation, Number, PartitionNumbers, PartitionsSeen, Verdict
from compaction_operator.policy.ranking import Score

_WORDS = {
    Verdict.PICKED: "picked",
    Verdict.KEPT_BACK: "due, but kept back",
    Verdict.NOT_DUE: "not due",
    Verdict.LEFT_ALONE: "left alone",
    Verdict.NOT_SELECTED: "not selected",
    Verdict.NOT_FOUND: "not found",
    Verdict.NOT_LOOKED: "not looked at yet",
}
_WIDTH = 12


def lines_of(explanations: Sequence[Explanation]) -> Iterator[str]:
    """Yield the lines for a table: those of the policies that select it first, then one for each other policy."""
    for one in sorted(explanations, key=lambda one: one.verdict is Verdict.NOT_SELECTED):
        name = f"{one.namespace}/{one.policy} (warehouse {one.warehouse})"
        yield f"{name}: {_WORDS[one.verdict]} ({one.reason})"
        yield f"  {one.message}"
        if one.verdict is not Verdict.NOT_SELECTED:
            yield from (f"  {line}" for line in _details(one))


def _details(one: Explanation) -> Iterator[str]:
    if one.policy_ready and one.policy_ready.status is not ConditionStatus.TRUE:
        yield _line("policy", f"{one.policy_ready.reason}: {one.policy_ready.message}")
    for other in one.unfinished:
        by = f", of policy {other.policy}" if other.policy else ""
        yield _line("unfinished", f"TableCompaction {other.namespace}/{other.name}, {other.phase}{by}")
    if one.may_start:
        yield _line("may start", f"{_time(one.may_start)} at the earliest")
    for candidate in one.due:
        yield from _due(candidate)
    if one.partitions:
        yield from _partitions(one.partitions)
    times = (("looked", one.looked_at), ("next look", one.next_look_at), ("table read", one.read_at))
    yield from (_line(title, _time(moment)) for title, moment in times if moment)


def _due(one: DueCompaction) -> Iterator[str]:
    terms, state = one.terms, one.kept_back_by or "starts"
    formula = Score(terms.weight, terms.benefit, terms.hours, terms.urgency, terms.cost)
    yield _line(one.type.lower(), f"place {one.place}, {state}; score {one.score:g} = {formula}")
    deletes = counted(terms.delete_bytes, "byte")
    gain = f"{counted(terms.files_saved, 'file')} saved, {deletes} of delete events merged"
    yield _line("", f"{gain}, {counted(terms.bytes, 'byte')} to read")
    yield from (_line("", line) for line in _forecast(one))
    yield _line("", _share(one))
    if one.due:
        yield _line("", f"due since {_time(one.due_since)}; goes first from {_time(one.first_at)} on")
        yield _line("", f"may exceed the budget from {_time(one.overdue_at)} on")


def _forecast(one: DueCompaction) -> Iterator[str]:
    if found := one.forecast:
        sizes = f"{counted(found.bytes_copied, 'byte')} copied, about {found.bytes_rewritten} rewritten"
        rows = f"{counted(found.rows_removed, 'row')} removed"
        yield f"forecast: {sizes}, {rows}, about {found.cpu_milliseconds / 1000:.2f} CPU seconds"
    if one.forecast_problem:
        yield f"no forecast: {one.forecast_problem}"


def _share(one: DueCompaction) -> str:
    """Return how many partitions would gain, how many of them are due, and how many start."""
    taken = "" if one.partitions_taken == one.partitions else f", {one.partitions_taken} of them fit the budget"
    if one.partitions_due == one.partitions:
        return f"{counted(one.partitions, 'partition')} due{taken}"
    due = f", {one.partitions_due} of them due" if one.partitions_due else ""
    return f"{counted(one.partitions, 'partition')} to compact by gain{due}{taken}"


def _partitions(seen: PartitionsSeen) -> Iterator[str]:
    counts = f"{seen.mergeable} with something to merge, {seen.selected} of them selected, {seen.due} due"
    yield _line("partitions", counts)
    if seen.left_alone:
        yield _line("", f"{seen.left_alone} left alone, such as {seen.left_alone_example}")
    for one in seen.nearest:
        yield _line("", f"{one.partition or 'the table'}: {_judgement(one)}")
        yield _line("", "  " + ", ".join(map(_number, one.numbers)))
    if more := seen.mergeable - len(seen.nearest):
        yield _line("", f"and {more} more")


def _judgement(one: PartitionNumbers) -> str:
    if one.unselected_by:
        return f"not selected: {one.unselected_by}"
    return f"due, {one.due.lower()}: {one.reason}" if one.due else "not due"


def _number(number: Number) -> str:
    marks = (" (table property)" if number.from_table else "") + (" exceeded" if number.exceeded else "")
    return number.text + marks


def _line(title: str, text: str) -> str:
    return f"{title:{_WIDTH}}{text}"


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
