"""Reading of many files' tails by the driver."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

OPEN_FILES = 8
"""How many files are read concurrently: remote storage answers many requests as fast as one."""


def by_path(paths: Iterable[str], read: Callable[[str], T]) -> dict[str, T]:
    """Return what `read` returns for each path; raises what it raises."""
    ordered = sorted(set(paths))
    with ThreadPoolExecutor(max_workers=OPEN_FILES) as pool:
        return dict(zip(ordered, pool.map(read, ordered), strict=True))
