"""Reading of many files' tails by the driver."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from compaction_operator.driver import interruption

T = TypeVar("T")

OPEN_FILES = 8
"""How many files are read concurrently: remote storage answers many requests as fast as one."""


def by_path(paths: Iterable[str], read: Callable[[str], T]) -> dict[str, T]:
    """Return what `read` returns for each path; raises what it raises, or JobError (Interrupted) on SIGTERM.

    NB: neither waits for the calls that are under way, because a store that does not answer takes a minute for each.
    """
    ordered = sorted(set(paths))
    pool = ThreadPoolExecutor(max_workers=OPEN_FILES)
    try:
        reads = [pool.submit(read, path) for path in ordered]
        return {path: interruption.awaited(one) for path, one in zip(ordered, reads, strict=True)}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
