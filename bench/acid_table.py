"""A Hive ACID table whose stripes are large, as the engine writes them: so a compaction may copy them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import orc
from sandbox.harness.orcfile import BUCKET, delete_file
from sandbox.harness.orctail import rewrite_tail

from compaction_operator.acid.names import ORC_ACID_VERSION, ORC_ACID_VERSION_CONTENT
from compaction_operator.orc import EventKind, InputFile, MergeTask, merge_bucket
from compaction_operator.orc.file import read_tail

ROW_TYPE = pa.struct([("id", pa.int64()), ("text", pa.string())])
TEXT_BYTES = 96
"""Characters of each row's text, which hardly compress."""
DELETED = 0.01
"""Share of the first delta's rows that are deleted, all at its beginning."""


def make_table(table: Path, *, deltas: int, rows: int) -> None:
    """Write so many deltas of so many rows each, and a delete delta behind them."""
    for write_id in range(1, deltas + 1):
        make_delta(table, write_id=write_id, row=_texts(write_id, rows))
    last = deltas + 1
    keys = [(1, number) for number in range(int(rows * DELETED))]
    deleted = make_directory(table, f"delete_delta_{last:07d}_{last:07d}_0000")
    (deleted / "bucket_00000").write_bytes(delete_file(last, ROW_TYPE, keys))


def make_delta(table: Path, *, write_id: int, row: pa.StructArray, compression: str = "zlib") -> Path:
    """Write the delta of an insert of these rows; return its file."""
    raw = table.parent / "raw.orc"
    _write_raw(raw, write_id=write_id, row=row, compression=compression)
    output = make_directory(table, f"delta_{write_id:07d}_{write_id:07d}_0000") / "bucket_00000"
    task = MergeTask(
        kind=EventKind.INSERT,
        bucket=0,
        inputs=(InputFile(str(raw)),),
        write_ids=snapshot(write_id),
        output=str(output),
    )
    merge_bucket(task)
    raw.unlink()
    return output


def snapshot(highest: int) -> str:
    """Return the valid write ids of a table in which all are committed."""
    return f"bench.t:{highest}:{2**63 - 1}::"


def make_directory(table: Path, name: str) -> Path:
    """Make a directory of the table, with the side file that Hive puts there; return it."""
    directory = table / name
    directory.mkdir(parents=True)
    (directory / ORC_ACID_VERSION).write_bytes(ORC_ACID_VERSION_CONTENT)
    return directory


def _texts(write_id: int, rows: int) -> pa.StructArray:
    generator = np.random.default_rng(write_id)
    letters = generator.integers(33, 127, size=rows * TEXT_BYTES, dtype=np.uint8).tobytes().decode("ascii")
    texts = [letters[start : start + TEXT_BYTES] for start in range(0, len(letters), TEXT_BYTES)]
    return pa.StructArray.from_arrays([pa.array(np.arange(rows), pa.int64()), pa.array(texts)], fields=list(ROW_TYPE))


def _write_raw(path: Path, *, write_id: int, row: pa.StructArray, compression: str) -> None:
    rows = len(row)
    columns = {
        "operation": pa.array(np.zeros(rows), pa.int32()),
        "originalTransaction": pa.array(np.full(rows, write_id), pa.int64()),
        "bucket": pa.array(np.full(rows, BUCKET), pa.int32()),
        "rowId": pa.array(np.arange(rows), pa.int64()),
        "currentTransaction": pa.array(np.full(rows, write_id), pa.int64()),
        "row": row,
    }
    orc.write_table(pa.table(columns), str(path), compression=compression)
    metadata = {"hive.acid.version": b"2", "hive.acid.stats": f"{rows},0,0".encode()}
    metadata["hive.acid.key.index"] = f"{write_id},{BUCKET},{rows - 1};".encode()
    rewrite_tail(str(path), types=read_tail(str(path)).types, user_metadata=metadata, calendar=0)
