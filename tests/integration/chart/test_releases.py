"""Install, upgrade, uninstall and install again: what Helm does on a real API server."""

import itertools
import json
import re
import subprocess
from collections.abc import Iterator

import pytest
from sandbox.harness.chart import CHART
from sandbox.plane.control import binaries

from .conftest import RELEASE, SYSTEM, Cluster, values

CRD = "customresourcedefinition.apiextensions.k8s.io"
DRIVER_ROLE = "role.rbac.authorization.k8s.io/compaction-driver"
_numbers = itertools.count(1)


@pytest.fixture
def tenants(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Give two namespaces. They, all releases and what these leave behind are gone afterwards."""
    number = next(_numbers)
    one, two = f"one-{number}", f"two-{number}"
    for name in (one, two):
        cluster.plane.kubectl("create", "namespace", name)
    yield one, two
    for release in (RELEASE, "other"):
        cluster.helm("uninstall", release, "--namespace", SYSTEM)
    crds = cluster.plane.kubectl("get", "crd", "-o", "name").split()
    cluster.plane.kubectl("delete", "--ignore-not-found", *crds, f"namespace/{one}", f"namespace/{two}")


def test_a_namespace_that_is_gone_fails_no_upgrade(cluster: Cluster, tenants: tuple[str, str]) -> None:
    """Least of all the one that stops all deletion. The notes name it; once it is back, it gets its rights."""
    one, two = tenants
    done = cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(one, two))
    assert (done.returncode, "do not exist" in done.stdout) == (0, False), done.stderr
    cluster.plane.kubectl("delete", "namespace", two)
    stop = ("--reuse-values", "--set", "cleanup.suspend=true")
    done = cluster.helm("upgrade", RELEASE, str(CHART), "--namespace", SYSTEM, *stop)
    assert done.returncode == 0, done.stderr
    assert f"nothing was created there: {two}\n" in done.stdout
    config = cluster.plane.kubectl("get", "configmap", "-n", SYSTEM, f"{RELEASE}-config", "-o", "yaml")
    assert "suspend: true" in config
    assert DRIVER_ROLE in cluster.names("role", one)
    cluster.plane.kubectl("create", "namespace", two)
    done = cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(one, two))
    assert (done.returncode, "do not exist" in done.stdout) == (0, False), done.stderr
    assert DRIVER_ROLE in cluster.names("role", two)


def test_a_namespace_that_is_being_deleted_fails_no_upgrade(cluster: Cluster, tenants: tuple[str, str]) -> None:
    """A finalizer may hold it for days."""
    one, two = tenants
    held = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": two, "finalizers": ["a.b/c"]},
    }
    cluster.plane.create(held)
    cluster.plane.kubectl("delete", "namespace", two, "--wait=false")
    done = cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(one, two))
    cluster.plane.kubectl(
        "patch", "configmap", "held", "-n", two, "--type=merge", "-p", '{"metadata":{"finalizers":[]}}'
    )
    assert done.returncode == 0, done.stderr
    assert f"nothing was created there: {two}\n" in done.stdout


def test_a_release_takes_the_crds_of_one_that_is_gone(cluster: Cluster, tenants: tuple[str, str]) -> None:
    """By the commands that its refusal says. Compactions outlive both; an operator that runs keeps its CRDs."""
    one, _ = tenants
    assert cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(one)).returncode == 0
    spec = {"warehouse": "main", "table": {"database": "d", "name": "t"}, "type": "Major"}
    metadata = {"name": "kept", "namespace": one}
    cluster.plane.kubectl("wait", "--for=condition=Established", "crd/tablecompactions.compaction.dev")
    cluster.plane.create(
        {"apiVersion": "compaction.dev/v1alpha1", "kind": "TableCompaction", "metadata": metadata, "spec": spec}
    )
    assert cluster.helm("uninstall", RELEASE, "--namespace", SYSTEM).returncode == 0
    refused = cluster.upgrade("other", namespace=SYSTEM, values=values(one))
    assert refused.returncode != 0
    assert f"belong to release {RELEASE} in namespace {SYSTEM}. If that operator still runs" in refused.stderr
    obey(cluster, refused.stderr)
    done = cluster.upgrade("other", namespace=SYSTEM, values=values(one))
    assert done.returncode == 0, done.stderr
    assert cluster.names("tcomp", one) == {"tablecompaction.compaction.dev/kept"}


def test_the_api_server_accepts_network_policies(cluster: Cluster, tenants: tuple[str, str]) -> None:
    chosen = {"networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {}}]}}
    done = cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(*tenants) | chosen)
    assert done.returncode == 0, done.stderr
    for namespace in tenants:
        assert cluster.names("networkpolicies", namespace) == {"networkpolicy.networking.k8s.io/compaction-driver"}
    assert cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(*tenants)).returncode == 0
    assert cluster.names("networkpolicies", tenants[0]) == set()


def test_a_second_release_in_one_namespace_is_refused(cluster: Cluster, tenants: tuple[str, str]) -> None:
    """Operators are told apart by their namespaces."""
    one, two = tenants
    assert cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(one)).returncode == 0
    second = values(two) | {"crds": {"install": False}}
    refused = cluster.upgrade("other", namespace=SYSTEM, values=second)
    assert f"namespace {SYSTEM} has the operator of release {RELEASE} already" in refused.stderr
    assert cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(one)).returncode == 0


def test_a_release_takes_crds_that_kubectl_made(cluster: Cluster, tenants: tuple[str, str]) -> None:
    """Those of an operator that was installed with kustomize before."""
    cluster.plane.kubectl("apply", "-k", str(CHART.parents[1] / "crds"))
    refused = cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(tenants[0]))
    assert "belong to no release of Helm. If that operator" in refused.stderr
    obey(cluster, refused.stderr)
    done = cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(tenants[0]))
    assert done.returncode == 0, done.stderr


def test_the_documented_removal_leaves_nothing(cluster: Cluster, tenants: tuple[str, str]) -> None:
    """After the release only the CRDs stay, after the page's next command no object of any kind."""
    assert cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(*tenants)).returncode == 0
    assert len(labelled(cluster)) > 10
    assert cluster.helm("uninstall", RELEASE, "--namespace", SYSTEM).returncode == 0
    assert {name.partition("/")[0] for name in labelled(cluster)} == {CRD}
    page = (CHART.parents[1] / "docs" / "lifecycle.md").read_text()
    (command,) = re.findall(r"^ *kubectl (delete crd .*)$", page, re.MULTILINE)
    cluster.plane.kubectl(*command.split())
    assert labelled(cluster) == []


def labelled(cluster: Cluster) -> list[str]:
    """Return all objects of the cluster that have the operator's label."""
    kinds = cluster.plane.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    chosen = ("-l", "app.kubernetes.io/name=compaction-operator", "-A", "-o", "name", "--ignore-not-found")
    return cluster.plane.kubectl("get", ",".join(kinds), *chosen).split()


def obey(cluster: Cluster, message: str) -> None:
    """Run the commands that a refusal says."""
    commands = re.findall(r"^kubectl (.*)$", message, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        cluster.plane.kubectl(*command.split())


@pytest.mark.parametrize("kind", ["warehouses", "profiles"])
def test_two_of_one_name_are_refused(kind: str) -> None:
    """The operator would serve the first of them only."""
    given = values("a") | {"profiles": [{"name": "default"}]}
    given[kind] = given[kind] * 2
    command = [
        str(binaries() / "helm"),
        "template",
        RELEASE,
        str(CHART),
        "--set-json",
        f"{kind}={json.dumps(given[kind])}",
    ]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert f"{kind}: two have the name {given[kind][0]['name']}" in refused.stderr
