"""The images hold what the documentation says, and no more: by their layers, as the sandbox builds them."""

import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from sandbox.cache import cache_folder
from sandbox.supply.layers import layers, machines, part_of, sizes, table

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "sandbox" / "cluster" / "images.sh"
LAYOUT = cache_folder() / "images" / "oci"
NAMES = {
    "compaction-operator": "operator",
    "compaction-operator-hive": "hive",
    "compaction-operator-controller": "controller",
}
LIMITS = {"compaction-operator": 1350, "compaction-operator-hive": 1150, "compaction-operator-controller": 250}
"""MB that an image may have: targets, not what it has."""
DOWNLOADED = re.compile(r"var/cache/apt/archives/.*\.deb$|var/lib/apt/lists/.*_")
LOG = re.compile(r"var/(log|cache/ldconfig)/")
CONTROLLER = "compaction-operator-controller"
NEAR = 3
"""MB by which a part may differ from the page: Debian's packages are those of the day."""


@pytest.fixture(scope="module")
def built() -> dict[str, str]:
    """Build the images; return their full names."""
    subprocess.run([str(IMAGES), "build", *NAMES.values()], check=True)
    asked = {name: [str(IMAGES), "name", short] for name, short in NAMES.items()}
    return {
        name: subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        for name, command in asked.items()
    }


def numbers(text: str) -> list[list[int]]:
    """Return the numbers of a table, row by row."""
    rows = re.findall(r"^\| [A-Z][^|]* ((?:\| *\d+ *)+)\|$", text, re.MULTILINE)
    return [[int(number) for number in re.findall(r"\d+", row)] for row in rows]


def test_the_page_has_the_sizes_by_layer(built: dict[str, str]) -> None:
    """And none exceeds its limit."""
    found = {name: sizes(LAYOUT, image) for name, image in built.items()}
    assert {name: size.total() / 1e6 for name, size in found.items() if size.total() > LIMITS[name] * 1e6} == {}
    _, _, section = (ROOT / "docs" / "supply-chain.md").read_text().partition("## What the images hold\n")
    documented, measured = numbers(section.partition("\n## ")[0]), numbers(table(found))
    assert len(documented) == len(measured) == 6
    for row, own in zip(documented, measured, strict=True):
        assert all(abs(one - other) <= NEAR for one, other in zip(row, own, strict=True)), (row, own)


def test_the_image_for_hive_has_no_jar_of_hudi_or_s3(built: dict[str, str]) -> None:
    """All else is the same: its other layers are those of the large image, so a node has them once."""
    for name, there in ("compaction-operator", True), ("compaction-operator-hive", False):
        jars = {path.partition("-")[0] for path in files(built[name]) if path.startswith("opt/hudi/")}
        assert jars == ({"opt/hudi/hudi", "opt/hudi/hadoop", "opt/hudi/aws", "opt/hudi/jmespath"} if there else set())


def test_no_image_keeps_what_its_build_downloaded(built: dict[str, str]) -> None:
    for image in built.values():
        assert [path for path in files(image) if DOWNLOADED.search(path)] == []


def test_the_controllers_image_does_not_show_when_it_was_made(built: dict[str, str]) -> None:
    """`images.sh again` proves it in minutes. NB: an old cache may have a base from before files got one time."""
    own: list[tarfile.TarInfo] = []
    for step, content in layers(LAYOUT, built[CONTROLLER]):
        own += members(content) if part_of(step) != "Debian" else []
    assert len({one.mtime for one in own}) == 1
    assert [one.name for one in own if one.isreg() and LOG.match(one.name)] == []


def test_the_controllers_bytecode_goes_by_hashes(built: dict[str, str]) -> None:
    """All its files have one time: bytecode that goes by times would be stale, and each start would compile it."""
    found = 0
    for _, content in layers(LAYOUT, built[CONTROLLER]):
        with tarfile.open(fileobj=content, mode="r|") as archive:
            for member in archive:
                if member.isreg() and member.name.endswith(".pyc"):
                    opened = archive.extractfile(member)
                    assert opened is not None
                    assert opened.read(5)[4] & 1, member.name  # https://peps.python.org/pep-0552/
                    found += 1
    assert found > 1000


def test_all_programs_are_for_one_machine(built: dict[str, str]) -> None:
    for image in built.values():
        assert len(machines(LAYOUT, image)) == 1


def files(image: str) -> list[str]:
    """Return the paths of all files of an image."""
    return [one.name for _, content in layers(LAYOUT, image) for one in members(content) if one.isreg()]


def members(content: IO[bytes]) -> Iterator[tarfile.TarInfo]:
    """Yield what a layer's archive has."""
    with tarfile.open(fileobj=content, mode="r|") as archive:
        yield from archive
