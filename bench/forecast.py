"""Forecast and actual of random tables: `python -m bench.forecast [--tables 60] [--partitions 200] [--seed 1]`.

Each table has one bucket: deltas of random columns, sizes and codecs, with or without delete events. It is planned,
then compacted in this process, as a driver does small work. Compared are the bytes that are written and the CPU
seconds of the tasks, the least of a few rounds. Then comes a table with many such partitions of the same columns, of
which the sums are compared. The result is `bench/out/forecast.json`; the exit code is 1 when a target is missed.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import reduce
from operator import add
from pathlib import Path
from statistics import median, quantiles

import numpy as np
import pyarrow as pa
from sandbox.harness.orcfile import delete_file

from bench.acid_table import make_delta, make_directory, snapshot
from compaction_operator.acid.plan import Layout
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.driver.merge.calibration import measured_factor
from compaction_operator.driver.merge.partition import Request
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.driver.offline import Compacted, compact_directory, plan_directory

RESULT = Path(__file__).parent / "out" / "forecast.json"
TARGETS = {
    "bytes, p90": 0.02,
    "CPU, median": 0.15,
    "CPU, p90": 0.35,
    **{f"{kind}: {what}": limit for kind in ("Minor", "Major") for what, limit in {"bytes": 0.02, "CPU": 0.15}.items()},
}
PARTITION = 0.1
"""The rows of a partition, as a share of those of a table."""

ROUNDS = 3
WORDS = np.array(["quick", "brown", "fox", "jumps", "over", "lazy", "dog", "while", "seven", "wizards", "brew", "soup"])
CODECS = ["zlib", "zlib", "snappy", "zstd", "uncompressed"]


@dataclass(frozen=True)
class Compared:
    """A table: its bytes, and what the forecast said against what there was. The error is relative to the latter.

    CPU times are in seconds; `cpu_plan` is that of the forecast itself.
    """

    seed: int
    type: str
    bytes_in: int
    bytes_forecast: int
    bytes_actual: int
    cpu_forecast: float
    cpu_actual: float
    cpu_plan: float

    @property
    def bytes_error(self) -> float:
        """The relative error of the bytes that are written."""
        return self.bytes_forecast / self.bytes_actual - 1

    @property
    def cpu_error(self) -> float:
        """The relative error of the CPU seconds."""
        return self.cpu_forecast / self.cpu_actual - 1

    def __add__(self, other: "Compared") -> "Compared":
        numbers = [one.name for one in fields(self) if one.name not in ("seed", "type")]
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in numbers})


@dataclass(frozen=True)
class Schema:
    """The columns of a table, by what is in them, and its codec."""

    columns: Sequence[str]
    codec: str

    @classmethod
    def random(cls, random: np.random.Generator) -> "Schema":
        """Return up to forty columns and a codec."""
        kinds, number = np.array(list(COLUMNS)), random.choice([1, 2, 4, 8, 40])
        return cls(random.choice(kinds, size=number).tolist(), random.choice(CODECS))


def make_random_table(random: np.random.Generator, table: Path, schema: Schema, *, share: float) -> int:
    """Write random deltas, of that share of the usual rows, and delete deltas; return the table's highest write id.

    A wide table has fewer rows, so that it is not much larger.
    """
    share *= min(1.0, 8 / len(schema.columns))
    deltas = int(random.choice([2, 4, 10, 40]))
    base = round(share * random.choice([0, 20_000, 300_000, 800_000]))
    usual = round(share * random.choice([20, 500, 5000, 60_000])) // (5 if deltas == 40 else 1) + 1
    sizes = [base or usual, *(max(1, round(usual * random.lognormal(0, 0.5))) for _ in range(deltas - 1))]
    for write_id, rows in enumerate(sizes, 1):
        columns = [COLUMNS[kind](random, rows) for kind in schema.columns]
        row = pa.StructArray.from_arrays(columns, names=[f"c{number}" for number in range(len(columns))])
        make_delta(table, write_id=write_id, row=row, compression=schema.codec)
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


def _sessions(random: np.random.Generator, rows: int) -> pa.Array:
    """Return texts, each in five rows of this delta and in no other delta."""
    first = int(random.integers(1 << 40))
    return pa.array([f"{first + number:016x}" for number in random.integers(0, rows // 5 + 1, rows)])


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
    "city": lambda random, rows: pa.array([f"city {number}" for number in np.minimum(random.zipf(1.3, rows), 50_000)]),
    "session": _sessions,
    "sparse": lambda random, rows: pa.array(random.integers(0, 1000, rows), mask=random.random(rows) < 0.9),
}
"""Columns of so many random values, by what is in them."""


def compared(seed: int, schema: Schema | None = None, *, share: float = 1.0) -> Iterator[Compared]:
    """Make the table of a seed, and compact it in both ways."""
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "table")
        highest = make_random_table(random, table, schema or Schema.random(random), share=share)
        for kind in (CompactionType.MINOR, CompactionType.MAJOR):
            if found := _compared(seed, table, ValidWriteIdList.parse(snapshot(highest)), Request(kind, Layout.HIVE3)):
                yield found


def _compared(seed: int, table: Path, write_ids: ValidWriteIdList, request: Request) -> Compared | None:
    measured_factor.cache_clear()  # other work makes the machine faster or slower from minute to minute
    measured_factor()
    begun = time.thread_time()
    planned = plan_directory(str(table), write_ids=write_ids, request=request).forecast
    cpu_plan = time.thread_time() - begun
    if planned is None:
        return None
    done = [_compacted(table, write_ids, request) for _ in range(ROUNDS)]
    return Compared(
        seed=seed,
        type=request.type.value,
        bytes_in=planned.bytes_in,
        bytes_forecast=planned.bytes_out,
        bytes_actual=done[0].totals.bytes_out,
        cpu_forecast=planned.cpu_milliseconds / 1000,
        cpu_actual=min(one.cpu_milliseconds for one in done) / 1000,
        cpu_plan=cpu_plan,
    )


def _compacted(table: Path, write_ids: ValidWriteIdList, request: Request) -> Compacted:
    """Compact a copy."""
    with tempfile.TemporaryDirectory() as folder:
        copy = str(shutil.copytree(table, Path(folder, "copy")))
        return compact_directory(copy, write_ids=write_ids, request=request, runner=LocalRunner())


def fleet(seed: int, *, partitions: int) -> dict[str, Compared]:
    """Compact a table of many partitions, and return the sums by type."""
    schema = Schema.random(np.random.default_rng(seed))
    found = [one for number in range(partitions) for one in compared(seed + number, schema, share=PARTITION)]
    return {
        kind: reduce(add, [one for one in found if one.type == kind]) for kind in sorted({one.type for one in found})
    }


def summary(found: Sequence[Compared]) -> dict[str, float]:
    """Return the median and the 90th percentile of the errors' sizes."""
    errors = {"bytes": [abs(one.bytes_error) for one in found], "CPU": [abs(one.cpu_error) for one in found]}
    middle = {f"{name}, median": median(sizes) for name, sizes in errors.items()}
    return middle | {f"{name}, p90": quantiles(sizes, n=10)[-1] for name, sizes in errors.items()}


