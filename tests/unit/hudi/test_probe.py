"""The list of what is called in Hudi: it names each call of this package, and nothing that is not called."""

import ast
import re
from pathlib import Path

from compaction_operator.hudi.jvm import probe
from compaction_operator.hudi.properties import BUNDLES, LINES, line_of

FOLDER = Path(probe.__file__).parent

JAVAS = {
    "currentThread",
    "currentTimeMillis",
    "forName",
    "getCause",
    "getClass",
    "getConstructors",
    "getContextClassLoader",
    "getFields",
    "getLogger",
    "getImplementationVersion",
    "getMessage",
    "getMethods",
    "getPackage",
    "getSimpleName",
    "getStorageLevel",
    "isValid",
    "toList",
    "toLocalIterator",
    "toScalaMap",
    "toString",
}
"""Methods of Java, Spark and Python: they are there whatever the bundle."""

PYTHONS = re.compile(r"[a-z0-9]+|_.*|.*_.*")
"""Names of Python's own, which say nothing here: Hudi has some of one word, too."""


def listed() -> set[str]:
    lists = (probe.COMMON, *probe.OF_LINE.values())
    return {call.partition("/")[0] for calls in lists for wanted in calls.values() for call in wanted.split()}


def attributes() -> set[str]:
    """All names after a dot in the package: methods, also those that are passed on, and constants."""
    trees = (ast.parse(path.read_text()) for path in FOLDER.glob("*.py"))
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_each_call_is_in_the_list() -> None:
    camel = {name for name in attributes() if not PYTHONS.fullmatch(name) and not name[0].isupper()}
    assert camel - JAVAS - listed() == set()


def test_all_in_the_list_is_called() -> None:
    assert listed() - attributes() - {probe.NEW} == set()


def test_each_line_has_a_list_and_each_bundle_a_line() -> None:
    assert set(probe.OF_LINE) == set(LINES)
    assert {line_of(bundle) for bundle in BUNDLES} == set(LINES)
