"""The clock by which a process judges what it may still do."""

import time


def boot_seconds() -> float:
    """Return a clock that runs on while the machine sleeps, unlike time.monotonic, and is never set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
