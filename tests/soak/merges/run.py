"""Merges a random bucket by each path of the engine, and compares what comes out with what must be there."""

import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from compaction_operator.orc import (
    EventKind,
    KeyRange,
    MergeForecast,
    MergeResult,
    MergeTask,
    forecast_bucket,
    merge_bucket,
    stitch_parts,
    verify_output,
    verify_stitched,
)
from compaction_operator.orc.file import read_tail
from tests.soak.merges.reading import Wrong, read_events
from tests.soak.merges.tables import Event, Table, random_table
from tests.support.fast_paths import forced

SLACK_BYTES = 64


@dataclass(frozen=True)
class Outcome:
    """What came of a table by a path: what the merges did, and what went wrong, with its traceback, if it failed."""

    seed: int
    path: str
    did: Counter[str]
    problem: str = ""

    def command(self) -> str:
        """Return how to repeat it."""
        return f"python -m tests.soak.merges --tables 1 --seed {self.seed} --path {self.path}"


def run_tables(seeds: Iterable[int], paths: Iterable[str]) -> Iterator[Outcome]:
    """Make the table of each seed, and merge it by each path."""
    for seed in seeds:
        with TemporaryDirectory() as folder:
            table = random_table(Random(seed), Path(folder))
            yield from (_outcome(table, seed, path) for path in paths)


def _outcome(table: Table, seed: int, path: str) -> Outcome:
    try:
        with forced(path):
            return Outcome(seed, path, _merged(table, path))
    except Exception:  # whatever it is, the seed must be told
        return Outcome(seed, path, Counter(failed=1), traceback.format_exc())


def _merged(table: Table, path: str) -> Counter[str]:
    """Return how many tables, rows, and stripes: read, written and, among these, copied."""
    output = table.folder / f"{path}-rows"
    parts = _merge_rows(table, output)
    _compare(table.expected_rows(), output)
    if table.deletes:
        events = table.folder / f"{path}-deletes"
        _verified(table.task(EventKind.DELETE, events))
        _compare(table.expected_deletes(), events)
    return Counter(
        passed=1,
        rows=sum(part.rows_out for part in parts),
        deleted=sum(part.rows_deleted for part in parts),
        stripes_read=sum(len(read_tail(file.path).stripe_rows) for file in table.inputs),
        stripes_written=len(read_tail(str(output)).stripe_rows),
        stripes_copied=sum(len(part.copied) for part in parts),
    )


def _merge_rows(table: Table, output: Path) -> list[MergeResult]:
    """Merge in one task, or in one for each range; join what these wrote to the output, as the driver does."""
    task = table.task(EventKind.INSERT, output)
    ends = [None, *dict.fromkeys(table.cuts), None]
    if len(ends) == 2:
        return [_verified(task)]
    ranges = [KeyRange(after, to) for after, to in pairwise(ends)]
    tasks = [replace(task, keys=keys, output=f"{output}.part{number}") for number, keys in enumerate(ranges)]
    parts = [_verified(part) for part in tasks]
    stitch_parts(parts, str(output))
    verify_stitched(str(output), parts)
    return parts


def _verified(task: MergeTask) -> MergeResult:
    expected = forecast_bucket(task)
    result = merge_bucket(task)
    _compare_forecast(expected, result)
    verify_output(task, result)
    return result


def _compare_forecast(expected: MergeForecast, result: MergeResult) -> None:
    """What was copied and removed must be as forecast, and the whole forecast the one that the merge makes itself.

    NB: the compressed sizes of keys may differ by some bytes (`encoding/codec.py`).
    """
    own = replace(result.forecast, bytes_rewritten=expected.bytes_rewritten)
    difference = abs(result.forecast.bytes_rewritten - expected.bytes_rewritten)
    found = (own, result.bytes_copied, result.rows_deleted)
    if found != (expected, expected.bytes_copied, expected.rows_removed) or difference > SLACK_BYTES:
        raise Wrong(f"{result.output}: it was forecast as {expected}, and came as {result}")


def _compare(expected: list[Event], output: Path) -> None:
    """Read an output without the kernels. Values are compared as texts: NaN equals itself, and zeros differ."""
    with forced("python"):
        found = read_events(output)
    for place, (one, other) in enumerate(zip_longest(expected, found)):
        if repr(one) != repr(other):
            raise Wrong(f"{output}: event {place} is {other}, not {one}")
