"""Forecast and actual of random tables: `python -m bench.forecast [--tables 60] [--seed 1]`.

Each table has one bucket: deltas of random columns, sizes and codecs, with or without delete events. It is planned,
then compacted in this process, as a driver does small work. Compared are the bytes that are written and the CPU
seconds of the tasks. The result is `bench/out/forecast.json`; the exit code is 1 when a target is missed.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles

import numpy as np
import pyarrow as pa
from sandbox.harness.orcfile import delete_file

from bench.acid_table import make_delta, make_directory, snapshot
from compaction_operator.acid.plan import Layout
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.driver.merge.partition import Request
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.driver.offline import compact_directory, plan_directory

RESULT = Path(__file__).parent / "out" / "forecast.json"
TARGETS = {"bytes, median": 0.02, "CPU, median": 0.15, "CPU, p90": 0.35}
WORDS = np.array(["quick", "brown", "fox", "jumps", "over", "lazy", "dog", "while", "seven", "wizards", "brew", "soup"])
CODECS = ["zlib", "zlib", "snappy", "zstd", "uncompressed"]


@dataclass(frozen=True)
class Compared:
    """A table: its bytes, and what the forecast said against what there was. The error is relative to the latter."""

    seed: int
    type: str
    bytes_in: int
    bytes_forecast: int
    bytes_actual: int
    cpu_forecast: float
    cpu_actual: float

    @property
    def bytes_error(self) -> float:
        """The relative error of the bytes that are written."""
        return self.bytes_forecast / self.bytes_actual - 1

    @property
    def cpu_error(self) -> float:
        """The relative error of the CPU seconds."""
        return self.cpu_forecast / self.cpu_actual - 1


def make_random_table(random: np.random.Generator, table: Path) -> int:
    """Write a table of random deltas and delete deltas; return its highest write id."""
    kinds = random.choice(np.array(list(COLUMNS)), size=random.integers(1, 9))
    codec = str(random.choice(CODECS))
    deltas = int(random.choice([2, 4, 10, 40]))
    base = int(random.choice([0, 20_000, 300_000, 800_000]))
    usual = int(random.choice([20, 500, 5000, 60_000])) // (5 if deltas == 40 else 1) + 1
    sizes = [base or usual, *(max(1, round(usual * random.lognormal(0, 0.5))) for _ in range(deltas - 1))]
    for write_id, rows in enumerate(sizes, 1):
        columns = [COLUMNS[kind](random, rows) for kind in kinds]
        row = pa.StructArray.from_arrays(columns, names=[f"c{number}" for number in range(len(columns))])
        make_delta(table, write_id=write_id, row=row, compression=codec)
    return deltas + _delete(random, table, sizes, row.type)


def _delete(random: np.random.Generator, table: Path, sizes: Sequence[int], row_type: pa.StructType) -> int:
    """Write up to three delete deltas, of rows that are spread or lie together; return their number."""
    number = int(random.choice([0, 1, 3]))
    for write_id in range(len(sizes) + 1, len(sizes) + number + 1):
        delta = int(random.integers(len(sizes))) if random.random() < 0.5 else 0
        count = max(1, min(20_000, round(sizes[delta] * random.choice([0.001, 0.02, 0.2]))))
        start = int(random.integers(sizes[delta] - count + 1))
        rows = random.choice([np.arange(start, start + count), random.permutation(sizes[delta])[:count]])
        directory = make_directory(table, f"delete_delta_{write_id:07d}_{write_id:07d}_0000")
        (directory / "bucket_00000").write_bytes(delete_file(write_id, row_type, [(delta + 1, int(n)) for n in rows]))
    return number


def _numbers(random: np.random.Generator, rows: int, highest: int) -> pa.Array:
    return pa.array(random.integers(0, highest, rows))


COLUMNS: dict[str, Callable[[np.random.Generator, int], pa.Array]] = {
    "counter": lambda random, rows: pa.array(np.arange(rows) + int(random.integers(1 << 40))),
    "small": lambda random, rows: _numbers(random, rows, 100),
    "number": lambda random, rows: _numbers(random, rows, 1 << 40),
    "double": lambda random, rows: pa.array(random.normal(size=rows)),
    "flag": lambda random, rows: pa.array(random.random(rows) < 0.3),
    "time": lambda random, rows: pa.array(
        random.integers(1_600_000_000, 1_700_000_000, rows) * 10**9, pa.timestamp("ns")
    ),
    "word": lambda random, rows: pa.array(random.choice(WORDS, rows)),
    "text": lambda random, rows: pa.array([" ".join(words) for words in random.choice(WORDS, (rows, 6))]),
    "code": lambda random, rows: pa.array([f"{number:016x}" for number in random.integers(0, 1 << 60, rows)]),
    "sparse": lambda random, rows: pa.array(random.integers(0, 1000, rows), mask=random.random(rows) < 0.9),
}
"""Columns of so many random values, by what is in them."""


def compared(seed: int) -> Iterator[Compared]:
    """Make the table of a seed, and compact it in both ways."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "table")
        highest = make_random_table(np.random.default_rng(seed), table)
        for kind in (CompactionType.MINOR, CompactionType.MAJOR):
            copy = Path(shutil.copytree(table, Path(folder, kind.value)))
            write_ids, request = ValidWriteIdList.parse(snapshot(highest)), Request(kind, Layout.HIVE3)
            planned = plan_directory(str(copy), write_ids=write_ids, request=request)
            if planned.forecast is None:
                continue
            done = compact_directory(str(copy), write_ids=write_ids, request=request, runner=LocalRunner())
            yield Compared(
                seed=seed,
                type=kind.value,
                bytes_in=planned.forecast.bytes_in,
                bytes_forecast=planned.forecast.bytes_out,
                bytes_actual=done.totals.bytes_out,
                cpu_forecast=planned.forecast.cpu_milliseconds / 1000,
                cpu_actual=done.cpu_milliseconds / 1000,
            )


def summary(found: Sequence[Compared]) -> dict[str, float]:
    """Return the median and the 90th percentile of the errors' sizes."""
    errors = {"bytes": [abs(one.bytes_error) for one in found], "CPU": [abs(one.cpu_error) for one in found]}
    middle = {f"{name}, median": median(sizes) for name, sizes in errors.items()}
    return middle | {f"{name}, p90": quantiles(sizes, n=10)[-1] for name, sizes in errors.items()}


def main() -> int:
    """Compare so many tables, print the errors, and return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="bench.forecast", description=__doc__)
    parser.add_argument("--tables", type=int, default=60, help="how many random tables (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="the first table's seed (default: 1)")
    options = parser.parse_args()
    list(compared(0))  # what the process does once
    found = [one for seed in range(options.seed, options.seed + options.tables) for one in compared(seed)]
    errors = summary(found)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"errors": errors, "tables": [asdict(one) for one in found]}, indent=1))
    for name, error in errors.items():
        target = f" (target {TARGETS[name]:.0%})" if name in TARGETS else ""
        print(f"{name}: {error:.1%}{target}")
    return int(any(errors[name] > target for name, target in TARGETS.items()))


if __name__ == "__main__":
    sys.exit(main())
