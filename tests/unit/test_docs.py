"""The documents agree with what is there: links lead somewhere, and examples do not contradict each other."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from compaction_operator.api.config import OperatorConfig

ROOT = Path(__file__).parents[2]
WIDTH = 120
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
VALUES = re.compile(r"^( *)```yaml\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
REPOSITORY_PATH = re.compile(r"`((?:bench|charts|crds|docs|manifests|operator|sandbox|tests)/[\w./-]+)`")
LOCK_OPTION = re.compile(r"hoodie\.write\.lock\.zookeeper\.(url|port|base_path|lock_key)(?:=|: )\"?([^\s\"]+)")


def anchors(document: Path) -> set[str]:
    """Return the names of a document's headings, as GitHub and its like make them."""
    headings = HEADING.findall(CODE_BLOCK.sub("", document.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    """Each file that a document links to or shows is there, and has the heading that is named."""
    for link in LINK.findall(document.read_text()):
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_exist(document: Path) -> None:
    """Each path of the repository that a document names is there; `bench/out` is made by the benchmark."""
    paths = {path for path in REPOSITORY_PATH.findall(document.read_text()) if not path.startswith("bench/out")}
    assert not [path for path in paths if not (ROOT / path).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_prose_is_wrapped(document: Path) -> None:
    """Prose keeps to one width; tables and code blocks cannot."""
    text = re.sub(r"^ *```.*?^ *```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert not [line for line in text.splitlines() if len(line) > WIDTH and not line.startswith("|")]


def test_every_page_is_listed() -> None:
    """The table of contents leads to each page."""
    contents = ROOT / "docs/README.md"
    listed = {link.partition("#")[0] for link in LINK.findall(contents.read_text())}
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - {contents.name} <= listed


def values_of(document: Path) -> list[dict[str, Any]]:
    """Return the examples of Helm values in a document that have warehouses."""
    blocks = [textwrap.dedent(text) for _, text in VALUES.findall(document.read_text())]
    return [yaml.safe_load(text) for text in blocks if re.search(r"^warehouses:", text, re.MULTILINE)]


def test_examples_of_values_are_understood() -> None:
    """What a reader copies from a page is a configuration that the operator takes."""
    examples = [values for document in DOCUMENTS for values in values_of(document)]
    stores = set[str]()
    for values in examples:
        config = OperatorConfig.model_validate({"warehouses": values["warehouses"], "profiles": []})
        stores |= {store for warehouse in config.warehouses for store in warehouse.stores.to_json()}
    assert stores == {"hdfs", "s3"}


COMMAND = re.compile(r"^(kubectl .*)$|`(kubectl [^`]+)`", re.MULTILINE)
NAMESPACED = re.compile(r" -n [\w-]+| -A\b| --raw ")


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "runbooks").glob("*.md")), ids=lambda path: path.name)
def test_commands_of_runbooks_say_in_which_namespace(page: Path) -> None:
    """At night no user's current namespace is the right one."""
    found = COMMAND.findall(page.read_text().replace("\\\n", " "))
    assert not [command for one in found if not NAMESPACED.search(command := "".join(one))]


def test_commands_of_operating_it_name_the_namespace_of_what_they_name() -> None:
    found = COMMAND.findall((ROOT / "docs" / "operate.md").read_text())
    commands = [command for one in found if " NAME" in (command := "".join(one))]
    assert len(commands) > 5
    assert not [command for command in commands if not NAMESPACED.search(command)]


@pytest.mark.parametrize("page", ["hazards.md", "safety.md"])
def test_every_hazard_is_listed(page: str) -> None:
    """Both the list of hazards and the table of tests have H1 to H24."""
    rows = [line for line in (ROOT / "docs" / page).read_text().splitlines() if line.startswith("| H")]
    assert {number for row in rows for number in re.findall(r"\bH(\d+)", row.split("|")[1])} == {
        str(number) for number in range(1, 25)
    }


def test_examples_of_locks_name_one_lock() -> None:
    """Writers and operator that follow different pages must not end up with two locks, that is, with none."""
    texts = [*DOCUMENTS, ROOT / "charts/compaction-operator/values.yaml", *(ROOT / "manifests/samples").rglob("*.yaml")]
    found = {match for path in texts for match in LOCK_OPTION.findall(path.read_text())}
    assert found == {
        ("url", "zookeeper.hudi.svc:2181"),
        ("port", "2181"),
        ("base_path", "/hudi/locks"),
        ("lock_key", "orders"),
    }
