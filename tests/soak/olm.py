"""OLM's bundle against OLM's own validator, and against OLM's own types on a real API server.

`make test-olm` runs it, and CI does not: the first build of the validator takes 90 seconds of CPU time.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from sandbox.olm import bundle
from sandbox.plane.control import ControlPlane

MODULE = "github.com/operator-framework/api"
VERIFY = bundle.ROOT / "sandbox" / "olm" / "verify"
SAMPLE = bundle.ROOT / "manifests" / "samples" / "olm" / "install.yaml"
VERSION = f"{bundle.NAME}.clusterserviceversion.yaml"
NO_EXAMPLE = "Kind=CompactionCleanup: provided API should have an example annotation"
"""The only warning: an example would offer users to create what only the operator creates."""


@cache
def program() -> str:
    command = [str(bundle.ROOT / "sandbox" / "program.sh"), "olm/verify"]
    return f"{subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()}/verify"


def findings(folder: Path) -> list[str]:
    """Return what the validator finds. NB: it ends with 0 whatever it finds."""
    command = [program(), "manifests", "--operatorhub_validate", "--object_validate", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line for line in (done.stdout + done.stderr).splitlines() if line]


def test_the_bundle_is_valid() -> None:
    (warning,) = findings(bundle.FOLDER / "manifests")
    assert "level=warning" in warning
    assert NO_EXAMPLE in warning


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda spec: spec.update(installModes=[]), "install modes not found"),
        (lambda spec: spec["provider"].clear(), "Provider.Name not specified"),
        (lambda spec: spec["customresourcedefinitions"]["owned"].pop(), "present in bundle"),
        (lambda spec: spec["icon"][0].update(mediatype="text/plain"), "valid mediatype"),
    ],
)
def test_a_damaged_bundle_is_not(tmp_path: Path, damage: Callable[[dict[str, Any]], object], found: str) -> None:
    folder = Path(shutil.copytree(bundle.FOLDER / "manifests", tmp_path / "manifests"))
    version = yaml.safe_load((folder / VERSION).read_text())
    damage(version["spec"])
    (folder / VERSION).write_text(yaml.safe_dump(version))
    assert found in "\n".join(findings(folder))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that knows OLM's kinds, and the namespace of the install."""
    made = ControlPlane(tmp_path_factory.mktemp("plane"), controllers=())
    try:
        made.launch()
        made.await_ready()
        folder = subprocess.run(
            ["go", "list", "-m", "-f", "{{.Dir}}", MODULE], cwd=VERIFY, stdout=subprocess.PIPE, text=True, check=True
        ).stdout.strip()
        made.kubectl("create", *(f"--filename={path}" for path in sorted(Path(folder, "crds").glob("*.yaml"))))
        made.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        made.kubectl("create", "namespace", bundle.NAME)
        yield made
    finally:
        made.stop()


def test_olms_types_take_the_bundle_and_the_sample(plane: ControlPlane) -> None:
    """The API server refuses a field that a type does not have."""
    for path in (*sorted((bundle.FOLDER / "manifests").iterdir()), SAMPLE):
        plane.kubectl("create", "--validate=strict", "-n", bundle.NAME, "-f", str(path))
    version = yaml.safe_load((bundle.FOLDER / "manifests" / VERSION).read_text())
    version["metadata"]["name"], version["spec"]["displayname"] = "other", "misspelt"
    with pytest.raises(subprocess.CalledProcessError):
        plane.kubectl("create", "--validate=strict", "-n", bundle.NAME, "-f", "-", stdin=json.dumps(version))
