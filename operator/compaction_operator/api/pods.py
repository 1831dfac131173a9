"""What driver and executor pods have in common: the restricted security profile, and the volumes."""

from typing import Any

from compaction_operator.api.config import Volume

USER_ID = 185
"""The uid and gid under which metastore, controller, drivers and executors share the warehouse's files."""


def pod_security() -> dict[str, Any]:
    """Return a pod's security context under the restricted profile."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        # A warehouse has millions of files: they are never walked to change their group.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, Any]:
    """Return a container's security context under the restricted profile."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def volumes(warehouse: Volume | None) -> list[dict[str, Any]]:
    """Return a pod's volumes: scratch space, and the warehouse's claim if it has one."""
    found: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}]
    if warehouse:
        found.append({"name": "warehouse", "persistentVolumeClaim": {"claimName": warehouse.claim_name}})
    return found


def volume_mounts(warehouse: Volume | None) -> list[dict[str, Any]]:
    """Return where a container sees those volumes."""
    mounts = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - the pod's own
    if warehouse:
        mounts.append({"name": "warehouse", "mountPath": warehouse.mount_path})
    return mounts
