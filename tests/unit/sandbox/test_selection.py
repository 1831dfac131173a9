"""Selection of tests by their marks."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_each_test_that_needs_a_bundle_of_hudis_has_its_mark_when_marks_select() -> None:
    """`pytest -m hudi` would otherwise leave them out, and `-m "not hudi"` run them."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/integration/hudi",
        "-m",
        "not hudi",
        "--collect-only",
        "-q",
        "-n0",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout
    assert "deselected" in done.stdout
