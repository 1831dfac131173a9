"""Prints the rows that a reader sees in table or partition directories: rows.py TXNS WRITE_IDS DIRECTORY...

One JSON object a line: the directory's name, ROW__ID and row, in the order of both. Written apart from the
operator's code, as plainly as possible, to compare with: it holds all rows in memory. Runs where pyarrow is, alone.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyarrow import orc

Key = tuple[int, int, int]

_DELTA = re.compile(r"(delete_)?delta_([0-9]+)_([0-9]+)(?:_([0-9]{4}))?(?:_v[0-9]+)?")
_BASE = re.compile(r"base_(-?[0-9]+)(?:_v[0-9]+)?")
_TXN = re.compile(r"_v([0-9]+)$")
_INSERT, _DELETE = 0, 2


def visible(ids: str) -> Callable[[int], bool]:
    """Return which ids a reader sees, from `highWatermark:minOpen:open,..:aborted,..`, maybe after `db.table:`."""
    high, _, open_ids, aborted = ids.split(":")[-4:]
    hidden = {int(text) for text in f"{open_ids},{aborted}".split(",") if text}
    return lambda one: one <= int(high) and one not in hidden


def every(_: int) -> bool:
    """See all ids: those of a table that has no transactions besides its own."""
    return True


def committed(name: str, txns: Callable[[int], bool]) -> bool:
    """Whether a reader may use a directory: what Hive 4 compacts is named `_v<txn>`, and that must have committed."""
    txn = _TXN.search(name)
    return txn is None or txns(int(txn[1]))


def current(names: list[str], sees: Callable[[int], bool]) -> list[str]:
    """Return the directories that a reader uses: the best base and the deltas above it, none that another covers."""
    bases = [(int(match[1]), name) for name in names if (match := _BASE.fullmatch(name))]
    usable = [(n, name) for n, name in bases if all(sees(i) for i in range(1, n + 1))]
    reached, chosen = max(usable, default=(0, None))
    picked = [chosen] if chosen else []
    deltas = sorted(_deltas(names), key=lambda delta: (delta[0], -delta[1], delta[2]))
    last: tuple[int, int] | None = None
    for low, high, _, name in deltas:
        if (high > reached or (low, high) == last) and any(sees(i) for i in range(low, high + 1)):
            picked.append(name)
            reached, last = high, (low, high)
    return picked


def _deltas(names: list[str]) -> Iterator[tuple[int, int, int, str]]:
    for name in names:
        if match := _DELTA.fullmatch(name):
            yield int(match[2]), int(match[3]), int(match[4] or -1), name


def events(directory: Path, sees: Callable[[int], bool]) -> Iterator[tuple[int, Key, Any]]:
    """Yield operation, ROW__ID and row of each event that a reader sees in a base or delta."""
    for path in sorted(directory.glob("bucket_*")):
        for event in orc.ORCFile(path).read().to_pylist():
            if sees(event["currentTransaction"]):
                key = (event["originalTransaction"], event["bucket"], event["rowId"])
                yield event["operation"], key, event["row"]


def rows(location: Path, txns: Callable[[int], bool], sees: Callable[[int], bool]) -> dict[Key, Any]:
    """Return the rows in a table or partition directory by ROW__ID; raises ValueError when one comes twice."""
    names = [path.name for path in location.iterdir() if path.is_dir() and committed(path.name, txns)]
    inserted: dict[Key, Any] = {}
    deleted: set[Key] = set()
    for name in current(names, sees):
        for operation, key, row in events(location / name, sees):
            if operation == _DELETE:
                deleted.add(key)
            elif key in inserted:
                raise ValueError(f"{location}: row {key} comes twice, the second time in {name}")
            else:
                inserted[key] = row
    return {key: row for key, row in sorted(inserted.items()) if key not in deleted}


def main(txns: str, write_ids: str, *locations: str) -> None:
    """Print the rows in each directory."""
    for location in sorted(locations):
        found = rows(Path(location), visible(txns), visible(write_ids))
        for (write_id, bucket, row_id), row in found.items():
            line = {"writeid": write_id, "bucket": bucket, "rowid": row_id, "row": row}
            print(json.dumps({"partition": Path(location).name, **line}, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
