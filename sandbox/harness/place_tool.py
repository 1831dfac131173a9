"""Copies between stores and a pod's own disk. Runs in the toolbox: each call there takes long, so it does all of one.

get [URI FOLDER]... -- COMMAND...   copies each directory into its folder, then becomes the command
put FOLDER URI                      moves a folder's content to a directory on a store, which may exist
remove URI                          removes it
"""

import os
import sys
from pathlib import Path

from sandbox.harness.places import copy_tree, place_at, remove_tree


def main(verb: str, *arguments: str) -> None:
    """Do what the verb says. Raises FileNotFoundError for a directory that is not on its store."""
    match verb:
        case "get":
            end = arguments.index("--")
            for uri, folder in zip(arguments[:end:2], arguments[1:end:2], strict=True):
                remove_tree(Path(folder))
                copy_tree(place_at(uri), Path(folder))
            os.execvp(arguments[end + 1], arguments[end + 1 :])  # noqa: S606 - the toolbox's own command
        case "put":
            copy_tree(Path(arguments[0]), place_at(arguments[1]))
            remove_tree(Path(arguments[0]))
        case "remove":
            remove_tree(place_at(arguments[0]))
        case _:
            raise ValueError(verb)


if __name__ == "__main__":
    main(*sys.argv[1:])
