"""Pod settings shared by drivers and executors: the restricted security profile and the volumes."""

from typing import Any

from compaction_operator.api.config import Metastore, Volume
from compaction_operator.api.stores import Secret

USER_ID = 185
"""The uid and gid under which metastore, controller, drivers and executors share the warehouse's files."""
SECRET_MODE = 0o440
"""Only the pod's user and group may read keys and tokens."""


def pod_security() -> dict[str, Any]:
    """Return a pod's security context under the restricted profile."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        # Do not walk a warehouse to change the group of its files: it may have millions of them.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, Any]:
    """Return a container's security context under the restricted profile."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def volumes(warehouse: Volume | None, secret: Secret | None = None) -> list[dict[str, Any]]:
    """Return a pod's volumes: scratch space and, if given, the warehouse's claim and the metastore's secret."""
    found: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}]
    if warehouse:
        found.append({"name": "warehouse", "persistentVolumeClaim": {"claimName": warehouse.claim_name}})
    if secret:
        found.append({"name": "metastore", "secret": {"secretName": secret.name, "defaultMode": SECRET_MODE}})
    return found


def volume_mounts(warehouse: Volume | None, secret: Secret | None = None) -> list[dict[str, Any]]:
    """Return a container's mounts of the same volumes."""
    mounts: list[dict[str, Any]] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - the pod's own
    if warehouse:
        mounts.append({"name": "warehouse", "mountPath": warehouse.mount_path})
    if secret:
        mounts.append({"name": "metastore", "mountPath": secret.mount_path, "readOnly": True})
    return mounts


def metastore_environment(metastore: Metastore) -> list[dict[str, Any]]:
    """Return the environment of the connection libraries: KRB5_CONFIG, if Kerberos has a configuration file."""
    file = metastore.kerberos and metastore.kerberos.config_file
    return [{"name": "KRB5_CONFIG", "value": file}] if file else []
