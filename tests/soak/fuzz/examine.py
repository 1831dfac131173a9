"""What a damaged file ends in: an error that names it, a right answer, or a finding."""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from unittest.mock import patch

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc import (
    EventKind,
    InputFile,
    KeyRange,
    MergeResult,
    MergeTask,
    OrcError,
    OriginalRows,
    merge_bucket,
    sketch,
    verify_output,
)
from compaction_operator.orc.file import StripeReader, read_tail, stripe_statistics
from compaction_operator.orc.merge import engine
from compaction_operator.orc.spec.schema import ROW_ID, is_acid
from tests.soak.fuzz.cases import Case
from tests.soak.fuzz.expect import (
    Event,
    Wrong,
    compare,
    expected_deletes,
    expected_rows,
    have_one_row_type,
    read_events,
)
from tests.soak.fuzz.seeds import Role
from tests.soak.fuzz.spelling import spelled
from tests.unit.orc.build import BUCKET_0

WRITE_IDS = "db.t:20000000:9223372036854775807::2,7"
STRIPES, COLUMNS = 4, 60
"""So many are read of a file: more are copies of others."""


class End(StrEnum):
    """How a case may end; a finding is what may not be."""

    REFUSED = "refused"
    VERIFIED = "refused after it was written"
    RIGHT = "right"
    FINDING = "FINDING"


@dataclass(frozen=True)
class Verdict:
    """How a case ended, and the text of the error or finding."""

    end: End
    text: str = ""


def examine(case: Case, folder: Path) -> Verdict:
    """Read and compact the case's file, which is written into the folder."""
    path = folder / "bucket_00000"
    path.write_bytes(case.content)
    try:
        _refusal(partial(_read_all, path), [path])
        return _compacted(case, path, folder)
    except Exception:
        return Verdict(End.FINDING, f"{case}\n{traceback.format_exc()}")


def _refusal(action: Callable[[], object], paths: Sequence[Path]) -> str | None:
    """Do something and return the text of its OrcError, if it raises one that is as it should be."""
    try:
        action()
    except OrcError as error:
        text = str(error)
        if not text.startswith(tuple(f"{path}: " for path in paths)) or len(text.splitlines()) != 1:
            raise Wrong(f"an error that does not name the file in one line: {text!r}") from error
        cause: BaseException | None = error
        while cause := cause and cause.__cause__:
            if isinstance(cause, MemoryError):
                raise
        return text
    return None


def _read_all(path: Path) -> None:
    sketch(str(path))
    tail = read_tail(str(path))
    with path.open("rb") as file:
        for index in range(min(STRIPES, len(tail.footer.stripes))):
            _refusal(partial(stripe_statistics, tail, index), [path])
            reader = StripeReader(file, tail, index)
            for column in range(min(COLUMNS, len(tail.types))):
                _refusal(partial(_read_column, reader, column), [path])


def _read_column(reader: StripeReader, column: int) -> None:
    reader.column_bytes(column)
    reader.bloom_filters(column)
    array = reader.column(column)
    array.validate(full=True)
    if len(array) != reader.rows:
        raise Wrong(f"column {column} has {len(array)} values for {reader.rows} rows")


def _compacted(case: Case, path: Path, folder: Path) -> Verdict:
    """Compact the file, in one task or, where it is cut, in two; look at what comes out."""
    outputs: list[Path] = []
    events: list[Event] = []
    for keys in [KeyRange(to=case.cut), KeyRange(after=case.cut)] if case.cut else [KeyRange()]:
        output = folder / f"output{len(outputs)}"
        output.unlink(missing_ok=True)
        if refused := _written(case, _task(case, path, output, keys), path):
            return refused
        events += read_events(output)
        outputs.append(output)
    _check(case, path, outputs[0], events)
    return Verdict(End.RIGHT)


def _written(case: Case, task: MergeTask, path: Path) -> Verdict | None:
    """Run a task and verify its output; return how it was refused, if it was."""
    output = Path(task.output)
    results: list[MergeResult] = []
    if text := _refusal(partial(_merge, case, task, results), [path]):
        if output.exists():
            raise Wrong(f"refused, but there is an output: {text}")
        return Verdict(End.REFUSED, text)
    if text := _refusal(partial(verify_output, task, results[0]), [path, output]):
        return Verdict(End.VERIFIED if text.startswith(task.output) else End.REFUSED, text)
    return None


def _merge(case: Case, task: MergeTask, results: list[MergeResult]) -> None:
    with patch.object(engine, "joined", lambda sizes: [not case.copied] * len(sizes)):
        results.append(merge_bucket(task))


def _task(case: Case, path: Path, output: Path, keys: KeyRange) -> MergeTask:
    original = OriginalRows(BUCKET_0, 0) if case.seed.role is Role.ORIGINAL else None
    rows, deletes = _roles(case, path)
    model = case.seed.path if rows == path else rows
    return MergeTask(
        kind=EventKind.INSERT if rows else EventKind.DELETE,
        bucket=0,
        inputs=(InputFile(str(rows), original),) if rows else (InputFile(str(deletes)),),
        deletes=(InputFile(str(deletes)),) if rows and deletes else (),
        write_ids=WRITE_IDS,
        output=str(output),
        row_type=_row_type(model) if case.as_table and model else None,
        keys=keys,
        memory=case.memory,
    )


def _roles(case: Case, path: Path) -> tuple[Path | None, Path | None]:
    """The files of rows and of delete events: one is damaged, the other one its twin or left out."""
    twin = case.seed.twin if case.with_twin else None
    return (twin, path) if case.seed.role is Role.DELETE else (path, twin)


def _row_type(path: Path) -> str:
    types = read_tail(str(path)).types
    return spelled(types, ROW_ID if is_acid(types) else 0)


def _check(case: Case, path: Path, output: Path, events: list[Event]) -> None:
    write_ids = ValidWriteIdList.parse(WRITE_IDS)
    rows, deletes = _roles(case, path)
    if rows:
        expected = expected_rows(rows, deletes, write_ids, copied_to=output if case.copied else None)
        compare(expected, events, values=have_one_row_type(rows, output), copied=case.copied)
    elif deletes:
        compare(expected_deletes(deletes, write_ids, bucket=0), events, values=True, copied=False)
