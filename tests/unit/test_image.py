"""The image's bytecode saves each pod from compiling the code, and never hides other code."""

import re
import subprocess
import sys
from pathlib import Path

DOCKERFILE = Path(__file__).parents[2] / "operator" / "Dockerfile"


def test_an_image_that_replaces_a_file_of_this_one_runs_its_own(tmp_path: Path) -> None:
    """Bytecode that is taken without a look at its source would run the old code."""
    (options,) = re.findall(r"^RUN python3 -m compileall (.*) /opt/compaction-operator$", DOCKERFILE.read_text(), re.M)
    module = tmp_path / "module.py"
    module.write_text("print('old')")
    subprocess.run([sys.executable, "-m", "compileall", *options.split(), str(tmp_path)], check=True)
    assert list(tmp_path.glob("__pycache__/module.*.pyc"))
    module.write_text("print('new')")
    ran = subprocess.run(
        [sys.executable, "-c", "import module"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert ran.stdout == "new\n"
