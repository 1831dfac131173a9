"""Verifies a written bucket file before it is published."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc.file import Tail, read_tail, stripe_checksum, tail_checksum
from compaction_operator.orc.merge.bucket_metadata import KEY_INDEX, acid_metadata, key_index
from compaction_operator.orc.merge.events import (
    Check,
    EventKind,
    InputFile,
    MergeResult,
    MergeTask,
    RowId,
    checked,
    unchecked,
)
from compaction_operator.orc.merge.keys import Keys, in_range, valid_write_ids
from compaction_operator.orc.merge.source import DELETE, INSERT, WRITE_ID, Stripe, open_source, reading
from compaction_operator.orc.spec import OrcError


def count_rows(path: str) -> int:
    """Return the number of rows in a file's footer; raise OrcError if it is not a readable ORC file."""
    return read_tail(path).rows


def verify_output(task: MergeTask, result: MergeResult, *, check: Check = unchecked) -> None:
    """Read a written file's keys and the bytes of its copied stripes again, and compare them with the engine's result.

    Raises OrcError, naming the file (or the source file of a copied stripe that is wrong), if a copied stripe is not
    what was read from its source (unless the store checks that itself), if the counts do not add up
    (rows in - rows deleted = rows out, in total and by write id), if keys are not strictly ascending or are outside
    the task's range, if an event's write id is not valid, or if Hive's user metadata does not match the keys.
    Raises what `check` raises before a stripe.
    """
    operation = INSERT if task.kind is EventKind.INSERT else DELETE
    source = open_source(InputFile(result.output))
    found: Counter[int] = Counter()
    last: Keys | None = None
    lasts: list[RowId] = []
    write_ids = ValidWriteIdList.parse(task.write_ids)
    _check_copies(source.tail, {index: result.checksums[index] for index in result.copied}, check)
    for stripe in checked(source.stripes(), check):
        with _put_down_to(result.copied.get(stripe.index)):
            with stripe.open() as opened:
                runs = opened.key_runs(operation=operation)
            keys = runs.corners
            _require(result, _validity_problem(keys, write_ids) or _tail_problem(keys, stripe))
        _require(result, _order_problem(keys, last, task))
        found.update(runs.rows_by_write_id)
        last = keys[-1:]
        lasts.append(keys.row(len(keys) - 1))
    _require(result, _arithmetic_problem(result))
    _require(result, _count_problem(found, task.kind, result))
    expected = acid_metadata(lasts, inserts=result.rows_out, deletes=result.delete_events_out)
    _require(result, _metadata_problem(source.tail, expected))


def _check_copies(tail: Tail, checksums: Mapping[int, int | None], check: Check) -> None:
    """Raise OrcError if a stripe with a checksum has other bytes: keys do not show that another column is wrong."""
    with reading(tail.path), tail.file.open() as file:
        for index, checksum in checked(checksums.items(), check):
            if index >= len(tail.footer.stripes):
                raise OrcError(tail.path, f"it lacks stripe {index}, which was copied into it")
            if checksum is not None and stripe_checksum(file, tail, index) != checksum:
                raise OrcError(tail.path, f"its stripe {index} has other bytes than were read or written for it")


@contextmanager
def _put_down_to(copied: str | None) -> Iterator[None]:
    """Attribute errors in a copied stripe to its source file, as the engine did not decode its rows."""
    try:
        yield
    except OrcError as error:
        if copied is None:
            raise
        raise OrcError(copied, f"has a wrong stripe, which was copied into {error}") from error


