"""A long run: `python -m tests.soak.fuzz --seconds 600 --seed 1`."""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.soak.fuzz import names
from tests.soak.fuzz.both import examine_both
from tests.soak.fuzz.cases import make_case
from tests.soak.fuzz.examine import End, Verdict, examine
from tests.soak.fuzz.seeds import make_seeds
from tests.soak.fuzz.worker import CPU_SECONDS, Worker

_NAMES_PER_FILE = 20


def main() -> int:
    """Run until the time is over; return the number of findings, at most 100."""
    parser = argparse.ArgumentParser(prog="tests.soak.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long")
    parser.add_argument("--seed", type=int, default=1, help="where chance begins")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--keep", type=Path, help="a folder for the files of findings")
    parser.add_argument("--both", action="store_true", help="without the compiled kernels, too: both must agree")
    options = parser.parse_args()
    ends: Counter[str] = Counter()
    # NB: two ways, each with one reading more, and perhaps with the sanitizers
    look, cpu_seconds = (examine_both, 10 * CPU_SECONDS) if options.both else (examine, CPU_SECONDS)
    with tempfile.TemporaryDirectory() as folder, Worker(Path(folder), look, cpu_seconds=cpu_seconds) as worker:
        seeds = make_seeds(Path(folder))
        print(f"{len(seeds)} files to start from")
        end, number = time.monotonic() + options.seconds, options.first
        while time.monotonic() < end:
            random = Random(f"{options.seed}-{number}")
            case = make_case(random, seeds)
            _note(ends, verdict := worker.examine(case), f"case {number}")
            if verdict.end is End.FINDING and options.keep:
                (options.keep / f"{options.seed}-{number}.orc").write_bytes(case.content)
            for _ in range(_NAMES_PER_FILE):
                _note(ends, names.examine(random), f"name of case {number}", "names, ")
            number += 1
    print(f"cases {options.first} to {number - 1} of seed {options.seed}: {dict(ends)}")
    return min(100, ends[End.FINDING] + ends[f"names, {End.FINDING}"])


def _note(ends: Counter[str], verdict: Verdict, what: str, group: str = "") -> None:
    ends[f"{group}{verdict.end}"] += 1
    if verdict.end in (End.FINDING, End.VERIFIED):
        print(f"--- {what}: {verdict.end}: {verdict.text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
