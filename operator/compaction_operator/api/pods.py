"""Pod settings shared by drivers and executors: the restricted security profile, the volumes and the environment."""

import json
from dataclasses import dataclass
from typing import Any

from compaction_operator.api.config import SparkProfile, Warehouse
from compaction_operator.api.stores import STORES_VARIABLE

USER_ID = 185
"""The uid and gid under which metastore, controller, drivers and executors share the warehouse's files."""
SECRET_MODE = 0o440
"""Only the pod's user and group may read keys and tokens."""
HADOOP_VARIABLE = "HADOOP_CONF_DIR"
"""Environment variable by which Java's Hadoop and hdfs-native find core-site.xml and hdfs-site.xml."""
KERBEROS_VARIABLE = "KRB5_CONFIG"
"""Environment variable by which MIT's Kerberos finds its configuration."""


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


@dataclass(frozen=True)
class _Mount:
    name: str
    path: str
    source: dict[str, Any]
    writable: bool = False


def volumes(warehouse: Warehouse, profile: SparkProfile, *, metastore: bool) -> list[dict[str, Any]]:
    """Return a pod's volumes: scratch space, the claim, Hadoop's configuration and the secrets of its warehouse, and
    those of its profile.

    With `metastore` also the secret with which the metastore is reached: executors do not have it.
    """
    own = [{"name": mount.name} | mount.source for mount in _mounts(warehouse, metastore=metastore)]
    return [*own, *(volume.to_json() for volume in profile.volumes)]


def volume_mounts(warehouse: Warehouse, profile: SparkProfile, *, metastore: bool) -> list[dict[str, Any]]:
    """Return a container's mounts of the same volumes."""
    own = [
        {"name": mount.name, "mountPath": mount.path} | ({} if mount.writable else {"readOnly": True})
        for mount in _mounts(warehouse, metastore=metastore)
    ]
    return [*own, *(mount.to_json() for mount in profile.volume_mounts)]


def _mounts(warehouse: Warehouse, *, metastore: bool) -> list[_Mount]:
    """Return what a pod mounts, each path once: the configuration has one thing for each."""
    volume, hdfs = warehouse.volume, warehouse.stores.hdfs
    found = [_Mount("tmp", "/tmp", {"emptyDir": {}}, writable=True)]  # noqa: S108 - the pod's own
    if volume:
        claim = {"persistentVolumeClaim": {"claimName": volume.claim_name}}
        found.append(_Mount("warehouse", volume.mount_path, claim, writable=True))
    if hdfs:
        found.append(_Mount("hadoop", hdfs.mount_path, {"configMap": {"name": hdfs.config_map}}))
    secrets = warehouse.stores.secrets()
    if metastore and warehouse.metastore.secret:
        secrets = {"metastore": warehouse.metastore.secret} | secrets
    for name, secret in secrets.items():
        source = {"secret": {"secretName": secret.name, "defaultMode": SECRET_MODE}}
        found.append(_Mount(name, secret.mount_path, source))
    return list({mount.path: mount for mount in found}.values())


def pod_environment(warehouse: Warehouse, profile: SparkProfile, *, metastore: bool) -> list[dict[str, Any]]:
    """Return the environment in which a driver, or with `metastore` false an executor, reaches the warehouse's files.

    It has the settings of the stores and where Hadoop's and Kerberos's configuration lie, but nothing secret: the
    profile's variables only say where their values are.
    """
    stores = warehouse.stores
    variables = {STORES_VARIABLE: json.dumps(stores.to_json())}
    if stores.hdfs:
        variables[HADOOP_VARIABLE] = stores.hdfs.mount_path
    logins = (stores.hdfs and stores.hdfs.kerberos, warehouse.metastore.kerberos if metastore else None)
    if file := next((login.config_file for login in logins if login and login.config_file), None):
        variables[KERBEROS_VARIABLE] = file
    own = [{"name": name, "value": value} for name, value in variables.items()]
    return [*own, *(variable.to_json() for variable in profile.env)]
