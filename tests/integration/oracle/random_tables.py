"""Random ACID tables against real Hive.

`python -m tests.integration.oracle.random_tables --tables 500 --seed 1 [--hive 4] [--path copied]`.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from compaction_operator.acid.snapshot import OpenWriteBelow
from compaction_operator.api.compaction import HIVE_TYPES
from tests.integration.oracle.histories import RandomTable
from tests.integration.oracle.hive import HiveOracle
from tests.integration.oracle.laws import Broken, Case, Refused, check, check_deletion
from tests.support.fast_paths import PATHS, forced

PLACES = ("t", "t/p=a%3Ab c", "t/year=2024/p=__HIVE_DEFAULT_PARTITION__")
"""A table's directory, or a partition's."""


@dataclass(frozen=True)
class Outcome:
    """What came of one table: "passed", "refused" or "failed", and why."""

    seed: int
    version: int
    verdict: str
    reason: str = ""

    def command(self) -> str:
        """Return how to repeat it."""
        return f"python -m tests.integration.oracle.random_tables --hive {self.version} --tables 1 --seed {self.seed}"


def run_table(hive: HiveOracle, seed: int, directory: Path) -> Outcome:
    """Make the table of this seed in the directory and compact it now and then; every law is checked each time."""
    rng = Random(f"{hive.version}/{seed}")
    table = RandomTable(hive, directory, rng)
    try:
        for _ in range(rng.randint(1, 3)):
            for _ in range(rng.randint(1, 7)):
                table.step()
            _compact_when_settled(table, rng)
    except Refused as refused:
        return Outcome(seed, hive.version, "refused", str(refused))
    except Exception as error:  # whatever it is, the seed and the steps must be told
        steps = ", ".join(table.steps)
        return Outcome(seed, hive.version, "failed", f"{type(error).__name__}: {error}\n  {table.row_type}\n  {steps}")
    return Outcome(seed, hive.version, "passed")


def _compact_when_settled(table: RandomTable, rng: Random) -> None:
    """Compact; where that waits for an open write, let it end first."""
    try:
        _compact(table, rng)
    except Refused as refused:
        if not isinstance(refused.__cause__, OpenWriteBelow):
            raise
        table.steps.append("settle")
        table.settle()
        _compact(table, rng)


def _compact(table: RandomTable, rng: Random) -> None:
    txn = table.next_txn()
    kind = rng.choice(HIVE_TYPES)
    table.steps.append(kind.value)
    case = Case(
        hive=table.hive,
        directory=table.directory,
        row_type=table.row_type,
        current=table.current,
        older=table.older(txn=txn),
        type=kind,
        txn=txn if table.hive.version == 4 else None,
    )
    if isinstance(case.see(case.current, vectorized=True), str) and isinstance(
        case.see(case.current, vectorized=False), str
    ):
        raise Broken(f"Hive cannot read its own table: {case.see(case.current, vectorized=False)}")
    plan = check(case, guarded=rng.random() < 0.7)
    if rng.random() < 0.6:
        table.steps.append("deletion")
        check_deletion(case, plan)


def run(hive: HiveOracle, *, tables: int, seed: int, keep: Path | None = None) -> Iterator[Outcome]:
    """Run tables of `tables` seeds from `seed` on; what did not pass stays in the folder `keep`."""
    for number in range(seed, seed + tables):
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / PLACES[number % len(PLACES)]
            directory.mkdir(parents=True)
            outcome = run_table(hive, number, directory)
            if keep and outcome.verdict != "passed":
                shutil.copytree(directory, keep / f"hive{hive.version}-{number}", dirs_exist_ok=True)
            yield outcome


def main() -> int:
    """Run as many tables as asked for and print what came of them; returns 1 when a law was broken."""
    parser = argparse.ArgumentParser(
        description="Compact random ACID tables; real Hive must see the same before and after."
    )
    parser.add_argument("--tables", type=int, default=100, help="how many for each version (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="the first table's seed (default: 1)")
    parser.add_argument("--hive", type=int, choices=(3, 4), help="one version only (default: both)")
    parser.add_argument("--path", choices=PATHS, default="usual", help="how the engine is to work (default: usual)")
    parser.add_argument("--keep", type=Path, help="a folder for the tables that did not pass, as they are then")
    options = parser.parse_args()
    start = time.monotonic()
    verdicts: Counter[str] = Counter()
    for version in [options.hive] if options.hive else [3, 4]:
        with HiveOracle(version) as hive, forced(options.path):
            for outcome in run(hive, tables=options.tables, seed=options.seed, keep=options.keep):
                verdicts[outcome.verdict] += 1
                if outcome.verdict != "passed":
                    print(
                        f"{outcome.verdict}: {outcome.command()} --path {options.path}\n  {outcome.reason}", flush=True
                    )
    print(f"{options.path}: {summary(verdicts)} in {time.monotonic() - start:.0f} s")
    return 1 if verdicts["failed"] else 0


def summary(verdicts: Counter[str]) -> str:
    """Return the one line that says how it went."""
    return ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in ("passed", "refused", "failed"))


if __name__ == "__main__":
    sys.exit(main())
