"""The jobs' tables: made once by Hive's own writer, kept in the user's cache, and linked together for each run."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.integration.oracle import hive as oracle
from tests.integration.oracle.hive import HiveOracle

from bench.engine.jobs import Job, Part

_PROGRAM = Path(oracle.__file__).parent / "java/common/dev/compaction/oracle"
_WRITERS = ("Bulk.java", "RandomRows.java", "TableWriter.java")


def made(job: Job, hive: HiveOracle, *, cache: Path) -> tuple[Path, ...]:
    """Return the folders of a job's parts; those that the cache does not have are made now."""
    return tuple(_made(part, hive, cache) for part in job.parts)


def link_table(parts: Iterable[Path], table: Path) -> Path:
    """Make a table of the parts' files, which are linked, not copied; return it."""
    for part in parts:
        shutil.copytree(part, table, copy_function=os.link, dirs_exist_ok=True)
    return table


def digests(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file with rows below a directory, by its path there."""
    found = {}
    for path in sorted(directory.rglob("bucket_*")):
        with path.open("rb") as file:
            found[str(path.relative_to(directory))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def size_of(directory: Path) -> int:
    """Return the bytes of all files with rows below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("bucket_*"))


def _made(part: Part, hive: HiveOracle, cache: Path) -> Path:
    folder = cache / f"bench-{_name(part)}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="bench-") as aside:
            whole = Path(aside) / "whole"
            part.write(hive, whole)
            # What bears the name is complete. Another run may have made it meanwhile.
            if not folder.is_dir():
                whole.rename(folder)
    return folder


def _name(part: Part) -> str:
    """Return a name that changes with the rows and with the program that writes them."""
    text = repr(part) + "".join((_PROGRAM / name).read_text() for name in _WRITERS)
    return f"{type(part).__name__.lower()}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
