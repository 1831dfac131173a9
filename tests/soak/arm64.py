"""The images for arm64 hold programs for it alone, and these run: `make test-arm64`, under emulation.

CI does not run it: the emulator takes half an hour to build the images. Jars have libraries for several machines.
"""

import os
import subprocess
from pathlib import Path

import pytest
from sandbox.supply.layers import machines

ROOT = Path(__file__).parents[2]
IMAGES = str(ROOT / "sandbox" / "cluster" / "images.sh")
NAMES = ("operator", "hive", "controller")


def images(*arguments: str) -> str:
    command = [IMAGES, *arguments]
    environment = {**os.environ, "ARCH": "arm64"}
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def built() -> dict[str, str]:
    """Build the images; return their full names."""
    images("build", *NAMES)
    return {name: images("name", name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_each_program_is_for_arm64(built: dict[str, str], name: str) -> None:
    found = machines(Path(images("layout")), built[name])
    assert [*found] == ["aarch64"]
    assert len(found["aarch64"]) > 100


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("operator", "compaction-operator --version"),
        ("operator", "java -version"),
        ("operator", "python3 -c 'import compaction_operator.orc._kernels, gssapi, hdfs_native, isal, numpy, pyarrow'"),
        ("hive", 'test -d /opt/hudi -a -z "$(ls /opt/hudi)"'),
        ("controller", "compaction-operator --version"),
        ("controller", "python3 -c 'import aiohttp, gssapi, hdfs_native, kopf, pydantic, yaml'"),
    ],
)
def test_it_runs(built: dict[str, str], name: str, command: str) -> None:
    images("run", built[name], command)
