"""The matrix of Hudi's releases: `python -m tests.soak.hudi_matrix`, with `--writer 0.15.0` or the like some cells."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from sandbox.hudi.table import Ordering

from compaction_operator.hudi import BUNDLES
from tests.soak.hudi_matrix.history import Writes
from tests.soak.hudi_matrix.report import faults, table_of, unanswered
from tests.soak.hudi_matrix.run import WRITERS, Cell, cells, run


def main() -> int:
    """Run the chosen cells and print their table; returns 1 when a compaction changed what a reader shows."""
    wanted = _options()
    folder = Path(tempfile.mkdtemp(prefix="hudi-matrix-"))
    found = [cell for cell in cells(folder) if _is_wanted(cell, wanted)]
    run(found)
    wrong = faults(found)
    if wrong:
        print(f"the tables in each state: {folder}")
    else:
        shutil.rmtree(folder)
    print(table_of(found))
    print("\n".join((*unanswered(found), *wrong)))
    print(f"hudi-matrix: {len(found) // 2} tables, {len(wrong)} faults")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hudi-matrix", description="without an option all cells run")
    parser.add_argument("--writer", choices=WRITERS, action="append")
    parser.add_argument("--version", type=int, choices=sorted(set().union(*WRITERS.values())), action="append")
    parser.add_argument("--ordering", choices=[one.name.lower() for one in Ordering], action="append")
    parser.add_argument("--payload", choices=["by name", "none"], action="append")
    parser.add_argument("--writes", choices=[one.name.lower() for one in Writes], action="append")
    parser.add_argument("--compactor", choices=BUNDLES, action="append")
    return parser.parse_args()


def _is_wanted(cell: Cell, wanted: argparse.Namespace) -> bool:
    has = {
        **vars(cell),
        "payload": cell.payload,
        "ordering": cell.ordering.name.lower(),
        "writes": cell.writes.name.lower(),
    }
    return all(values is None or has[name] in values for name, values in vars(wanted).items())


if __name__ == "__main__":
    sys.exit(main())
