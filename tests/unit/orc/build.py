"""What the tests of this layer share: the tables of tests/fixtures, and small ACID files made here."""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
from sandbox.harness.orctail import rewrite_tail

from compaction_operator.acid.names import DirectoryKind, parse_bucket_file, parse_directory
from compaction_operator.orc import EventKind, InputFile, MergeTask, OriginalRows, count_rows, merge_bucket
from compaction_operator.orc.file import read_tail
from compaction_operator.orc.merge.bucket_metadata import acid_metadata
from compaction_operator.orc.merge.keys import Keys
from compaction_operator.orc.merge.source import open_source

FIXTURES = Path(__file__).parents[2] / "fixtures"
DATA = Path(__file__).parent / "data"
ALL_VALID = "db.t:1000:9223372036854775807::"
BUCKET_0 = 536870912
BUCKET_1 = BUCKET_0 + 65536

SCHEMA = pa.schema(
    [
        ("operation", pa.int32()),
        ("originalTransaction", pa.int64()),
        ("bucket", pa.int32()),
        ("rowId", pa.int64()),
        ("currentTransaction", pa.int64()),
        ("row", pa.struct([("id", pa.int32()), ("s", pa.string())])),
    ]
)

Event = tuple[int, int, int, int, int, dict[str, Any] | None]


def insert(
    write_id: int, row_id: int, value: str = "x", *, bucket: int = BUCKET_0, current: int | None = None
) -> Event:
    row = {"id": row_id, "s": value}
    return (0, write_id, bucket, row_id, write_id if current is None else current, row)


def delete(write_id: int, row_id: int, *, by: int, bucket: int = BUCKET_0) -> Event:
    return (2, write_id, bucket, row_id, by, None)