def verify_stitched(output: str, parts: Sequence[MergeResult], *, check: Check = unchecked) -> None:
    """Compare a file that was concatenated from verified parts with these parts: footer, key index, and its bytes.

    The parts were not flushed to disk, so the checksums are those of what their tasks wrote: a part that lost bytes
    with its machine is found here. Raises OrcError, naming the file, if it does not have all stripes of the parts in
    order, if its keys do not ascend from stripe to stripe, or if a stripe is not what its part's task wrote. It names
    a part whose tail is not. Raises what `check` raises before a stripe.
    """
    tail, tails = read_tail(output), [read_tail(part.output) for part in parts]
    rows = [number for part in tails for number in part.stripe_rows]
    lasts = [last for part in tails for last in key_index(part) or []]
    inserts, deletes = sum(part.rows_out for part in parts), sum(part.delete_events_out for part in parts)
    problem = None
    if tail.stripe_rows != rows or tail.rows != inserts + deletes:
        problem = f"it has {tail.rows} rows in stripes of {tail.stripe_rows}, not {inserts + deletes} in {rows}"
    elif lasts != sorted(set(lasts)):
        problem = "the keys of its parts overlap"
    problem = problem or _metadata_problem(tail, acid_metadata(lasts, inserts=inserts, deletes=deletes))
    if problem:
        raise OrcError(output, problem)
    for part, written in zip(tails, parts, strict=True):
        _check_part(part, written)
    checksums = (checksum for part in parts for checksum in part.checksums[:-1])
    _check_copies(tail, dict(enumerate(checksums)), check)


def _check_part(tail: Tail, written: MergeResult) -> None:
    """Raise OrcError if a part has another tail than was written: the joined file has its statistics and its types."""
    if len(written.checksums) != len(tail.stripe_rows) + 1:
        raise OrcError(tail.path, f"it has {len(tail.stripe_rows)} stripes, not {len(written.checksums) - 1}")
    with reading(tail.path):
        if written.checksums[-1] not in (None, tail_checksum(tail)):
            raise OrcError(tail.path, "its tail has other bytes than were written for it")


def _require(result: MergeResult, problem: str | None) -> None:
    if problem:
        raise OrcError(result.output, problem)


def _arithmetic_problem(result: MergeResult) -> str | None:
    if result.rows_in - result.rows_deleted != result.rows_out:
        return f"{result.rows_in} rows in, {result.rows_deleted} deleted, but {result.rows_out} out"
    if sum(result.rows_in_by_write_id.values()) != result.rows_in:
        return "the rows in by write id do not add up to the rows in"
    for write_id, rows in result.rows_out_by_write_id.items():
        if rows > result.rows_in_by_write_id.get(write_id, 0):
            return f"more rows of write id {write_id} come out than went in"
    return None


def _count_problem(found: Counter[int], kind: EventKind, result: MergeResult) -> str | None:
    expected = result.rows_out if kind is EventKind.INSERT else result.delete_events_out
    if found.total() != expected:
        return f"it holds {found.total()} events, not {expected}"
    if kind is EventKind.INSERT and found != result.rows_out_by_write_id:
        return "its rows by write id differ from those that were written"
    return None


def _order_problem(keys: Keys, last: Keys | None, task: MergeTask) -> str | None:
    """Return where the keys of a stripe, which follow `last`, do not ascend or leave the task's range."""
    both = Keys.concatenate([last, keys]) if last else keys
    index = both.first_not_ascending()
    if index is not None:
        return f"its keys are not strictly ascending: {both.row(index)} comes after {both.row(index - 1)}"
    return None if in_range(keys, task.keys).all() else f"it holds keys outside {task.keys}"


def _validity_problem(keys: Keys, write_ids: ValidWriteIdList) -> str | None:
    """Return which key has a currentTransaction that is not valid (hazard H8): readers could no longer hide it."""
    hidden = ~valid_write_ids(keys.current, write_ids)
    if not hidden.any():
        return None
    index = int(hidden.argmax())
    return f"its event of {keys.row(index)} has the write id {keys.current[index]}, which is not valid"


def _tail_problem(keys: Keys, stripe: Stripe) -> str | None:
    """Return how the tail contradicts a stripe's keys; the engine may have copied the stripe because of the tail."""
    if stripe.high not in (None, keys.row(len(keys) - 1)):
        return f"stripe {stripe.index} does not end with the key in its user metadata {KEY_INDEX}"
    known = stripe.source.integer_range(stripe.index, WRITE_ID)
    if known and not known[0] <= keys.write_id.min() <= keys.write_id.max() <= known[1]:
        return f"stripe {stripe.index} has write ids outside its statistics"
    return None


def _metadata_problem(tail: Tail, expected: Mapping[str, bytes]) -> str | None:
    for name, value in expected.items():
        if tail.user_metadata.get(name) != value:
            return f"its user metadata {name} does not match its rows"
    return None
