"""A disk that is soon full: a file system in memory, mounted for as long as a context lasts (as root)."""

import errno
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest


class SmallDisk:
    """A disk of so many MiB at a folder, which must exist; a context manager. Skips the test where it may not mount."""

    def __init__(self, folder: Path, *, megabytes: int) -> None:
        self._folder = folder
        self._size = megabytes
        self._junk = folder / "junk"

    def __enter__(self) -> Self:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={self._size}m", "small-disk", str(self._folder)]
        done = subprocess.run(mount, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"a small disk needs root: {done.stderr.strip()}")
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        subprocess.run(["umount", "--lazy", str(self._folder)], check=True)

    def fill(self) -> None:
        """Leave no byte free."""
        junk = os.open(self._junk, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while True:
                os.write(junk, bytes(1 << 16))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        finally:
            os.close(junk)

    def free(self) -> None:
        """Take back what `fill` has taken."""
        self._junk.unlink()
