"""Where tables lie: on a local disk, on HDFS or on S3. Demo and tests use the same lines for all."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from sandbox.hdfs.path import HdfsPath
from sandbox.s3.path import S3Path

StorageKind = Literal["file", "hdfs", "s3"]
Place = Path | HdfsPath | S3Path
"""A file or directory of a warehouse. Its text is what the product and Hive take."""


def place_at(uri: str) -> HdfsPath | S3Path:
    """Return the place on HDFS or S3 that a URI names."""
    return S3Path(uri) if uri.startswith("s3a:") else HdfsPath(uri)


def location_of(place: Place) -> str:
    """Return the URI of a directory as the metastore has it."""
    return f"file:{place}" if isinstance(place, Path) else str(place)


def files_below(place: Place) -> Iterator[Place]:
    """Yield all files below a directory, at any depth. What is gone meanwhile is passed over."""
    with suppress(FileNotFoundError):
        for child in place.iterdir():
            if child.is_dir():
                yield from files_below(child)
            else:
                yield child


def size_of(file: Place) -> int:
    """Return the bytes of a file. Raises FileNotFoundError."""
    return file.stat().st_size if isinstance(file, Path) else file.size()


def copy_tree(source: Place, target: Place) -> Place:
    """Copy all below a directory into another one, which may exist; return that."""
    target.mkdir(parents=True, exist_ok=True)
    for child in source.iterdir():
        if child.is_dir():
            copy_tree(child, target / child.name)
        else:
            (target / child.name).write_bytes(child.read_bytes())
    return target


def remove_tree(place: Place) -> None:
    """Remove a directory with all below, if it is there."""
    if isinstance(place, Path):
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.remove_tree()
