"""What each account, and users with Kubernetes' own roles, may do once the chart is installed."""

import subprocess

import pytest
from sandbox.harness.chart import CHART

from .conftest import CLEANUPS, COMPACTIONS, RELEASE, SYSTEM, TENANT, Cluster, values


def rights(cluster: Cluster, user: str, resource: str) -> set[str]:
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
    return {verb for verb in verbs if cluster.may(user, verb, resource, namespace=TENANT)}


def test_who_may_edit_a_namespace_does_not_approve_deletions(installed: Cluster) -> None:
    """An administrator of the namespace does. No user writes a journal."""
    look = {"get", "list", "watch"}
    assert rights(installed, "view", CLEANUPS) == look
    assert rights(installed, "edit", CLEANUPS) == look | {"delete", "deletecollection"}
    assert rights(installed, "admin", CLEANUPS) == look | {"delete", "deletecollection", "patch", "update"}
    assert rights(installed, "view", COMPACTIONS) == look
    change = {"create", "update", "patch", "delete", "deletecollection"}
    assert rights(installed, "edit", COMPACTIONS) == rights(installed, "admin", COMPACTIONS) == look | change


def test_a_driver_has_no_right_on_what_is_not_its_own_kind(installed: Cluster) -> None:
    """Neither on claims, services and config maps, which Spark would delete by label, nor in any other namespace."""
    driver = f"system:serviceaccount:{TENANT}:compaction-driver"
    for resource in ("configmaps", "services", "persistentvolumeclaims", "secrets", "jobs.batch"):
        assert rights(installed, driver, resource) == set()
    assert rights(installed, driver, CLEANUPS) == {"create", "get"}
    assert rights(installed, driver, "pods") == {
        "create", "get", "list", "watch", "delete", "deletecollection", "patch",
    }  # fmt: skip
    assert not installed.may(driver, "list", "pods", namespace=SYSTEM)


def test_a_controller_has_its_own_lease_and_no_other(installed: Cluster) -> None:
    """In its own namespace only. Drivers have those of Hudi tables, in theirs."""
    controller = f"system:serviceaccount:{SYSTEM}:{RELEASE}"
    lease = "leases.coordination.k8s.io"
    assert rights(installed, controller, lease) == set()
    own = {
        (verb, name)
        for verb in ("get", "list", "create", "update", "patch", "delete")
        for name in (RELEASE, "another")
        if installed.may(controller, verb, lease, namespace=SYSTEM, name=name)
    }
    assert own == {("get", RELEASE), ("update", RELEASE), ("create", RELEASE), ("create", "another")}


def test_helms_test_is_a_pod_under_the_restricted_profile(installed: Cluster) -> None:
    """The API server itself checks it."""
    installed.plane.kubectl("create", "serviceaccount", "default", "-n", TENANT)
    only = ("--namespace", TENANT, "--show-only", "templates/tests/reach.yaml")
    pod = installed.helm("template", RELEASE, str(CHART), *only, values=values(TENANT))
    assert pod.returncode == 0, pod.stderr
    installed.plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=pod.stdout)
    privileged = pod.stdout.replace("runAsNonRoot: true", "runAsNonRoot: false")
    with pytest.raises(subprocess.CalledProcessError):
        installed.plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=privileged, quiet=True)
