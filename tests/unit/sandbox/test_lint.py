"""`sandbox/lint.sh`: no check is skipped in silence, and the pre-commit hooks run the same checks."""

import re
import shutil
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
LINT = ROOT / "sandbox" / "lint.sh"
TOOLS = ("bash", "cut", "dirname", "env", "find", "sha256sum")
"""What lint.sh itself and sandbox/env.sh call."""


def lint(*checks: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run the script with a PATH of TOOLS alone, so without shellcheck."""
    path.mkdir()
    for tool in TOOLS:
        (path / tool).symlink_to(str(shutil.which(tool)))
    environment = {"PATH": str(path), "HOME": str(path)}
    return subprocess.run([LINT, *checks], capture_output=True, text=True, check=False, env=environment)


def test_a_missing_shellcheck_fails_and_says_how_to_install_it(tmp_path: Path) -> None:
    done = lint("shellcheck", path=tmp_path / "bin")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "lint: shellcheck failed: not installed; run: apt-get install shellcheck (macOS: brew install shellcheck)"
    ]


def test_an_unknown_check_is_named_with_those_that_exist(tmp_path: Path) -> None:
    done = lint("speling", path=tmp_path / "bin")
    assert done.returncode == 1
    assert done.stderr == "sandbox: unknown check 'speling'; checks: ruff, format, mypy, layers, shellcheck\n"


def test_the_hooks_run_every_check_and_download_nothing() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    default = re.search(r"set -- (.*)$", LINT.read_text(), re.MULTILINE)
    assert default
    assert repository["repo"] == "local"
    assert [hook["entry"] for hook in repository["hooks"]] == [f"sandbox/lint.sh {name}" for name in default[1].split()]
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
