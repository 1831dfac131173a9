"""What `kubectl auth can-i --list` says of each account is what docs/install.md shows."""

import re
import textwrap

import pytest
from sandbox.harness.chart import CHART

from .conftest import TENANT, Cluster

PAGE = CHART.parents[1] / "docs" / "install.md"
SHOWN = re.compile(r"^\$ kubectl (auth can-i --list [^\n]*)\n(.*?)(?=^\$|\Z)", re.MULTILINE | re.DOTALL)
COLUMNS = re.compile(r"^(\S*) +\[(.*?)\] +\[(.*?)\] +\[(.*?)\]$")
ANYONE = "system:serviceaccount:default:anyone"

Row = tuple[str, str, str, frozenset[str]]
"""Resource, paths that are none, names of resources, verbs."""


def shown() -> list[tuple[str, set[Row]]]:
    """Return the commands of the page, and what it shows for each."""
    (block,) = re.findall(r"^```console\n(\$ kubectl auth can-i --list .*?)^```$", PAGE.read_text(), re.M | re.S)
    return [(command, rows(text)) for command, text in SHOWN.findall(textwrap.dedent(block))]


def rows(text: str) -> set[Row]:
    """Return the lines of an answer below its head."""
    found = (COLUMNS.match(line) for line in text.splitlines())
    return {(row[1], row[2], row[3], frozenset(row[4].split())) for row in found if row}


def asked(cluster: Cluster, *arguments: str) -> set[Row]:
    """Return what an account may do beyond what every account may."""
    every = rows(cluster.plane.kubectl("auth", "can-i", "--list", f"--as={ANYONE}", "-n", "default"))
    return rows(cluster.plane.kubectl(*arguments)) - every


@pytest.mark.parametrize(("command", "expected"), shown(), ids=lambda part: part if isinstance(part, str) else "")
def test_each_account_may_do_what_the_page_shows(installed: Cluster, command: str, expected: set[Row]) -> None:
    """And nothing more."""
    assert expected
    assert asked(installed, *command.replace("analytics", TENANT).split()) == expected


def test_the_page_shows_each_account_wherever_it_has_rights() -> None:
    commands = [command for command, _ in shown()]
    controller = "auth can-i --list --as=system:serviceaccount:compaction-system:compaction-operator"
    assert commands == [
        f"{controller} -n compaction-system",
        f"{controller} -n analytics",
        f"{controller} -n default",
        "auth can-i --list --as=system:serviceaccount:analytics:compaction-driver -n analytics",
    ]
