"""What `kubectl auth can-i --list` says of each account is what docs/install.md shows."""

import re
import textwrap
from collections.abc import Mapping

import pytest
from sandbox.harness.chart import CHART

from compaction_operator.cli.right_checks import IN_EACH_NAMESPACE, WATCHED

from .conftest import CLEANUPS, COMPACTIONS, PLATFORM, RELEASE, SINGLE_SYSTEM, SINGLE_TENANT, SYSTEM, TENANT, Cluster

PAGE = CHART.parents[1] / "docs" / "install.md"
SHOWN = re.compile(r"^\$ kubectl (auth can-i --list [^\n]*)\n(.*?)(?=^\$|\Z)", re.MULTILINE | re.DOTALL)
COLUMNS = re.compile(r"^(\S*) +\[(.*?)\] +\[(.*?)\] +\[(.*?)\]$")
ANYONE = "system:serviceaccount:default:anyone"

Row = tuple[str, str, str, frozenset[str]]
"""Resource, paths that are none, names of resources, verbs."""


def shown(*, single: bool = False) -> list[tuple[str, set[Row]]]:
    """Return the commands of the page, and what it shows for each; with `single` where namespaces are watched."""
    blocks = re.findall(r"^```console\n(\$ kubectl auth can-i --list .*?)^```$", PAGE.read_text(), re.M | re.S)
    assert len(blocks) == 2
    return [(command, rows(text)) for command, text in SHOWN.findall(textwrap.dedent(blocks[single]))]


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


@pytest.mark.parametrize(
    ("command", "expected"), shown(single=True), ids=lambda part: part if isinstance(part, str) else ""
)
def test_so_may_the_controller_that_watches_single_namespaces(
    single: Cluster, command: str, expected: set[Row]
) -> None:
    assert expected
    command = command.replace("analytics", SINGLE_TENANT).replace(SYSTEM, SINGLE_SYSTEM)
    assert asked(single, *command.split()) == expected


def test_the_doctor_asks_for_the_same() -> None:
    _, expected = shown(single=True)[1]
    rights = [right for rule in (*IN_EACH_NAMESPACE, *WATCHED) for right in rule.rights(TENANT)]
    named = {(_named(right), right["verb"]) for right in rights}
    assert named == {(resource, verb) for resource, _, _, verbs in expected for verb in verbs}


def _named(right: Mapping[str, str]) -> str:
    """Return the resource of a right as kubectl shows it."""
    below = f"/{right['subresource']}" if right["subresource"] else ""
    return ".".join(filter(None, (right["resource"], right["group"]))) + below


def test_it_has_no_right_anywhere_else(single: Cluster) -> None:
    """Nor has who installed it, and its release has nothing of the cluster's."""
    account = f"--as=system:serviceaccount:{SINGLE_SYSTEM}:{RELEASE}"
    for namespace in ("default", TENANT):
        assert asked(single, "auth", "can-i", "--list", account, "-n", namespace) == set()
    assert not single.may(PLATFORM, "list", "namespaces", namespace="")
    bound = single.plane.kubectl("get", "clusterrolebindings", "-o", "jsonpath={.items[*].subjects[*].namespace}")
    assert SYSTEM in bound.split()
    assert SINGLE_SYSTEM not in bound.split()


def test_users_have_roles_that_the_administrator_of_the_namespace_binds(single: Cluster) -> None:
    """Here Kubernetes' own roles have rights on these kinds only by the other release."""
    roles = {f"role.rbac.authorization.k8s.io/{RELEASE}-{one}" for one in ("view", "edit", "approve")}
    assert roles < single.names("role", SINGLE_TENANT)
    given = (f"--role={RELEASE}-approve", "--user=anna")
    single.plane.kubectl("create", "rolebinding", "approve", "-n", SINGLE_TENANT, *given)
    for verb in ("get", "list", "watch", "patch"):  # kubectl reads what it changes
        assert single.may("anna", verb, CLEANUPS, namespace=SINGLE_TENANT)
    assert not single.may("anna", "create", COMPACTIONS, namespace=SINGLE_TENANT)


def test_the_page_shows_each_account_wherever_it_has_rights() -> None:
    commands = [command for command, _ in shown()]
    controller = "auth can-i --list --as=system:serviceaccount:compaction-system:compaction-operator"
    assert commands == [
        f"{controller} -n compaction-system",
        f"{controller} -n analytics",
        f"{controller} -n default",
        "auth can-i --list --as=system:serviceaccount:analytics:compaction-driver -n analytics",
    ]
    assert [command for command, _ in shown(single=True)] == commands[:2]
