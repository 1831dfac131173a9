"""The matrix of Hudi's releases: `python -m tests.soak.hudi_matrix`."""

import sys
import tempfile
from pathlib import Path

from tests.soak.hudi_matrix.run import faults, run, table_of


def main() -> int:
    """Run the matrix and print it; returns 1 when a compaction changed what a reader shows."""
    found = run(Path(tempfile.mkdtemp(prefix="hudi-matrix-")))
    wrong = faults(found)
    print(table_of(found))
    print("\n".join(wrong))
    print(f"hudi-matrix: {len(found) // 2} tables, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
