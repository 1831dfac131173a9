"""Readers against writers and compactions: `python -m tests.soak.storm --minutes 20 [--seed 1] [--hive 4.0.1]`."""

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path
from random import SystemRandom
from typing import get_args

from sandbox.harness.places import StorageKind
from sandbox.metastore.server import ON_S3, Hive

from tests.soak.storm.season import VERSIONS, Figures, side_by_side


def main() -> int:
    """Run the storm and print what it came to, or the first error; returns 1 when there was one."""
    options = _options()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="storm-"))
    folder.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        filename=folder / "storm.log", level=logging.INFO, format="%(asctime)s %(threadName)s %(name)s: %(message)s"
    )
    hives = list(VERSIONS) if options.hive == "both" else [options.hive]
    print(
        f"storm: Hive {' and '.join(hives)} on {options.storage}, seed {options.seed}, log and tables in {folder}",
        flush=True,
    )
    start, total, errors = time.monotonic(), Figures(), 0
    kinds: dict[Hive, StorageKind] = dict.fromkeys(hives, options.storage)
    results = side_by_side(folder, kinds, seed=options.seed, seconds=options.minutes * 60)
    for hive, result in results.items():
        if isinstance(result, Figures):
            total += result
            print(f"Hive {hive}: {result}")
        else:
            errors += 1
            print(f"Hive {hive}, seed {options.seed}: {type(result).__name__}: {result}")
    print(f"storm: {(time.monotonic() - start) / 60:.0f} minutes, {total}; {errors} errors")
    return 1 if errors else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Readers, writers, compactions and cleanups, all at once.")
    parser.add_argument("--minutes", type=float, default=20, help="how long to storm (default: 20)")
    parser.add_argument(
        "--seed", type=int, default=SystemRandom().randrange(10**6), help="what the choices follow from"
    )
    parser.add_argument("--hive", choices=[*VERSIONS, "both"], default="both", help="default: both, side by side")
    parser.add_argument("--storage", choices=get_args(StorageKind), default="file", help="where tables lie")
    parser.add_argument("--keep", type=Path, help="the folder for log and tables (default: a temporary one)")
    options = parser.parse_args()
    if options.storage == "s3" and options.hive not in ON_S3:
        parser.error(f"on S3 only Hive {', '.join(ON_S3)}: the operator refuses 3.1.3 there (--hive, HIVE=)")
    return options


if __name__ == "__main__":
    sys.exit(main())
