"""On a plane whose controller has rights in single namespaces only: it works there, and hears of no other."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import pytest
from sandbox.harness.expected import AFTER_INSERTS_MINOR
from sandbox.harness.namespaces import restricted_namespace
from sandbox.harness.wait import wait_until
from sandbox.plane import Plane
from sandbox.plane.install import CONTROLLER_ACCOUNT, NAMESPACE, SYSTEM_NAMESPACE

from compaction_operator.api import compaction as api
from compaction_operator.api.model import GROUP, VERSION
from tests.integration.metastore.fixture_table import FixtureTable, inserted

LATE, ELSEWHERE = "late", "elsewhere"
VALUES = {"watch": "Namespaces", "rbac": {"aggregateClusterRoles": False}}
SECONDS = 200.0
"""What a step may take here: how fast the machine is is not asked. A watch lasts for a minute."""
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane whose warehouse also lists a namespace that does not exist; of `elsewhere` it knows nothing."""
    warehouse = {"namespaces": [NAMESPACE, LATE]}
    with Plane(tmp_path_factory.mktemp("plane"), spark=False, values=VALUES, warehouse=warehouse) as made:
        made.control.create(restricted_namespace(ELSEWHERE))
        yield made


@pytest.fixture
def table(plane: Plane) -> Iterator[FixtureTable]:
    with inserted(plane.admin(), plane.metastore, f"single{next(_numbers)}") as made:
        yield made


def require_the_whole_way(plane: Plane, table: FixtureTable) -> None:
    """A compaction has its Job, and its cleanup deletes what is obsolete."""
    name = plane.compact(f"{table.database}.{table.name}", "Minor", cleanup={"gracePeriod": "0s"})
    assert plane.wait_ended(name, timeout=SECONDS).status.attempt == 1
    assert plane.wait_cleaned(name, timeout=SECONDS)
    assert frozenset(table.names()) == AFTER_INSERTS_MINOR
    assert [one["reason"] for one in plane.events(name)]


def create(plane: Plane, name: str, namespace: str) -> None:
    """Create a compaction of a table that does not exist."""
    spec = {"warehouse": "main", "table": {"database": "nowhere", "name": "t"}, "type": "Minor"}
    metadata = {"name": name, "namespace": namespace}
    plane.control.create({"apiVersion": f"{GROUP}/{VERSION}", "kind": api.KIND, "metadata": metadata, "spec": spec})


def status(plane: Plane, name: str, namespace: str) -> dict[str, Any]:
    custom = kubernetes.client.CustomObjectsApi(plane.client())
    raw = custom.get_namespaced_custom_object(GROUP, VERSION, namespace, api.PLURAL, name)
    found: dict[str, Any] = raw.get("status", {})
    return found


def log(plane: Plane) -> str:
    return Path(plane.controller.log).read_text()


def wait_for_log(plane: Plane, line: str, *, times: int = 1) -> None:
    wait_until(lambda: log(plane).count(line) >= times, timeout=SECONDS, what=line)


def wait_judged(plane: Plane, name: str, namespace: str) -> None:
    failed = lambda: status(plane, name, namespace).get("phase") == "Failed"  # noqa: E731
    wait_until(failed, timeout=SECONDS, what=f"tcomp/{name} in {namespace} to be judged")


def may_list(plane: Plane, namespace: str) -> bool:
    account = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}"
    asked = {"verb": "list", "group": GROUP, "resource": api.PLURAL, "namespace": namespace}
    body = {"spec": {"user": account, "resourceAttributes": asked}}
    reviews = kubernetes.client.AuthorizationV1Api(plane.client())
    return bool(reviews.create_subject_access_review(body).status.allowed)


def test_it_works_where_it_has_rights_and_hears_of_nothing_else(plane: Plane, table: FixtureTable) -> None:
    """A namespace that is not there is named once, and holds nothing up. Nothing in the log is an error."""
    create(plane, "unheard", ELSEWHERE)
    require_the_whole_way(plane, table)
    assert [may_list(plane, one) for one in (NAMESPACE, ELSEWHERE, "")] == [True, False, False]
    assert status(plane, "unheard", ELSEWHERE) == {}
    said = log(plane)
    assert said.count(f"namespace {LATE} is not served now: 403 Forbidden: ") == 1
    assert ELSEWHERE not in said
    assert not [line for line in said.splitlines() if "ERROR" in line or "Traceback" in line]


def test_a_namespace_that_gets_its_rights_is_served_without_a_restart(plane: Plane, table: FixtureTable) -> None:
    """It loses them again after they were taken away, and gets them back. Others go on meanwhile."""
    plane.control.create(restricted_namespace(LATE))
    create(plane, "early", LATE)
    assert status(plane, "early", LATE) == {}
    plane.control.create(*plane.installed.later)
    wait_judged(plane, "early", LATE)
    wait_for_log(plane, f"namespace {LATE} is served again")
    (binding,) = (
        one
        for one in plane.installed.later
        if (one["kind"], one["metadata"]["name"]) == ("RoleBinding", CONTROLLER_ACCOUNT)
    )
    plane.control.kubectl("delete", "rolebinding", CONTROLLER_ACCOUNT, "-n", LATE)
    wait_for_log(plane, f"namespace {LATE} is not served now", times=2)
    create(plane, "unseen", LATE)
    require_the_whole_way(plane, table)
    assert status(plane, "unseen", LATE) == {}
    plane.control.create(binding)
    wait_judged(plane, "unseen", LATE)
    assert plane.controller.running
    assert not [line for line in log(plane).splitlines() if "ERROR" in line or "Traceback" in line]
