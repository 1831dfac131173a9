"""Small ACID files for a test's own writes: what Hive writes for an insert or a delete, made with pyarrow."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

from compaction_operator.acid.names import encode_bucket_property
from compaction_operator.orc.file import read_tail
from sandbox.harness.orctail import rewrite_tail

Key = tuple[int, int]
"""Write id and row id of a row in bucket 0."""

BUCKET = encode_bucket_property(bucket=0)
_INSERT, _DELETE = 0, 2
_KEYS = [
    ("operation", pa.int32()),
    ("originalTransaction", pa.int64()),
    ("bucket", pa.int32()),
    ("rowId", pa.int64()),
    ("currentTransaction", pa.int64()),
]


def insert_file(write_id: int, row_type: pa.StructType, rows: Sequence[dict[str, Any]]) -> bytes:
    """Return a bucket file with an insert event for each row."""
    events = [_event(_INSERT, (write_id, number), write_id, row) for number, row in enumerate(rows)]
    return _file(events, row_type, stats=f"{len(rows)},0,0")


def delete_file(write_id: int, row_type: pa.StructType, keys: Sequence[Key]) -> bytes:
    """Return a bucket file with a delete event for each row that is named by its key."""
    events = [_event(_DELETE, key, write_id, None) for key in sorted(keys)]
    return _file(events, row_type, stats=f"0,0,{len(keys)}")


def _event(operation: int, key: Key, write_id: int, row: dict[str, Any] | None) -> dict[str, Any]:
    values = (operation, key[0], BUCKET, key[1], write_id)
    return {**dict(zip((name for name, _ in _KEYS), values, strict=True)), "row": row}


def _file(events: Sequence[dict[str, Any]], row_type: pa.StructType, *, stats: str) -> bytes:
    """Return the ORC file with the user metadata that Hive's reader needs (OrcRecordUpdater)."""
    table = pa.Table.from_pylist(list(events), schema=pa.schema([*_KEYS, ("row", row_type)]))
    last = events[-1]
    index = f"{last['originalTransaction']},{last['bucket']},{last['rowId']};"
    metadata = {"hive.acid.version": b"2", "hive.acid.stats": stats.encode(), "hive.acid.key.index": index.encode()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bucket_00000")
        orc.write_table(table, str(path), compression="zlib")
        rewrite_tail(str(path), types=read_tail(str(path)).types, user_metadata=metadata, calendar=0)
        return path.read_bytes()
