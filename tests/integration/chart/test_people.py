"""The command line on a real API server, by users with Kubernetes' own roles: what they see and may change."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import kubernetes
import pytest
import yaml

from compaction_operator.api.compaction import ANNOTATION_OPERATOR
from compaction_operator.api.config import Metastore, OperatorConfig, SparkProfile, Volume, Warehouse
from compaction_operator.api.stores import Secret
from compaction_operator.cli.cluster import Cluster as Access
from compaction_operator.cli.tenant_checks import check_tenants
from compaction_operator.controller.kube.client import ConflictError
from tests.unit.cli.test_changes import ASKS, NOON
from tests.unit.cli.test_standing import ALICE, BASELINE, condition
from tests.unit.controller.sandbox import cleanup_raw, compaction_raw
from tests.unit.controller.test_policies import policy_raw
from tests.unit.test_cli import verb

from .conftest import SYSTEM, TENANT, USERS, Cluster

WAITING = {
    "conditions": [condition("ReadersFromBefore", message="waiting for lock 4")],
    "phase": "WaitingForReaders",
    "baseline": BASELINE,
    "blockers": [ALICE],
    "blockerCount": 1,
}
APPROVAL = {**ASKS, "listedTime": NOON, "baseline": BASELINE}


@pytest.fixture(scope="module")
def kubeconfig(installed: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig with a context for a service account with each of the roles; the current one is `view`."""
    plane = installed.plane
    admin = yaml.safe_load(plane.kubeconfig.read_text())
    contexts, users = [], []
    for role in USERS:
        plane.kubectl("create", "serviceaccount", role, "-n", TENANT)
        account = f"--serviceaccount={TENANT}:{role}"
        plane.kubectl("create", "rolebinding", f"{role}-account", "-n", TENANT, f"--clusterrole={role}", account)
        token = plane.kubectl("create", "token", role, "-n", TENANT).strip()
        users.append({"name": role, "user": {"token": token}})
        context = {"cluster": admin["clusters"][0]["name"], "user": role, "namespace": TENANT}
        contexts.append({"name": role, "context": context})
    path = tmp_path_factory.mktemp("users") / "kubeconfig"
    path.write_text(yaml.safe_dump({**admin, "users": users, "contexts": contexts, "current-context": "view"}))
    return path


