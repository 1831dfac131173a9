"""Print those requirements of a lock on standard input whose wheels hold compiled code, with their hashes.

`compiled.py WHEELS`: WHEELS is a folder with one wheel for each requirement.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

PURE = "-none-any.whl"


def normal(name: str) -> str:
    """Return a package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def compiled(lock: str, wheels: Iterable[str]) -> Iterator[str]:
    """Yield the entries of a lock for which there is a wheel by that name that is not of pure Python."""
    names = {normal(wheel.partition("-")[0]) for wheel in wheels if not wheel.endswith(PURE)}
    for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", lock):
        if normal(entry.partition("==")[0]) in names:
            yield entry


if __name__ == "__main__":
    found = [path.name for path in Path(sys.argv[1]).glob("*.whl")]
    print("".join(compiled(sys.stdin.read(), found)), end="")
