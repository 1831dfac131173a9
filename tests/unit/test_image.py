"""The image's bytecode never hides other code. The controller's image lacks only what the controller never loads."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "operator" / "Dockerfile"


def test_an_image_that_replaces_a_file_of_this_one_runs_its_own(tmp_path: Path) -> None:
    """Bytecode that is taken without a look at its source would run the old code."""
    found = re.findall(r"^RUN python3 -m compileall (.*) /opt/compaction-operator$", DOCKERFILE.read_text(), re.M)
    (options,) = {*found}
    module = tmp_path / "module.py"
    module.write_text("print('old')")
    subprocess.run([sys.executable, "-m", "compileall", *options.split(), str(tmp_path)], check=True)
    assert list(tmp_path.glob("__pycache__/module.*.pyc"))
    module.write_text("print('new')")
    ran = subprocess.run(
        [sys.executable, "-c", "import module"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert ran.stdout == "new\n"


def test_the_controllers_image_lacks_only_what_the_controller_may_not_import() -> None:
    """`make lint` holds the contract, also for what the controller imports by way of other packages."""
    (removed,) = re.findall(r"^RUN python3 -m pip uninstall (.*)$", DOCKERFILE.read_text(), re.M)
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (one for one in linter["contracts"] if one["type"] == "forbidden")
    assert [word for word in removed.split() if not word.startswith("--")] == contract["forbidden_modules"]
