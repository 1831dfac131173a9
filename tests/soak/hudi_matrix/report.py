"""What came of the matrix: its faults, and its table in Markdown."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set

from compaction_operator.api.request import Reason
from tests.soak.hudi_matrix.run import NO_JVM, WRITERS, Cell, Query, Seen, State

_ROWS = re.compile("[0-9]+ rows for ")


def faults(found: Sequence[Cell]) -> list[str]:
    """Return the compactions that did not end as they must, and what they changed for readers."""
    return [fault for cell, control in _pairs(found) for fault in (*_ends(cell), *_changes(cell, control))]


def _ends(cell: Cell) -> Iterator[str]:
    """Yield each compaction that was not done, or not refused, although it must be."""
    for state, reason in cell.done.items():
        if reason not in _right_ends(cell, state):
            yield f"{cell.folder.name}, {state}: {reason}"


def _right_ends(cell: Cell, state: State) -> Set[str]:
    """Return how the service that leads to a state may end."""
    if cell.is_refused or (cell.stops_hudi and state is State.COMPACTED):
        return {Reason.UNSUPPORTED_TABLE}
    if state is State.CLEANED:
        return {Reason.CLEANED}
    return {Reason.COMPACTED, Reason.NOTHING_TO_COMPACT} if state is State.MERGED else {Reason.COMPACTED}


def _changes(cell: Cell, control: Cell) -> Iterator[str]:
    """Yield what a compaction changed for a reader that reads the table right without it.

    An error of the reader without a JVM is none where the same error meets it in the control.
    """
    for reader, answers in cell.read.items():
        for seen, wrong in answers.items():
            if wrong and _counts(answers, seen) and not _is_hudis(control, reader, seen, wrong):
                yield f"{cell.folder.name}, {reader}, {seen}: {wrong}"


def _counts(answers: Mapping[Seen, str], seen: Seen) -> bool:
    """Whether a reader answered the question where nothing was compacted: right before the first compaction.

    A question about history must be answered with the commits on top, too, once they are there.
    """
    before = [Seen(State.WRITTEN), Seen(State.WRITTEN, seen.query)]
    if seen.query is not Query.NOW and seen.state not in (State.WRITTEN, State.MERGED):
        before.append(Seen(State.UNCOMPACTED, seen.query))
    return not any(answers.get(one, "") for one in before)


def _pairs(found: Sequence[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """Yield each cell with its control."""
    return zip(found[::2], found[1::2], strict=True)


def _is_hudis(control: Cell, reader: str, seen: Seen, wrong: str) -> bool:
    """Whether a reader fails in the same way on what Hudi's own client made, in that state or an earlier one.

    NB: wrong rows are never excused. Where that client's compaction has failed so far, what it made is not there yet:
    any state counts.
    """
    order = list(State)
    so_far = order[: order.index(seen.state) + 1]
    is_late = any(control.done.get(state) == Reason.DRIVER_FAILED for state in so_far)
    counted = order if is_late else so_far
    comparable = [answer for its, answer in control.read.get(reader, {}).items() if its.state in counted]
    return reader == NO_JVM and not _ROWS.match(wrong) and _kind(wrong) in map(_kind, comparable)


def _kind(error: str) -> str:
    """Return an error without its numbers, such as instants and places in a list of types."""
    return re.sub("[0-9]+", "", error)


def unanswered(found: Sequence[Cell]) -> list[str]:
    """Return what readers of a table cannot be asked before a compaction either, and why."""
    return [
        f"{cell.folder.name}, {reader}, not {query}: {why}"
        for cell, _ in _pairs(found)
        for reader in cell.read
        if not cell.read[reader][Seen(State.WRITTEN)]
        for query, why in _unable(cell, reader).items()
    ]


def _unable(cell: Cell, reader: str) -> dict[Query, str]:
    """Return the questions that a reader cannot answer where nothing was compacted, and why."""
    answers = cell.read[reader]
    states = (State.WRITTEN, State.UNCOMPACTED)
    found = {query: why for query in Query for state in states if (why := answers.get(Seen(state, query)))}
    return dict.fromkeys(cell.kills(reader), "it kills the JVM") | found


def table_of(found: Sequence[Cell]) -> str:
    """Return the matrix in Markdown: for each cell what was done, and who reads the table right in every state."""
    readers = (*WRITERS, NO_JVM)
    done = ("Writer", "Version", "Ordering", "Payload", "Writes", "Compactor", "Log compaction", "Compaction")
    head = (*done, *(f"Read: {reader}" for reader in readers))
    lines = (head, ("---",) * len(head), *(_line(cell, control, readers) for cell, control in _pairs(found)))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _line(cell: Cell, control: Cell, readers: Sequence[str]) -> tuple[str, ...]:
    ordering = cell.ordering.name.lower()
    table = (cell.writer, str(cell.version), ordering, cell.payload, cell.writes, cell.compactor)
    done = (cell.done[State.MERGED], cell.done[State.COMPACTED])
    return (*table, *done, *(_verdict(cell, control, reader) for reader in readers))


def _verdict(cell: Cell, control: Cell, reader: str) -> str:
    """Return how a reader reads a cell, and what it could not read before a compaction either."""
    answers = cell.read[reader]
    if answers[Seen(State.WRITTEN)]:
        return "not this table"
    unable = _unable(cell, reader)
    wrong = {seen: found for seen, found in answers.items() if found and _counts(answers, seen)}
    if not all(_is_hudis(control, reader, seen, found) for seen, found in wrong.items()):
        return "WRONG"
    return ", not ".join(("errors, as by Hudi alone" if wrong else "right", *unable))
