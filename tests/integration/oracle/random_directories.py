"""Random directories of an ACID table with a reader for each: names alone, for what AcidUtils decides by names."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from compaction_operator.acid.listing import Listing
from compaction_operator.acid.names import INT64_MIN, METADATA_ACID, AcidDirectory
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from tests.unit.acid.listings import recorded_listing

LAST_TXN = 20
ORIGINALS = (
    *("000000_0", "000000_0_copy_2", "000000_0_copy_10"),
    *("HIVE_UNION_SUBDIR_1/000000_0", "HIVE_UNION_SUBDIR_1/000001_0", "HIVE_UNION_SUBDIR_10/000000_0"),
)
TRUNCATIONS = (f"{METADATA_ACID}=truncated", f"{METADATA_ACID}=dropped")


class RandomDirectory(NamedTuple):
    """What lies there, as `recorded_listing` reads it, and what the reader knows; Hive 3 knows no transactions."""

    entries: list[str]
    write_ids: ValidWriteIdList
    txns: ValidTxnList | None

    @property
    def listing(self) -> Listing:
        """The entries as a listing."""
        return recorded_listing(self.entries)

    def make(self, path: Path) -> None:
        """Create the directory; no file holds rows."""
        for directory in self.listing.directories:
            for file in directory.files:
                place = path / directory.name / file.name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(file.content or b"ORC")
        path.mkdir(exist_ok=True)
        for file in self.listing.files:
            (path / file.name).write_bytes(b"ORC")


def random_directories(version: int, count: int, *, seed: int) -> Iterator[RandomDirectory]:
    """Yield directories as Hive of that version may leave them, and some that it never would."""
    draw = random.Random(seed)
    for _ in range(count):
        ids = _write_ids(draw)
        names = {_entry(draw, ids, version) for _ in range(draw.randint(1, 9))}
        originals = [name for name in ORIGINALS if draw.random() < 0.12]
        yield RandomDirectory(sorted([*names, *originals]), ids, _txns(draw) if version == 4 else None)


def _write_ids(draw: random.Random) -> ValidWriteIdList:
    """Draw what a reader sees; the ids of some tables have more digits than a name's padding."""
    before = draw.choice([0, 0, 9_999_995])
    last = before + draw.randint(1, 9)
    states = {number: draw.choices("coa", [7, 1, 2])[0] for number in range(before + 1, last + 1)}
    open_ids, aborted = (frozenset(number for number in states if states[number] == state) for state in "oa")
    return ValidWriteIdList("d.t", last, open_ids, aborted, min(open_ids, default=None))


def _txns(draw: random.Random) -> ValidTxnList:
    states = {number: draw.choices("coa", [7, 1, 1])[0] for number in range(1, LAST_TXN + 1)}
    open_txns, aborted = (frozenset(number for number in states if states[number] == state) for state in "oa")
    return ValidTxnList(LAST_TXN, open_txns, aborted, min(open_txns, default=None))


def _entry(draw: random.Random, ids: ValidWriteIdList, version: int) -> str:
    txn = draw.choice([None, None, draw.randint(1, LAST_TXN + 2)]) if version == 4 else None
    low = draw.randint(max(0, ids.high_watermark - 9) + 1, ids.high_watermark + 1)
    if draw.random() < 0.2:
        return _base(draw, draw.choice([low, low, low, INT64_MIN]), txn, version=version)
    high = draw.choice([low, low, draw.randint(low, ids.high_watermark + 1)])
    statement = draw.choice([None, 0, 0, 1, 2]) if low == high else draw.choice([None] * 9 + [0])
    make = draw.choice([AcidDirectory.delta, AcidDirectory.delta, AcidDirectory.delete_delta])
    found = make(low, high, statement, visibility_txn=txn if statement is None else None)
    raw = low == high and statement is not None and make == AcidDirectory.delta and draw.random() < 0.3
    return f"{found}/000000_0" if raw else found.name


def _base(draw: random.Random, write_id: int, txn: int | None, *, version: int) -> str:
    """A compaction's, an INSERT OVERWRITE's, one of LOAD DATA OVERWRITE, Hive 4's of TRUNCATE, or the empty guard."""
    truncations = TRUNCATIONS if version == 4 and txn is None else ()
    side_file = METADATA_ACID if write_id == INT64_MIN else draw.choice(["", METADATA_ACID, "000000_0", *truncations])
    return f"{AcidDirectory.base(write_id, visibility_txn=txn)}/{side_file}".rstrip("/")
