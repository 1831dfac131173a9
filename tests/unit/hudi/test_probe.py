"""The list of what is called in Hudi: it names each call of this package, and nothing that is not called."""

import ast
import re
from collections.abc import Iterable, Iterator
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
    "getDeclaredMethods",
    "getFields",
    "getLogger",
    "getImplementationVersion",
    "getMessage",
    "getMethods",
    "getPackage",
    "getParameterTypes",
    "getSimpleName",
    "getStorageLevel",
    "getSuperclass",
    "isAssignableFrom",
    "isValid",
    "newInstance",
    "setAccessible",
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
    """All names after a dot in the package, methods, also those that are passed on, and constants; and hidden ones."""
    nodes = [node for path in FOLDER.glob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)} | set(_hidden(nodes))


def _hidden(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names of methods that are not public, as `call_hidden` gets them."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "call_hidden":
            assert isinstance(node.args[2], ast.Constant)
            yield str(node.args[2].value)


def test_each_call_is_in_the_list() -> None:
    camel = {name for name in attributes() if not PYTHONS.fullmatch(name) and not name[0].isupper()}
    assert camel - JAVAS - listed() == set()


def test_all_in_the_list_is_called() -> None:
    assert listed() - attributes() - {probe.NEW} == set()


def test_each_line_has_a_list_and_each_bundle_a_line() -> None:
    assert set(probe.OF_LINE) == set(LINES)
    assert {line_of(bundle) for bundle in BUNDLES} == set(LINES)
