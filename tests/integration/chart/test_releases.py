"""Install, upgrade, uninstall and install again: what Helm does on a real API server."""

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sandbox.harness.chart import CHART
from sandbox.harness.namespaces import restricted_namespace
from sandbox.harness.wait import wait_until
from sandbox.plane.control import binaries

from .conftest import RELEASE, SYSTEM, Cluster, values

CRD = "customresourcedefinition.apiextensions.k8s.io"
DRIVER_ROLE = "role.rbac.authorization.k8s.io/compaction-driver"
NEW = ("new", "written")
"""The compactions that have a field which only a later release knows."""
_numbers = itertools.count(1)


@pytest.fixture
def tenants(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Give two namespaces. They, all releases and what these leave behind are gone afterwards."""
    number = next(_numbers)
    one, two = f"one-{number}", f"two-{number}"
    for name in (one, two):
        cluster.plane.create(restricted_namespace(name))
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
    cluster.plane.create(restricted_namespace(two))
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


def test_a_changed_crd_comes_and_goes_with_its_release(
    cluster: Cluster, tenants: tuple[str, str], tmp_path: Path
) -> None:
    """With the image. A rollback hides the new field. An upgrade shows it again, unless it was written meanwhile."""
    one, _ = tenants
    assert cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(one)).returncode == 0
    cluster.plane.kubectl("wait", "--for=condition=Established", "crd/tablecompactions.compaction.dev")
    spec = {"warehouse": "main", "table": {"database": "d", "name": "t"}, "type": "Major", "suspend": True}
    head = {"apiVersion": "compaction.dev/v1alpha1", "kind": "TableCompaction"}
    cluster.plane.create({**head, "metadata": {"name": "old", "namespace": one}, "spec": spec})
    newer = with_a_new_field(tmp_path / "chart")
    upgrade = ("upgrade", RELEASE, str(newer), "--namespace", SYSTEM, "--reuse-values")
    assert cluster.helm(*upgrade).returncode == 0
    noting = [{**head, "metadata": {"name": name, "namespace": one}, "spec": {**spec, "note": "kept"}} for name in NEW]
    wait_until(lambda: takes(cluster, *noting), timeout=60, what="the new field")
    assert noted(cluster, one) == {"new": "kept", "old": "", "written": "kept"}
    assert image(cluster).endswith(":9.9.9")
    assert cluster.helm("rollback", RELEASE, "1", "--namespace", SYSTEM).returncode == 0
    wait_until(lambda: not any(noted(cluster, one).values()), timeout=60, what="the old definition")
    assert not image(cluster).endswith(":9.9.9")
    cluster.plane.kubectl("label", "tcomp/written", "-n", one, "written=again")
    assert cluster.helm(*upgrade).returncode == 0
    again = {"new": "kept", "old": "", "written": ""}
    wait_until(lambda: noted(cluster, one) == again, timeout=60, what="the new field again")


def test_what_is_watched_changes_with_an_upgrade_and_back_with_a_rollback(
    cluster: Cluster, tenants: tuple[str, str]
) -> None:
    """With values that leave the CRDs to the release: what it gave up, a rollback cannot take back."""
    one, _ = tenants
    role = f"role.rbac.authorization.k8s.io/{RELEASE}-view"
    single = {"watch": "Namespaces", "rbac": {"aggregateClusterRoles": False}}
    assert cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(one)).returncode == 0
    assert len(cluster_roles(cluster)) > 1
    done = cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(one) | single)
    assert (done.returncode, cluster_roles(cluster)) == (0, set()), done.stderr
    assert role in cluster.names("role", one)
    assert cluster.helm("rollback", RELEASE, "1", "--namespace", SYSTEM).returncode == 0
    assert len(cluster_roles(cluster)) > 1
    assert role not in cluster.names("role", one)
    without = single | {"crds": {"install": False}}
    assert cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(one) | without).returncode == 0
    assert "CustomResourceDefinition" in cluster.helm("rollback", RELEASE, "1", "--namespace", SYSTEM).stderr
    done = cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(one))
    assert (done.returncode, len(cluster_roles(cluster)) > 1) == (0, True), done.stderr


def cluster_roles(cluster: Cluster) -> set[str]:
    """Return the release's ClusterRoles."""
    chosen = ("-l", f"app.kubernetes.io/instance={RELEASE}", "-o", "name")
    return set(cluster.plane.kubectl("get", "clusterroles", *chosen).split())


def with_a_new_field(folder: Path) -> Path:
    """Return a copy of the chart as a later release, whose TableCompactions have one more field."""
    shutil.copytree(CHART, folder)
    path = folder / "files" / "crds" / "compaction.dev_tablecompactions.yaml"
    crd = yaml.safe_load(path.read_text())
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["note"] = {
        "type": "string"
    }
    path.write_text(yaml.safe_dump(crd))
    chart = yaml.safe_load((folder / "Chart.yaml").read_text()) | {"version": "9.9.9", "appVersion": "9.9.9"}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(chart))
    return folder


def takes(cluster: Cluster, *manifests: dict[str, Any]) -> bool:
    """Create objects with fields that exist; return whether the API server did so."""
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    try:
        cluster.plane.kubectl("create", "--validate=strict", "-f", "-", stdin=body, quiet=True)
    except subprocess.CalledProcessError:
        return False
    return True


def noted(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Return what each compaction has in the new field, as the API server shows it."""
    found = json.loads(cluster.plane.kubectl("get", "tcomp", "-n", namespace, "-o", "json"))["items"]
    return {one["metadata"]["name"]: one["spec"].get("note", "") for one in found}


def image(cluster: Cluster) -> str:
    """Return the controller's image."""
    path = "{.spec.template.spec.containers[0].image}"
    return cluster.plane.kubectl("get", "deployment", RELEASE, "-n", SYSTEM, "-o", f"jsonpath={path}")


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
