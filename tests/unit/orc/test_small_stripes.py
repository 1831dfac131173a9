"""Which small stripes are joined: large ones never, and the others seldom enough."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_operator.orc.merge.small_stripes import GROWTH, NEGLIGIBLE, joined

SMALL = st.integers(min_value=7, max_value=99).map(lambda number: number / 100)
"""Sizes of small stripes that are not negligible, even alone."""


def groups(sizes: Sequence[float], rule: Callable[[Sequence[float]], list[bool]] = joined) -> list[list[float]]:
    """The stripes in groups: those side by side that are joined, and each other one by itself."""
    found: list[list[float]] = []
    previous = False
    for size, one in zip(sizes, rule(sizes), strict=True):
        if one and previous:
            found[-1].append(size)
        else:
            found.append([size])
        previous = one
    return found


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        [0.5],
        [0.01],
        [1, 1, 1, 1],
        [2, 0.5, 3],
        [0.2, 0.2, 0.2],
        [0.8, 0.2, 0.2, 0.2],
        [0.2, 0.2, 1, 0.2, 0.2],
    ],
)
def test_these_stay(sizes: list[float]) -> None:
    """Large stripes, small ones alone, and small ones that are too few to grow."""
    assert joined(sizes) == [False] * len(sizes)


@pytest.mark.parametrize(
    ("sizes", "become"),
    [
        ([0.2] * 4, [[0.2] * 4]),
        ([1, *[0.2] * 4, 1], [[1], [0.2] * 4, [1]]),
        ([0.8, *[0.1] * 5], [[0.8], [0.1] * 5]),
        ([0.1, 0.1, 0.1, 0.1, 0.9, 0.2, 0.2, 0.2, 0.2], [[0.1] * 4, [0.9], [0.2] * 4]),
        ([0.02, 0.01], [[0.02, 0.01]]),
        ([0.06, 0.01, 0.01], [[0.06], [0.01, 0.01]]),
    ],
)
def test_these_are_joined(sizes: list[float], become: list[list[float]]) -> None:
    """Runs that grow enough, without a larger stripe beside them; and what costs next to nothing."""
    assert groups(sizes) == become


@given(st.lists(st.one_of(SMALL, st.just(1.0)), max_size=12))
def test_the_runs_are_all_that_grow_enough(sizes: list[float]) -> None:
    expected = [False] * len(sizes)
    for start in range(len(sizes)):
        for end in range(start + 2, len(sizes) + 1):
            run = sizes[start:end]
            if max(run) < 1 and sum(run) >= GROWTH * max(run):
                expected[start:end] = [True] * len(run)
    assert joined(sizes) == expected


@given(st.lists(SMALL, max_size=12))
def test_what_was_joined_is_not_joined_again(sizes: list[float]) -> None:
    after = [sum(group) for group in groups(sizes)]
    assert joined(after) == [False] * len(after)


def test_a_stream_of_small_commits_is_rewritten_seldom() -> None:
    """Joined with each tenth commit into one stripe, its bytes would be rewritten ten times."""
    commits, stripes, rewritten = [NEGLIGIBLE / 8] * 200, list[float](), 0.0
    for start in range(0, len(commits), 10):
        found = groups([*stripes, *commits[start : start + 10]])
        rewritten += sum(sum(group) for group in found if len(group) > 1)
        stripes = [sum(group) for group in found]
        assert len(stripes) <= 8
    assert rewritten < 3 * sum(commits)
