"""Permits: what a process asks right before each change outside itself, so that one without the lease changes nothing.

A check once at the start of a work is not enough. A process may be stopped at any point of it (SIGSTOP, a frozen
container, a machine that sleeps) and wake up when another process has the lease.
"""

from collections.abc import Callable

Permit = Callable[[], None]
"""Returns if this process may change something now. Else it ends the process and does not return. Thread-safe."""


def always() -> None:
    """Permit everything: the process needs no lease."""