def main() -> int:
    """Compare so many tables, and one of so many partitions, print the errors, and return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="bench.forecast", description=__doc__)
    parser.add_argument("--tables", type=int, default=60, help="how many random tables (default: 60)")
    parser.add_argument("--partitions", type=int, default=200, help="the partitions of the last table (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="the first table's seed (default: 1)")
    options = parser.parse_args()
    list(compared(0))  # what the process does once
    found = [one for seed in range(options.seed, options.seed + options.tables) for one in compared(seed)]
    whole = fleet(options.seed, partitions=options.partitions)
    errors = summary(found) | {f"{kind}: bytes": abs(one.bytes_error) for kind, one in whole.items()}
    errors |= {f"{kind}: CPU": abs(one.cpu_error) for kind, one in whole.items()}
    RESULT.parent.mkdir(exist_ok=True)
    tables = [asdict(one) for one in (*found, *whole.values())]
    RESULT.write_text(json.dumps({"errors": errors, "tables": tables}, indent=1))
    for name, error in errors.items():
        target = f" (target {TARGETS[name]:.0%})" if name in TARGETS else ""
        print(f"{name}: {error:.1%}{target}")
    print(f"CPU of the plans, of all tables: {sum(one.cpu_plan for one in found):.1f} s, ", end="")
    print(f"of the compactions {sum(one.cpu_actual for one in found):.1f} s")
    return int(any(errors.get(name, 0) > target for name, target in TARGETS.items()))


if __name__ == "__main__":
    sys.exit(main())
