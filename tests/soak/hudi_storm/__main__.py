"""The storm of Hudi tables: `python -m tests.soak.hudi_storm --kills 20 [--hudi 1.2.0]`.

A live writer works on tables whose compactions have their drivers killed.
"""

import argparse
import logging
import sys
import tempfile
from pathlib import Path
from random import SystemRandom

from tests.soak.hudi_storm.season import run
from tests.soak.hudi_storm.table import KINDS

VERSIONS = tuple(KINDS)


def main() -> int:
    """Run the storm and print what it came to, or the first error; returns 1 when there was one."""
    options = _options()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="hudi-storm-"))
    folder.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        filename=folder / "storm.log", level=logging.INFO, format="%(asctime)s %(threadName)s %(name)s: %(message)s"
    )
    versions = list(VERSIONS) if options.hudi == "both" else [options.hudi]
    print(f"hudi-storm: Hudi {' and '.join(versions)}, seed {options.seed}, log and tables in {folder}", flush=True)
    said, errors = [], 0
    for version in versions:
        try:
            figures = run(
                folder / version, version=version, seed=options.seed, kills=options.kills, minutes=options.minutes
            )
            said.append(str(figures))
        except Exception as error:
            logging.getLogger(__name__).exception("Hudi %s", version)
            said.append(f"Hudi {version}: {type(error).__name__}: {error}")
            errors += 1
        print(said[-1], flush=True)
    print(f"hudi-storm: {'; '.join(said)}; {errors} errors")
    return 1 if errors else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A live writer, compactions, and drivers that are killed.")
    parser.add_argument("--kills", type=int, default=20, help="how many drivers to kill at least (default: 20)")
    parser.add_argument(
        "--minutes",
        type=float,
        default=90,
        help="the time for that and for all kinds of work, per version (default: 90)",
    )
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6), help="of all choices")
    parser.add_argument("--hudi", choices=[*VERSIONS, "both"], default="both", help="default: one after the other")
    parser.add_argument("--keep", type=Path, help="the folder for log and tables (default: a temporary one)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
