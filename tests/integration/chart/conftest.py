"""A control plane without a node, on which Helm installs the chart: all but the pods is real."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import kubernetes
import pytest
from sandbox.harness.chart import CHART
from sandbox.harness.namespaces import restricted_namespace
from sandbox.harness.wait import wait_until
from sandbox.plane.control import ControlPlane, binaries

from tests.support.profiles import EVERYTHING

SYSTEM = "compaction-system"
RELEASE = "compaction-operator"
TENANT = "tenant"
SINGLE_SYSTEM, SINGLE_TENANT = "single-system", "single-tenant"
SINGLE = {"watch": "Namespaces", "rbac": {"aggregateClusterRoles": False}, "crds": {"install": False}}
"""Values of a release that has nothing outside of its namespaces."""
PLATFORM = "platform"
"""A user with all rights in these two namespaces, and none in the cluster."""
USERS = ("view", "edit", "admin")
CLEANUPS, COMPACTIONS = "compactioncleanups.compaction.dev", "tablecompactions.compaction.dev"
CONTROLLERS = ("namespace-controller", "clusterrole-aggregation-controller")


def values(*namespaces: str, name: str = "main") -> dict[str, Any]:
    """Return values with a warehouse for some namespaces."""
    metastore = {"uris": ["thrift://hive:9083"]}
    return {"warehouses": [{"name": name, "metastore": metastore, "namespaces": namespaces, "locations": ["/w"]}]}


def require_within(expected: Any, found: Any, where: str = "") -> None:
    """Check that an object has all that is expected, among more: the entries of a map, and the items of a list."""
    if isinstance(expected, Mapping):
        for name, part in expected.items():
            assert name in found or part in ({}, False), f"{where}.{name} is missing"
            require_within(part, found.get(name, part), f"{where}.{name}")
    elif isinstance(expected, list) and expected and isinstance(expected[0], Mapping) and "name" in expected[0]:
        named = {one["name"]: one for one in found}
        for part in expected:
            assert part["name"] in named, f"{where}: {part['name']} is missing"
            require_within(part, named[part["name"]], f"{where}[{part['name']}]")
    elif isinstance(expected, list):
        assert [one for one in expected if one not in found] == [], where
    else:
        assert found == expected, where


def require_classes(cluster: "Cluster") -> None:
    """Make the classes that `EVERYTHING` names, if they are not there: the API server looks them up."""
    kinds: dict[str, tuple[str, str, str, dict[str, Any]]] = {
        "priorityclass": ("scheduling.k8s.io/v1", "PriorityClass", EVERYTHING["priorityClassName"], {"value": -10}),
        "runtimeclass": ("node.k8s.io/v1", "RuntimeClass", EVERYTHING["runtimeClassName"], {"handler": "runsc"}),
    }
    for kind, (version, name, made, fields) in kinds.items():
        if not cluster.plane.kubectl("get", kind, made, "--ignore-not-found", "-o", "name"):
            cluster.plane.create({"apiVersion": version, "kind": name, "metadata": {"name": made}, **fields})


@dataclass(frozen=True)
class Cluster:
    """A control plane, and Helm on it."""

    plane: ControlPlane

    def helm(self, *arguments: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        """Run Helm and return how it ended; with `values` as the chart's."""
        command = [str(binaries() / "helm"), "--kubeconfig", str(self.plane.kubeconfig), *arguments]
        given = None if values is None else json.dumps(values)
        command += [] if values is None else ["--values", "-"]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=120)

    def upgrade(self, release: str, *, namespace: str, values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
        """Install or upgrade a release of the chart."""
        where = ("--namespace", namespace, "--create-namespace")
        return self.helm("upgrade", "--install", release, str(CHART), *where, values=values)

    def names(self, kind: str, namespace: str) -> set[str]:
        """Return the names of all objects of a kind in a namespace."""
        return set(self.plane.kubectl("get", kind, "-n", namespace, "-o", "name").split())

    def may(self, user: str, verb: str, resource: str, *, namespace: str, name: str | None = None) -> bool:
        """Whether a user has a right on a resource, which is given as `jobs.batch`, or on the one of that name."""
        plural, _, group = resource.partition(".")
        asked = {"verb": verb, "group": group, "resource": plural, "namespace": namespace, "name": name}
        body = {"spec": {"user": user, "resourceAttributes": asked}}
        reviews = kubernetes.client.AuthorizationV1Api(self.plane.client())
        return bool(reviews.create_subject_access_review(body).status.allowed)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give an empty cluster that runs no pods, one for all tests."""
    plane = ControlPlane(tmp_path_factory.mktemp("plane"), controllers=CONTROLLERS)
    try:
        plane.launch()
        plane.await_ready()
        yield Cluster(plane)
    finally:
        plane.stop()


@pytest.fixture(autouse=True, scope="session")
def helms_own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep Helm's cache and settings out of the user's."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("CACHE", "CONFIG", "DATA"):
            patch.setitem(os.environ, f"HELM_{kind}_HOME", str(tmp_path_factory.mktemp(f"helm-{kind.lower()}")))
        yield


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """Give the cluster with a release, and with a user for each of the roles that Kubernetes has for namespaces."""
    cluster.plane.create(restricted_namespace(TENANT))
    done = cluster.upgrade(RELEASE, namespace=SYSTEM, values=values(TENANT))
    assert done.returncode == 0, done.stderr
    cluster.plane.kubectl("wait", "--for=condition=Established", f"crd/{CLEANUPS}", f"crd/{COMPACTIONS}")
    for role in USERS:
        cluster.plane.kubectl("create", "rolebinding", role, "-n", TENANT, f"--clusterrole={role}", f"--user={role}")
    wait_until(lambda: cluster.may("admin", "patch", CLEANUPS, namespace=TENANT), timeout=60, what="aggregated roles")
    yield cluster
    cluster.helm("uninstall", RELEASE, "--namespace", SYSTEM)
    cluster.plane.kubectl("delete", "namespace", TENANT)
    cluster.plane.kubectl("delete", *cluster.plane.kubectl("get", "crd", "-o", "name").split())


@pytest.fixture(scope="module")
def single(installed: Cluster) -> Iterator[Cluster]:
    """Give the cluster with one more release, which a user has installed who has no right in the cluster."""
    for namespace in (SINGLE_SYSTEM, SINGLE_TENANT):
        installed.plane.create(restricted_namespace(namespace))
        given = ("--clusterrole=cluster-admin", f"--user={PLATFORM}")
        installed.plane.kubectl("create", "rolebinding", PLATFORM, "-n", namespace, *given)
    where = ("--namespace", SINGLE_SYSTEM, "--kube-as-user", PLATFORM)
    chosen = values(SINGLE_TENANT) | SINGLE
    for _ in ("install", "upgrade"):
        done = installed.helm("upgrade", "--install", RELEASE, str(CHART), *where, values=chosen)
        assert done.returncode == 0, done.stderr
    yield installed
    installed.helm("uninstall", RELEASE, "--namespace", SINGLE_SYSTEM)
    installed.plane.kubectl("delete", "namespace", SINGLE_SYSTEM, SINGLE_TENANT)
