"""What the set-up scripts promise: the two lock files agree, and what a machine lacks is named in one line."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from xml.etree import ElementTree

import pyspark

from compaction_operator.hudi import BUNDLES

ROOT = Path(__file__).parents[3]


def pins(lock: Path) -> set[str]:
    return set(re.findall(r"^[a-zA-Z0-9._-]+==\S+", lock.read_text(), re.MULTILINE))


def test_image_installs_what_the_tests_ran_with():
    runtime = pins(ROOT / "operator" / "requirements.lock")
    assert runtime
    assert runtime <= pins(ROOT / "requirements.lock")


def test_the_tools_of_the_supply_chain_are_pinned_as_everything_else():
    """pip-audit refuses two versions of a package, and the wheel is built by what pyproject.toml names."""
    tools, own = (
        dict(pin.split("==") for pin in pins(ROOT / lock))
        for lock in ("sandbox/supply/tools.lock", "requirements.lock")
    )
    assert {name: version for name, version in tools.items() if own.get(name, version) != version} == {}
    (builder,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert builder in pins(ROOT / "sandbox" / "supply" / "tools.lock")
    asked = [line for line in (ROOT / "sandbox/supply/tools.in").read_text().splitlines() if not line.startswith("#")]
    assert {*asked} <= pins(ROOT / "sandbox" / "supply" / "tools.lock")


def test_image_has_no_test_tools():
    assert not distributions("operator/requirements.lock") & {"pytest", "mypy", "ruff", "hypothesis", "import-linter"}


def test_product_imports_nothing_that_the_image_lacks():
    """A controller that cannot start would be seen on a cluster only."""
    installed = distributions("operator/requirements.lock")
    lacking = [
        module
        for module, providers in packages_distributions().items()
        if not {provider.lower().replace("_", "-") for provider in providers} & installed
    ]
    modules = ("cli", "controller.app", "driver.main")
    imports = "; ".join(f"import compaction_operator.{module}" for module in modules)
    code = f"import sys; sys.modules.update(dict.fromkeys({lacking})); {imports}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def distributions(lock: str) -> set[str]:
    return {pin.split("==")[0] for pin in pins(ROOT / lock)}


def jars_of_the_image() -> dict[str, set[str]]:
    """Return the versions of each artifact among Hudi's jars in the image."""
    pom = ElementTree.parse(ROOT / "sandbox" / "hudi" / "pom.xml")
    properties = {f"${{{one.tag.partition('}')[2]}}}": one.text or "" for one in pom.iterfind("{*}properties/*")}
    found: dict[str, set[str]] = {}
    for item in pom.iterfind(".//{*}artifactItem"):
        version = item.findtext("{*}version", "")
        found.setdefault(item.findtext("{*}artifactId", ""), set()).add(properties.get(version, version))
    return found


def test_image_gets_each_version_of_hudi_that_the_operator_may_choose():
    assert jars_of_the_image()["hudi-spark3.5-bundle_2.12"] == set(BUNDLES)


def test_image_gets_the_s3_connector_of_pysparks_hadoop():
    """Hadoop's connectors work with the other jars of their own version only."""
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    assert jars_of_the_image()["hadoop-aws"] == {client.stem.removeprefix("hadoop-client-api-")}


def prerequisites_with(java: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script with this java, as if by root on Debian: the tests themselves need neither."""
    folder.mkdir()
    for name, body in {"java": java, "id": "echo 0", "apt-get": "exit 1"}.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    script = f'PATH="{folder}:$PATH" exec "{ROOT}/sandbox/prerequisites.sh"'
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)


def test_another_java_is_named_in_one_line_with_what_to_install(tmp_path):
    done = prerequisites_with("""echo 'openjdk version "11.0.2"' >&2""", tmp_path / "bin")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "sandbox: no Java 17 (found: 11); install it (Debian 12: apt-get install openjdk-17-jre-headless)"
    ]


def test_no_java_is_named_in_one_line(tmp_path):
    done = prerequisites_with("exit 127", tmp_path / "bin")
    assert done.returncode == 1
    assert [line.split(";")[0] for line in done.stderr.splitlines()] == ["sandbox: no Java 17 (found: none)"]
