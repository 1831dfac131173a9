"""List what a wheel needs, as CycloneDX: names, versions, licences and dependencies of the packages that a lock pins.

`wheel_sbom.py TOOLS REQUIREMENTS WHEELS WHEEL DOCUMENT`: TOOLS is what tools.sh prints, REQUIREMENTS has a pin a line,
the folder WHEELS has a wheel of each, and DOCUMENT is written. Nothing is installed: wheels say so in their metadata.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from sandbox.supply.compiled import normal

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def pinned(requirements: str, wheels: Iterable[Path]) -> list[Path]:
    """Return the wheels of these pins; LookupError names those that are missing."""
    found = {_pin(*wheel.name.split("-")[:2]): wheel for wheel in wheels}
    pins = [_pin(*line.split("==")) for line in requirements.split()]
    missing = [pin for pin in pins if pin not in found]
    if missing:
        raise LookupError(f"no wheel of {', '.join(missing)}; run: make venv")
    return [found[pin] for pin in pins]


def unpack_metadata(wheel: Path, site: Path) -> None:
    """Put what a wheel says about itself into an environment's folder of packages."""
    with ZipFile(wheel) as archive:
        own = [name for name in archive.namelist() if name.partition("/")[0].endswith(".dist-info")]
        archive.extractall(site, own)


def contents(tools: Path, wheels: Iterable[Path]) -> dict[str, Any]:
    """Return the document for an environment that has these wheels. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder)
        (site,) = Path(folder).glob("lib/python*/site-packages")
        for wheel in wheels:
            unpack_metadata(wheel, site)
        options = ["--pyproject", str(PROJECT), "--output-reproducible", "--validate"]
        command = [str(tools / "bin" / "python"), "-m", "cyclonedx_py", "environment", folder, *options]
        document: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return document


def main(tools: str, requirements: str, folder: str, wheel: str, output: str) -> None:
    """Write the document, which names the wheel by its hash."""
    needed = pinned(Path(requirements).read_text(), Path(folder).glob("*.whl"))
    document = contents(Path(tools), [Path(wheel), *needed])
    digest = hashlib.sha256(Path(wheel).read_bytes()).hexdigest()
    document["metadata"]["component"]["hashes"] = [{"alg": "SHA-256", "content": digest}]
    Path(output).write_text(json.dumps(document, indent=2))


def _pin(name: str, version: str) -> str:
    return f"{normal(name)}=={version}"


if __name__ == "__main__":
    main(*sys.argv[1:])
