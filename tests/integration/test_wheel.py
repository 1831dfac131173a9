"""Two builds of the wheel have the same bytes, and its list of contents names all that it needs."""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sandbox.supply.compiled import normal
from sandbox.supply.licences import refused

ROOT = Path(__file__).parents[2]
HERE = shlex.quote(str(ROOT))
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "operator", "sandbox/env.sh", "sandbox/supply")
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()))
"""


def run(script: str) -> str:
    command = ["bash", "-c", script]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def build(root: Path, output: Path, umask: int, **environment: str) -> Path:
    """Build the wheel of that copy of the sources."""
    script = [str(root / "sandbox" / "supply" / "wheel.sh"), str(output)]
    subprocess.run(script, env={**os.environ, **environment}, umask=umask, check=True)
    (wheel,) = output.iterdir()
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), 0o022)


@pytest.fixture(scope="module")
def document(wheel: Path) -> dict[str, Any]:
    """The list of the wheel's contents, as `make sbom` writes it."""
    tools = run(f"{HERE}/sandbox/supply/tools.sh")
    wheels = run(f". {HERE}/sandbox/env.sh && wheels_folder")
    output = wheel.parent.with_suffix(".json")
    files = [tools, f"{wheels}/requirements.txt", wheels, str(wheel), str(output)]
    subprocess.run([sys.executable, "-m", "sandbox.supply.wheel_sbom", *files], cwd=ROOT, check=True)
    text = output.read_text()
    subprocess.run([f"{tools}/bin/python", "-c", VALIDATE], input=text, text=True, check=True)
    found: dict[str, Any] = json.loads(text)
    return found


def test_another_copy_of_the_sources_gives_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    """In another folder, by a user with another umask, with files of other modes and times."""
    copy = tmp_path / "copy"
    for name in SOURCES:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        taken = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        taken(ROOT / name, copy / name)
    for path in copy.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)
        os.utime(path, (0, 1_000_000_000))
    git = run(f"git -C {HERE} rev-parse --absolute-git-dir")
    again = build(copy, tmp_path / "wheel", 0o077, GIT_DIR=git)
    assert again.name == wheel.name
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()


def test_the_list_names_the_wheel_by_its_hash(wheel: Path, document: dict[str, Any]) -> None:
    own = document["metadata"]["component"]
    assert (own["name"], own["version"]) == ("compaction-operator", wheel.name.split("-")[1])
    assert own["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]


def test_the_list_has_what_the_lock_pins_and_what_needs_what(document: dict[str, Any]) -> None:
    lock = (ROOT / "operator" / "requirements.lock").read_text()
    pins = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock, re.MULTILINE)
    found = {f"{normal(one['name'])}=={one['version']}" for one in document["components"]}
    assert found == {f"{normal(name)}=={version}" for name, version in pins}
    needs = {one["ref"]: one.get("dependsOn", []) for one in document["dependencies"]}
    direct = {normal(ref.partition("==")[0]) for ref in needs[document["metadata"]["component"]["bom-ref"]]}
    assert {"boto3", "kopf", "pyarrow", "pyspark"} <= direct
    assert "urllib3" not in direct
    (kopf,) = (ref for ref in needs if ref.startswith("kopf=="))
    assert any(ref.startswith("aiohttp==") for ref in needs[kopf])


def test_no_licence_is_unknown_or_asks_for_more_than_a_notice(document: dict[str, Any]) -> None:
    assert [*refused(document["components"])] == []
