"""TableCompactions and CompactionCleanups as a user sees them: applied, waited for, looked at."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from compaction_operator.api.cleanup import LABEL_COMPACTION_UID, CompactionCleanupSpec, CompactionCleanupStatus
from compaction_operator.api.compaction import TableCompactionStatus
from compaction_operator.api.conditions import Condition, ConditionStatus, find_condition
from compaction_operator.api.model import GROUP, VERSION
from sandbox.harness.cluster import Cluster
from sandbox.harness.settings import WAREHOUSE
from sandbox.harness.tables import HiveTable, HudiTable
from sandbox.harness.wait import wait_until

SMALL_SPARK = {"driver": {"cores": 1, "memory": "512m"}}
ONE_EXECUTOR = {**SMALL_SPARK, "executors": {"instances": 1, "cores": 1, "memory": "512m"}}
"""It lets Spark do even the smallest work, which a driver otherwise does itself."""
EXECUTORS = "spark-role=executor"
"""The label of the pods of all executors."""


class UnexpectedEndError(AssertionError):
    """A compaction that ended otherwise than it was expected to."""


def manifest(name: str, table: HiveTable | HudiTable, type_: str, **spec: Any) -> dict[str, Any]:
    """Return a TableCompaction of a table in the warehouse `main`.

    Further fields of the spec are given as they are written in YAML.
    """
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "TableCompaction",
        "metadata": {"name": name},
        "spec": {
            "warehouse": WAREHOUSE,
            "table": table.reference,
            "type": type_,
            "spark": SMALL_SPARK,
            **spec,
        },
    }


class Compactions:
    """The compactions and cleanups of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self.namespace = namespace

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Apply TableCompactions to the namespace."""
        self._cluster.apply(
            *({**one, "metadata": {**one["metadata"], "namespace": self.namespace}} for one in manifests)
        )

    def table(self) -> str:
        """Return what `kubectl get tcomp,ccl` prints."""
        return self._cluster.kubectl("get", "tcomp,ccl", "-n", self.namespace)

    def delete_all(self) -> None:
        """Delete all compactions and cleanups and wait until they are gone."""
        self._cluster.kubectl("delete", "tcomp,ccl", "--all", "-n", self.namespace, "--timeout=60s")

    def status(self, name: str) -> TableCompactionStatus:
        """Return a compaction's status."""
        return TableCompactionStatus.model_validate(self._get("tcomp", name).get("status") or {})

    def cleanups(self, name: str) -> list[str]:
        """Return the names of the cleanups of a compaction."""
        uid = self._get("tcomp", name)["metadata"]["uid"]
        found = self._cluster.get_all("ccl", namespace=self.namespace, selector=f"{LABEL_COMPACTION_UID}={uid}")
        return sorted(cleanup["metadata"]["name"] for cleanup in found)

    def journal(self, cleanup: str) -> CompactionCleanupSpec:
        """Return what a cleanup was told to delete."""
        return CompactionCleanupSpec.model_validate(self._get("ccl", cleanup)["spec"])

    def cleanup_status(self, cleanup: str) -> CompactionCleanupStatus:
        """Return how far a cleanup is."""
        return CompactionCleanupStatus.model_validate(self._get("ccl", cleanup).get("status") or {})

    def wait_executor(self, *, timeout: float = 360.0) -> None:
        """Wait until some compaction's executor pod runs."""
        wait_until(self._executors, timeout=timeout, what="an executor pod")

    def _executors(self) -> bool:
        pods = self._cluster.get_all("pod", namespace=self.namespace, selector=EXECUTORS)
        return any(pod["status"].get("phase") == "Running" for pod in pods)

    def wait_succeeded(self, name: str, *, timeout: float = 360.0) -> TableCompactionStatus:
        """Return a compaction's status once it has succeeded; raises UnexpectedEndError when it failed for good."""
        return self.wait_ended(name, expected=ConditionStatus.TRUE, timeout=timeout)

    def wait_failed(self, name: str, *, timeout: float = 360.0) -> TableCompactionStatus:
        """Return a compaction's status once it has failed for good; raises UnexpectedEndError when it succeeded."""
        return self.wait_ended(name, expected=ConditionStatus.FALSE, timeout=timeout)

    def wait_ended(self, name: str, *, expected: ConditionStatus, timeout: float) -> TableCompactionStatus:
        """Return a compaction's status once its Succeeded condition is True or False for good, as expected."""
        status = wait_until(lambda: self._ended(name), timeout=timeout, what=f"tcomp/{name} to end")
        verdict = _succeeded(status.conditions)
        if verdict is None or verdict.status is not expected:
            raise UnexpectedEndError(f"tcomp/{name} ended: {describe(verdict)}")
        return status

    def wait_cleaned(self, cleanup: str, *, timeout: float = 120.0) -> CompactionCleanupStatus:
        """Return a cleanup's status once all it may delete is deleted."""
        return self.wait_cleanup(cleanup, lambda status: _is_true(status, "Succeeded"), "to succeed", timeout=timeout)

    def wait_blocked(self, cleanup: str, *, timeout: float = 120.0) -> CompactionCleanupStatus:
        """Return a cleanup's status once it names the readers it waits for."""
        return self.wait_cleanup(cleanup, lambda status: status.blocker_count > 0, "to name readers", timeout=timeout)

    def wait_cleanup(
        self, cleanup: str, predicate: Callable[[CompactionCleanupStatus], bool], what: str, *, timeout: float
    ) -> CompactionCleanupStatus:
        """Return a cleanup's status once the predicate holds for it."""

        def found() -> CompactionCleanupStatus | None:
            status = self.cleanup_status(cleanup)
            return status if predicate(status) else None

        return wait_until(found, timeout=timeout, what=f"ccl/{cleanup} {what}")

    def _ended(self, name: str) -> TableCompactionStatus | None:
        status = self.status(name)
        return status if status.completion_time else None

    def _get(self, kind: str, name: str) -> dict[str, Any]:
        found = self._cluster.get(kind, name, namespace=self.namespace)
        if found is None:
            raise LookupError(f"{kind}/{name} is not in namespace {self.namespace}")
        return found


def describe(condition: Condition | None) -> str:
    """Return a condition as one line."""
    return f"{condition.status} {condition.reason}: {condition.message}" if condition else "no Succeeded condition"


def _succeeded(conditions: Iterable[Condition]) -> Condition | None:
    return find_condition(conditions, "Succeeded")


def _is_true(status: CompactionCleanupStatus, type_: str) -> bool:
    condition = find_condition(status.conditions, type_)
    return condition is not None and condition.status is ConditionStatus.TRUE
