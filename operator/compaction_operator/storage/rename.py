"""Linux's renameat2 with RENAME_NOREPLACE: the only rename that neither replaces nor nests.

There is no fallback, because `os.rename` silently replaces an empty directory or a file.
"""

import ctypes
import errno
import os
from pathlib import Path

from compaction_operator.storage.base import StorageError

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1

_libc = ctypes.CDLL(None, use_errno=True)


def rename_no_replace(source: str, target: str, *, directory: int = _AT_FDCWD) -> None:
    """Rename `source` to `target` atomically. Relative paths are resolved in the open `directory`.

    Raises FileExistsError, FileNotFoundError or another OSError from the kernel, and StorageError, naming the
    filesystem, if the filesystem does not support this rename.
    """
    result = _libc.renameat2(directory, os.fsencode(source), directory, os.fsencode(target), _RENAME_NOREPLACE)
    if result == 0:
        return
    code = ctypes.get_errno()
    if code in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
        raise StorageError(
            f"{target}: its filesystem ({_filesystem(target)}) does not support renameat2 with RENAME_NOREPLACE, "
            "without which nothing can be published there safely"
        )
    raise OSError(code, os.strerror(code), source, None, target)


def _filesystem(path: str) -> str:
    """Return the type of the path's filesystem, according to /proc/self/mountinfo."""
    best, kind = "", "unknown"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        mount_point = left.split()[4]
        inside = path == mount_point or path.startswith(mount_point.rstrip("/") + "/")
        if inside and len(mount_point) >= len(best):
            best, kind = mount_point, right.split()[0]
    return kind
