"""The matrix of Hudi's releases: `python -m tests.soak.hudi_matrix`, with `--writer 0.15.0` or the like some cells."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from sandbox.hudi.table import Ordering

from compaction_operator.hudi import BUNDLES
from tests.soak.hudi_matrix import taken_over
from tests.soak.hudi_matrix.history import Writes
from tests.soak.hudi_matrix.report import faults, table_of, unanswered
from tests.soak.hudi_matrix.run import WRITERS, Cell, cells, run


def main() -> int:
    """Run the chosen cells and print their table; returns 1 when a compaction changed what a reader shows."""
    wanted = _options()
    folder = Path(tempfile.mkdtemp(prefix="hudi-matrix-"))
    count, table, notes, wrong = (_taken_over if wanted.taken_over else _matrix)(folder, wanted)
    if wrong:
        print(f"the tables in each state: {folder}")
    else:
        shutil.rmtree(folder)
    print(table)
    print("\n".join((*notes, *wrong)))
    print(f"hudi-matrix: {count} tables, {len(wrong)} faults")
    return 1 if wrong else 0


class Found(NamedTuple):
    """How many tables there were, what came of them, and the faults."""

    tables: int
    table: str
    notes: list[str]
    faults: list[str]


def _matrix(folder: Path, wanted: argparse.Namespace) -> Found:
    found = [cell for cell in cells(folder) if _is_wanted(cell, wanted)]
    run(found)
    return Found(len(found) // 2, table_of(found), unanswered(found), faults(found))


def _taken_over(folder: Path, _: argparse.Namespace) -> Found:
    found = taken_over.takeovers(folder)
    taken_over.run(found)
    return Found(len(found), taken_over.table_of(found), [], taken_over.faults(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hudi-matrix", description="without an option all cells run")
    parser.add_argument("--writer", choices=WRITERS, action="append")
    parser.add_argument("--version", type=int, choices=sorted(set().union(*WRITERS.values())), action="append")
    parser.add_argument("--ordering", choices=[one.name.lower() for one in Ordering], action="append")
    parser.add_argument("--payload", choices=["by name", "none"], action="append")
    parser.add_argument("--writes", choices=[one.name.lower() for one in Writes], action="append")
    parser.add_argument("--compactor", choices=BUNDLES, action="append")
    parser.add_argument("--taken-over", action="store_true", help="instead: tables of 0.15 that others wrote to since")
    return parser.parse_args()


def _is_wanted(cell: Cell, wanted: argparse.Namespace) -> bool:
    has = {
        **vars(cell),
        "payload": cell.payload,
        "ordering": cell.ordering.name.lower(),
        "writes": cell.writes.name.lower(),
    }
    chosen = {name: values for name, values in vars(wanted).items() if name in has}
    return all(values is None or has[name] in values for name, values in chosen.items())


if __name__ == "__main__":
    sys.exit(main())
