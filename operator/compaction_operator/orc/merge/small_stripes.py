"""Which small stripes are rewritten into larger ones: the rule of RFC-48 for log blocks, as a pure function."""

from collections.abc import Iterator, Sequence

GROWTH = 4
"""Small stripes are rewritten where each of them ends in one that is at least so many times larger."""

NEGLIGIBLE = 1 / 16
"""A smaller run is rewritten whatever it grows to: to copy and verify its stripes would cost more."""


def joined(sizes: Sequence[float]) -> list[bool]:
    """Return for each stripe, in key order, whether it is rewritten into one with its neighbours.

    `sizes` are relative to a stripe that is large enough: what has 1 or more is never rewritten. A run of consecutive
    small stripes is, if together they have GROWTH times the size of its largest: so it has at least GROWTH stripes, and
    the rows of a stream of small commits are rewritten as often as a logarithm says. Without that threshold each
    compaction would rewrite the stripe in which the previous one put its rows.
    """
    found = [False] * len(sizes)
    for start, end in _runs(sizes):
        found[start:end] = [True] * (end - start)
    return found


def _runs(sizes: Sequence[float]) -> Iterator[tuple[int, int]]:
    """Yield the longest runs of stripes that grow enough.

    A run that does not, grows less with its largest stripe than without: no part of it that grows enough has that one.
    """
    left = [(0, len(sizes))]
    while left:
        start, end = left.pop()
        if end - start < 2:
            continue
        largest = max(range(start, end), key=sizes.__getitem__)
        if _grows(sizes[start:end], largest=sizes[largest]):
            yield start, end
        else:
            left += [(start, largest), (largest + 1, end)]


def _grows(sizes: Sequence[float], *, largest: float) -> bool:
    total = sum(sizes)
    return largest < 1 and (total >= GROWTH * largest or total < NEGLIGIBLE)
