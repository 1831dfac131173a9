"""Who holds the lock of a file, as Linux's /proc says it."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from compaction_operator.controller.kube.times import rfc3339_seconds

PROC = Path("/proc")


def holder_of(inode: int, verbs: tuple[str, ...]) -> str | None:
    """Return which process of one of these verbs holds a file's `flock`, and since when it runs.

    Such as `plan sales.orders, process 42, since 2026-01-01T13:00:00Z`. None if that cannot be seen: the process may
    have ended, be another user's, or lie in another pod.
    """
    try:
        for pid in _holders(inode):
            words = (PROC / pid / "cmdline").read_text(errors="replace").rstrip("\0").split("\0")
            verb = next((place for place, word in enumerate(words) if word in verbs), None)
            if verb is not None:
                return f"{' '.join(words[verb:])}, process {pid}, since {rfc3339_seconds(_started(pid))}"
    except (OSError, ValueError, StopIteration, IndexError):
        pass
    return None


def _holders(inode: int) -> Iterator[str]:
    """Yield the processes. NB: the device is not compared: some file systems show another one in /proc/locks."""
    for line in (PROC / "locks").read_text().splitlines():
        words = line.split()
        if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode):
            yield words[4]


def _started(pid: str) -> datetime:
    """Return when a process started. Its name, which may have blanks, is in parentheses before the other fields."""
    ticks = int((PROC / pid / "stat").read_text().rpartition(")")[2].split()[19])
    booted = next(int(line.split()[1]) for line in (PROC / "stat").read_text().splitlines() if line.startswith("btime"))
    return datetime.fromtimestamp(booted + ticks / os.sysconf("SC_CLK_TCK"), UTC)
