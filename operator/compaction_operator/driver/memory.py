"""The allocator of a process that merges: memory that a column gives back serves the next one."""

import ctypes
import os

_MMAP_THRESHOLD, _TRIM_THRESHOLD, _ARENA_MAX = -3, -1, -8
"""What `mallopt` is to change (glibc's malloc.h)."""

_SETTINGS = (
    (_ARENA_MAX, 1),
    (_MMAP_THRESHOLD, 32 << 20),  # the most that glibc before 2.35 accepts
    (_MMAP_THRESHOLD, 128 << 20),
    (_TRIM_THRESHOLD, 128 << 20),
)


def keep_memory() -> None:
    """Let this process keep up to 128 MB that it frees, in one heap for numpy and Arrow.

    A merge allocates and frees a column's arrays again and again. By default they go back to the kernel, which has to
    clear the pages of the next ones: a tenth to a third of a merge. And each thread has a heap of its own, which keeps
    what it frees from the others. A C library other than glibc ignores all this.
    NB: call it before numpy and pyarrow are loaded, as both start threads.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in _SETTINGS:
            mallopt(parameter, value)
