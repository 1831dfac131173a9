"""The sound files that the fuzzer starts from: those of Hive in tests/fixtures and tests/unit, and some made here."""

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from compaction_operator.orc.file.decode import open_stripe
from compaction_operator.orc.file.file_writer import OrcWriter
from compaction_operator.orc.file.stripe_builder import StripeLayout
from compaction_operator.orc.file.tail import read_tail
from compaction_operator.orc.merge.bucket_metadata import acid_metadata
from compaction_operator.orc.merge.keys import Keys
from compaction_operator.orc.merge.source import BUCKET, CURRENT, DELETE, INSERT, OPERATION, ROW_ID, WRITE_ID
from compaction_operator.orc.spec import schema
from compaction_operator.orc.spec.arrays import Integers
from compaction_operator.orc.spec.hive_types import parse_type
from compaction_operator.orc.spec.messages import Compression, Kind
from compaction_operator.orc.spec.physical import physical_type
from tests.unit.orc import columns
from tests.unit.orc.build import BUCKET_0, DATA, FIXTURES, insert, write_acid

_SMALL_ROW = parse_type("struct<a:int>")


class Role(StrEnum):
    """What a file holds: rows as insert events, delete events, or rows from before the table was ACID."""

    INSERT = "insert"
    DELETE = "delete"
    ORIGINAL = "original"


@dataclass(frozen=True)
class Seed:
    """A sound file, and beside it its twin: delete events for its rows, or rows for its delete events."""

    name: str
    path: Path
    role: Role
    twin: Path

    def keys(self) -> Keys:
        """The keys of its events."""
        return _keys(self.path, self.role)


def make_seeds(folder: Path, *, every: int = 1) -> list[Seed]:
    """Return the seeds, each content once; what is made for them goes into the folder.

    Of Hive's files every so many-th is taken.
    """
    seeds, seen = [], set()
    for path in (*sorted(DATA.glob("*.orc")), *itertools.islice(_of_hive(), 0, None, every), *_made(folder)):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        if content not in seen:
            seen.add(content)
            seeds.append(_seed(path, folder / f"twin-{len(seen)}"))
    return seeds


def _of_hive() -> Iterator[Path]:
    patterns = ("hive-*/*/*/**/bucket_*", "hive-*/*/*/**/0000*_*")
    found = (path for pattern in patterns for path in sorted(FIXTURES.glob(pattern)))
    return (path for path in found if path.is_file() and path.stat().st_size and "flush_length" not in path.name)


def _seed(path: Path, twin: Path) -> Seed:
    role = _role(path)
    keys = _keys(path, role)
    if role is Role.DELETE:
        _write_rows(twin, keys)
    else:
        half = keys[::2]
        deleting = Keys(half.write_id, half.bucket, half.row_id, half.current + 1)
        _write(twin, _layout(_SMALL_ROW), [(deleting, _null_rows(len(deleting)))], operation=DELETE)
    return Seed("/".join(path.parts[-4:]), path, role, twin)


def _role(path: Path) -> Role:
    if not schema.is_acid(read_tail(str(path)).types):
        return Role.ORIGINAL
    operations = _integers(path, OPERATION)
    return Role.DELETE if len(operations) and operations[0] == DELETE else Role.INSERT


@lru_cache(maxsize=1024)
def _keys(path: Path, role: Role) -> Keys:
    if role is Role.ORIGINAL:
        rows = read_tail(str(path)).rows
        zeros = np.zeros(rows, np.int64)
        return Keys(zeros, np.full(rows, BUCKET_0, np.int64), np.arange(rows, dtype=np.int64), zeros)
    return Keys(*(_integers(path, column) for column in (WRITE_ID, BUCKET, ROW_ID, CURRENT)))


def _integers(path: Path, column: int) -> Integers:
    tail = read_tail(str(path))
    with path.open("rb") as file:
        stripes = [open_stripe(file, tail, index).column(column) for index in range(len(tail.footer.stripes))]
    numbers: Integers = pa.concat_arrays([pa.array([], pa.int64()), *stripes]).to_numpy()
    return numbers


def _layout(
    row: Sequence[object], compression: Compression = Compression.ZLIB, blooms: tuple[int, ...] = ()
) -> StripeLayout:
    return StripeLayout(
        types=schema.acid_tree(row),
        compression=compression,
        block_size=65536,
        calendar=0,
        bloom_filters=dict.fromkeys(blooms, 0.05),
    )


def _null_rows(count: int) -> pa.Array:
    return pa.nulls(count, physical_type(_SMALL_ROW, 0))


def _write_rows(path: Path, keys: Keys) -> None:
    events = keys.distinct()
    events = events[~events.same_row_as_previous()]
    row = pa.array([{"0": number} for number in range(len(events))], pa.struct([("0", pa.int64())]))
    _write(path, _layout(_SMALL_ROW), [(events, row)])


def _write(
    path: Path, layout: StripeLayout, stripes: Sequence[tuple[Keys, pa.Array]], *, operation: int = INSERT
) -> None:
    lasts, rows = [], 0
    with OrcWriter(str(path), layout) as writer:
        for keys, row in stripes:
            if not len(keys):
                continue
            with writer.stripe(len(keys)) as builder:
                builder.add(OPERATION, pa.array(np.full(len(keys), operation, np.int64)))
                for column, numbers in zip((WRITE_ID, BUCKET, ROW_ID, CURRENT), keys.columns, strict=True):
                    builder.add(column, pa.array(numbers))
                builder.add(schema.ROW_ID, row)
            lasts.append(keys.row(len(keys) - 1))
            rows += len(keys)
        deletes = rows if operation == DELETE else 0
        writer.finish(acid_metadata(lasts, inserts=rows - deletes, deletes=deletes))


def _made(folder: Path) -> Iterator[Path]:
    """Files of several stripes with all types, of each codec; and one with the encodings of Hive 0.11."""
    shapes = [
        *columns.PRIMITIVE_SHAPES,
        (Kind.LIST, (columns.STRING,)),
        (Kind.MAP, (columns.STRING, (Kind.LIST, (columns.LONG,)))),
        (Kind.UNION, (columns.LONG, columns.STRING)),
    ]
    row = columns.tree(*shapes)
    for compression in Compression:
        if compression is not Compression.LZO:
            layout = _layout(row, compression, blooms=(8, 14))
            stripes = [(_ascending(number), _rows(row, shapes, number)) for number in range(3)]
            path = folder / f"made-{compression.name}"
            _write(path, layout, stripes)
            yield path
    events = [insert(write_id, number, f"text {number % 7}") for write_id in (1, 2) for number in range(100)]
    for version in ("0.11", "0.12"):
        yield Path(write_acid(folder / f"made-{version}", events, file_version=version, stripe_size=1000).path)


def _ascending(stripe: int) -> Keys:
    count = 40
    same = np.full(count, stripe + 1, np.int64)
    return Keys(same, np.full(count, BUCKET_0, np.int64), np.arange(count, dtype=np.int64), same)


def _rows(row: Sequence[object], shapes: list[columns.Shape], seed: int) -> pa.Array:
    arrays = columns.random_arrays(row, shapes, 40, seed)
    return pa.StructArray.from_arrays(list(arrays.values()), names=[str(place) for place in range(len(arrays))])
