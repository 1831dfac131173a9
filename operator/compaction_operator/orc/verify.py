"""A second look at a written bucket file, before it is published."""

import numpy as np
import pyarrow.orc as po

from compaction_operator.orc import schema
from compaction_operator.orc.errors import OrcError
from compaction_operator.orc.events import EventKind, MergeResult
from compaction_operator.orc.keys import Integers, Keys
from compaction_operator.orc.source import DELETE, INSERT, KEY_FIELDS, reading
from compaction_operator.orc.tail import Tail, read_tail
from compaction_operator.orc.writer import acid_metadata


def count_rows(path: str) -> int:
    """Return how many rows a file has by its footer; OrcError when it is not a readable ORC file."""
    return read_tail(path).rows


def verify_output(path: str, result: MergeResult) -> None:
    """Read the keys of a written file again and hold them against what the engine says.

    Raises OrcError, naming the file, when the counts do not add up (rows in - rows deleted = rows out, in all and
    by write id), when keys are not strictly ascending, or when Hive's user metadata is not that of the keys.
    """
    tail = read_tail(path)
    if not schema.is_acid(tail.types):
        raise OrcError(path, "it is not a Hive ACID file")
    operations, keys = _read_events(tail)
    problem = (
        _arithmetic_problem(result)
        or _count_problem(operations, keys, result)
        or _order_problem(keys)
        or _metadata_problem(tail, operations, keys)
    )
    if problem:
        raise OrcError(path, problem)


def _read_events(tail: Tail) -> tuple[Integers, Keys]:
    with reading(tail.path):
        table = po.ORCFile(tail.path).read(columns=list(schema.ACID_FIELDS[:-1]))
    operations = table.column("operation").to_numpy()
    return operations, Keys(*(table.column(name).to_numpy().astype(np.int64) for name in KEY_FIELDS))


def _arithmetic_problem(result: MergeResult) -> str | None:
    if result.rows_in - result.rows_deleted != result.rows_out:
        return f"{result.rows_in} rows in, {result.rows_deleted} deleted, but {result.rows_out} out"
    if sum(result.rows_in_by_write_id.values()) != result.rows_in:
        return "the rows in by write id are not the rows in"
    for write_id, rows in result.rows_out_by_write_id.items():
        if rows > result.rows_in_by_write_id.get(write_id, 0):
            return f"more rows of write id {write_id} come out than went in"
    return None


def _count_problem(operations: Integers, keys: Keys, result: MergeResult) -> str | None:
    inserts = operations == INSERT
    deletes = operations == DELETE
    found = int(inserts.sum()), int(deletes.sum()), len(keys)
    expected = result.rows_out, result.delete_events_out, result.rows_out + result.delete_events_out
    if found != expected:
        return f"it holds {found[0]} rows and {found[1]} delete events, not {expected[0]} and {expected[1]}"
    if keys.count_by(keys.write_id[inserts]) != result.rows_out_by_write_id:
        return "its rows by write id are not those that were written"
    return None


def _order_problem(keys: Keys) -> str | None:
    index = keys.first_not_ascending()
    return None if index is None else f"its keys are not strictly ascending at row {index}: {keys.row(index)}"


def _metadata_problem(tail: Tail, operations: Integers, keys: Keys) -> str | None:
    kind = EventKind.DELETE if (operations == DELETE).any() else EventKind.INSERT
    expected = acid_metadata(keys, tail.stripe_rows, kind)
    for name, value in expected.items():
        if tail.user_metadata.get(name) != value:
            return f"its user metadata {name} is not that of its rows"
    return None
