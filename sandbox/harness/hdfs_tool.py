"""Copies between HDFS and a pod's own disk: `get URI FOLDER`, `put FOLDER URI`, `remove URI`. Runs in the toolbox."""

import sys
from pathlib import Path

from sandbox.harness.places import copy_tree, remove_tree
from sandbox.hdfs.path import HdfsPath


def main(verb: str, source: str, target: str = "") -> None:
    """Copy a directory with all below into another, which may exist, or remove one. Raises FileNotFoundError."""
    match verb:
        case "get":
            copy_tree(HdfsPath(source), Path(target))
        case "put":
            copy_tree(Path(source), HdfsPath(target))
        case "remove":
            remove_tree(HdfsPath(source))
        case _:
            raise ValueError(verb)


if __name__ == "__main__":
    main(*sys.argv[1:])
