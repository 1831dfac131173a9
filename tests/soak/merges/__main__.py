"""Random buckets, merged by each path of the engine: `python -m tests.soak.merges --tables 500 --seed 1`."""

import argparse
import sys
from collections import Counter, defaultdict

from tests.soak.merges.run import run_tables
from tests.support.fast_paths import PATHS


def main() -> int:
    """Merge so many tables and print what each path did; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="tests.soak.merges", description=__doc__)
    parser.add_argument("--tables", type=int, default=500, help="how many (default: 500)")
    parser.add_argument("--seed", type=int, default=1, help="the first table's seed (default: 1)")
    parser.add_argument("--path", choices=PATHS, action="append", help="one path only; may be repeated (default: all)")
    options = parser.parse_args()
    did: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for outcome in run_tables(range(options.seed, options.seed + options.tables), options.path or list(PATHS)):
        did[outcome.path] += outcome.did
        if outcome.problem:
            print(f"failed: {outcome.command()}\n{outcome.problem}", flush=True)
    for path, counts in did.items():
        said = [f"{counts[what]} {what}" for what in sorted({*counts} - {"failed"})]
        print(f"{path}: {counts['failed']} failed, {', '.join(said)}")
    return 1 if any(counts["failed"] for counts in did.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
