"""The documents agree with what is there: links lead somewhere, and examples do not contradict each other."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
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