def write_acid(
    path: Path, events: Sequence[Event], *, schema: pa.Schema = SCHEMA, compression: str = "zlib", **options: Any
) -> InputFile:
    """Write events as an ACID bucket file, in the order given."""
    columns = list(zip(*events, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with po.ORCWriter(str(path), compression=compression, **options) as writer:
        writer.write(pa.Table.from_arrays(arrays, schema=schema))
    tail = read_tail(str(path))
    metadata = metadata_of(events, tail.stripe_rows)
    rewrite_tail(str(path), types=tail.types, user_metadata=metadata, calendar=0)
    return InputFile(str(path))


def metadata_of(events: Sequence[Event], stripe_rows: Iterable[int]) -> dict[str, bytes]:
    """Hive's user metadata of a file with these events."""
    keys = keys_of(events)
    lasts = [keys.row(end - 1) for end in itertools.accumulate(stripe_rows)]
    deletes = sum(event[0] == 2 for event in events)
    return acid_metadata(lasts, inserts=len(events) - deletes, deletes=deletes)


def keys_of(events: Iterable[Event]) -> Keys:
    columns = list(zip(*events, strict=True))[1:5] or [()] * 4
    return Keys(*(pa.array(column, type=pa.int64()).to_numpy() for column in columns))


def insert_task(output: Path, inputs: Sequence[InputFile], deletes: Sequence[InputFile] = (), **more: Any) -> MergeTask:
    values: dict[str, Any] = {"bucket": 0, "write_ids": ALL_VALID} | more
    return MergeTask(kind=EventKind.INSERT, inputs=tuple(inputs), deletes=tuple(deletes), output=str(output), **values)


def delete_task(output: Path, inputs: Sequence[InputFile], **more: Any) -> MergeTask:
    values: dict[str, Any] = {"bucket": 0, "write_ids": ALL_VALID} | more
    return MergeTask(kind=EventKind.DELETE, inputs=tuple(inputs), output=str(output), **values)


def merged(task: MergeTask) -> list[Event]:
    """Run the task and return the events of its output."""
    merge_bucket(task)
    return read_events(task.output)


def read_events(path: str | Path) -> list[Event]:
    return [tuple(event.values()) for event in read_table(path).to_pylist()]


def read_table(path: str | Path) -> pa.Table:
    return po.ORCFile(str(path)).read().replace_schema_metadata()


def physical_row(path: str | Path) -> pa.Array:
    """The user's columns of an ACID file's rows, not interpreted."""
    source = open_source(InputFile(str(path)))
    parts = []
    for stripe in source.stripes():
        with stripe.open() as opened:
            parts.append(opened.reader.column(6))
    return pa.concat_arrays(parts)


def text_of(path: str | Path) -> str:
    """Schema and rows of a file as text, in which NaN equals itself and nanoseconds show."""
    table = read_table(path).combine_chunks()
    columns = [column.to_string(window=table.num_rows + 1, container_window=1000) for column in table.columns]
    return "\n".join([str(table.schema), *columns])


@dataclass(frozen=True)
class Partition:
    """One partition of a fixture, before compaction, and what Hive's own compactor made of it."""

    directory: Path
    write_ids: str

    def __str__(self) -> str:
        return "-".join(part for part in self.directory.relative_to(FIXTURES).parts if part != "before")

    def written_by_hive(self, compaction: str, kind: DirectoryKind) -> dict[int, Path]:
        """The bucket files that Hive's minor or major added, by bucket."""
        after = Path(*(compaction if part == "before" else part for part in self.directory.parts))
        old = {path.name for path in self.directory.iterdir()}
        return {
            bucket_of(file): file
            for path in after.iterdir()
            if path.name not in old and path.name.startswith(f"{kind}_")
            for file in path.glob("bucket_*")
        }

    def has_minor(self) -> bool:
        """Whether Hive's minor compaction did anything."""
        kinds = (DirectoryKind.DELTA, DirectoryKind.DELETE_DELTA)
        return any(self.written_by_hive("after-minor", kind) for kind in kinds)

    def _files(self, kind: DirectoryKind) -> list[Path]:
        """The files of the directories that a reader uses: above the newest base."""
        found = [(parse_directory(path.name), path) for path in self.directory.iterdir()]
        newest = max((name.max_write_id for name, _ in found if name and name.is_base), default=-1)
        current = [
            (name.min_write_id, path)
            for name, path in found
            if name and name.kind is kind and (name.max_write_id > newest or name.is_base)
        ]
        return [file for _, path in sorted(current) for file in sorted(path.glob("bucket_*"))]

    def inserts(self, bucket: int, *, base: bool) -> list[InputFile]:
        files = [*(self._files(DirectoryKind.BASE) if base else []), *self._files(DirectoryKind.DELTA)]
        originals = self._originals() if base and bucket == 0 else []
        return [*originals, *(InputFile(str(file)) for file in files if bucket_of(file) == bucket)]

    def deletes(self) -> list[InputFile]:
        return [InputFile(str(file)) for file in self._files(DirectoryKind.DELETE_DELTA)]

    def buckets(self) -> list[int]:
        files = [file for kind in DirectoryKind for file in self._files(kind)]
        return sorted({bucket_of(file) for file in files})

    def _originals(self) -> list[InputFile]:
        first, inputs = 0, []
        for file in sorted(path for path in self.directory.iterdir() if re.match("[0-9]+_[0-9]+", path.name)):
            inputs.append(InputFile(str(file), OriginalRows(BUCKET_0, first)))
            first += count_rows(str(file))
        return inputs


def bucket_of(file: Path) -> int:
    name = parse_bucket_file(file.name)
    assert name is not None
    return name.bucket


def partitions() -> list[Partition]:
    """Every partition of every fixture."""
    found = []
    for before in sorted(FIXTURES.glob("hive-*/*/before")):
        write_ids = (before.parent / "writeids-major-before.txt").read_text().strip()
        parts = [path for path in sorted(before.iterdir()) if "=" in path.name] or [before]
        found += [Partition(part, write_ids) for part in parts]
    return found