@pytest.fixture
def resources(installed: Cluster, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Give the cluster with a compaction, a policy, and cleanups that wait for a reader and for approval."""
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
    monkeypatch.setattr(kubernetes.client.Configuration, "_default", None)
    reads, asks = cleanup_raw("reads"), cleanup_raw("asks", mode="Plan")
    for raw, status in (
        (compaction_raw("nightly"), {"conditions": [condition("Running")], "phase": "Running"}),
        (policy_raw(), {}),
        (reads, WAITING),
        (asks, APPROVAL),
    ):
        made = {**raw, "metadata": {"name": raw["metadata"]["name"], "namespace": TENANT}}
        installed.plane.create(made)
        where = (raw["kind"].lower(), raw["metadata"]["name"], "-n", TENANT, "--subresource=status", "--type=merge")
        installed.plane.kubectl("patch", *where, "-p", json.dumps({"status": status}))
    yield installed
    for kind in ("tcomp", "ccl", "tcp"):
        installed.plane.kubectl("delete", kind, "--all", "-n", TENANT)


def spec_of(cluster: Cluster, kind: str, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(cluster.plane.kubectl("get", kind, name, "-n", TENANT, "-o", "json"))["spec"]
    return found


def test_who_may_view_a_namespace_sees_what_waits_there_and_for_whom(resources: Cluster) -> None:
    done = verb("status")
    assert (done.returncode, done.stderr) == (0, f"you may not list all namespaces; this is {TENANT} alone\n")
    assert done.stdout.splitlines()[-1] == "1 running, 2 waiting, 0 failed, 0 succeeded"
    asked = verb("status", f"{TENANT}/", "sales.orders", "--json")
    names = {(one["kind"], one["name"], one["state"]) for one in json.loads(asked.stdout)}
    assert names == {
        ("TableCompaction", "nightly", "Running"),
        ("CompactionCleanup", "reads", "Waiting"),
        ("CompactionCleanup", "asks", "Waiting"),
    }
    why = verb("why", "ccl/reads")
    assert "waits for   lock 4 (transaction 7) of alice@etl-7" in why.stdout
    elsewhere = verb("status", f"{SYSTEM}/")
    assert (elsewhere.returncode, elsewhere.stdout) == (1, "")
    assert "403 Forbidden" in elsewhere.stderr


def test_only_an_administrator_of_the_namespace_approves(resources: Cluster) -> None:
    for user in ("view", "edit"):
        refused = verb("approve", "ccl/asks", "--context", user)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "403 Forbidden" in refused.stderr
    assert not spec_of(resources, "ccl", "asks").get("approved")
    done = verb("approve", "ccl/asks", "--context", "admin")
    assert (done.returncode, done.stderr) == (0, "")
    assert spec_of(resources, "ccl", "asks")["approved"] is True
    again = verb("approve", "ccl/asks", "--context", "admin")
    assert (again.returncode, "approved already" in again.stderr) == (1, True)
    assert "its mode is Auto" in verb("approve", "ccl/reads", "--context", "admin").stderr


@pytest.mark.parametrize(("name", "user"), [("tcomp/nightly", "edit"), ("tcp/keep", "edit"), ("ccl/reads", "admin")])
def test_each_kind_is_suspended_and_resumed(resources: Cluster, name: str, user: str) -> None:
    kind, _, plain = name.partition("/")
    before = spec_of(resources, kind, plain)
    assert verb("suspend", name, "--context", user).returncode == 0
    assert spec_of(resources, kind, plain) == {**before, "suspend": True}
    assert verb("resume", name, "--context", user).returncode == 0
    assert spec_of(resources, kind, plain) == {**before, "suspend": False}


def test_another_object_of_the_same_name_is_not_changed(resources: Cluster) -> None:
    """It was created after this one was read, and no user has looked at it."""
    access = Access("admin")
    raw = access.get("CompactionCleanup", TENANT, "asks")
    resources.plane.kubectl("delete", "ccl", "asks", "-n", TENANT)
    resources.plane.create({**cleanup_raw("asks", mode="Plan"), "metadata": {"name": "asks", "namespace": TENANT}})
    with pytest.raises(ConflictError, match="tenant/asks is another object than was read"):
        access.change("CompactionCleanup", raw, {"approved": True})
    assert not spec_of(resources, "ccl", "asks").get("approved")


def test_what_a_removed_operator_has_created_is_freed_by_the_advised_command(resources: Cluster) -> None:
    resources.plane.kubectl("annotate", "tcomp", "nightly", "-n", TENANT, f"{ANNOTATION_OPERATOR}=gone")
    (step, *_) = json.loads(verb("why", "tcomp/nightly", "--json").stdout)["steps"]
    resources.plane.kubectl(*shlex.split(step.rpartition(", or: kubectl ")[2]))
    access = Access("view")
    assert ANNOTATION_OPERATOR not in access.get("TableCompaction", TENANT, "nightly")["metadata"].get(
        "annotations", {}
    )
    assert not any("takeOver" in step for step in json.loads(verb("why", "tcomp/nightly", "--json").stdout)["steps"])


def test_who_may_read_them_learns_what_a_namespace_lacks(resources: Cluster) -> None:
    """The role `view` has no right to read secrets. Who has it gets nothing of their content."""
    resources.plane.kubectl("create", "secret", "generic", "login", "-n", TENANT, "--from-literal=key=word")
    volume = Volume(claim_name="lake", mount_path="/w")
    metastore = Metastore(uris=("thrift://hive:9083",), secret=Secret(name="login", mount_path="/login"))
    main = Warehouse(name="main", metastore=metastore, namespaces=(TENANT,), volume=volume)
    config = OperatorConfig(warehouses=(main,), profiles=(SparkProfile(name="default", image="x"),))
    shared = [
        ("failed", f"claim lake is missing in namespace {TENANT}"),
        ("ok", f"service account compaction-driver is in namespace {TENANT}"),
    ]
    unread = f"kubeconfig's account may not read, so not checked: secret login in namespace {TENANT}"
    for role, last in ("view", ("warning", unread)), ("admin", ("ok", f"secret login is in namespace {TENANT}")):
        assert [(one.level, one.message) for one in check_tenants(Access(role), config)] == [*shared, last]
    found = Access("admin").look_up("secrets", TENANT, "login")
    assert found is not None
    assert (found["kind"], "data" in found) == ("PartialObjectMetadata", False)
    resources.plane.kubectl("delete", "secret", "login", "-n", TENANT)
