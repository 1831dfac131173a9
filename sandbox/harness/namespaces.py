"""Namespaces with the warehouse's claim, and a metastore for clusters that have none."""

from typing import Any

from sandbox.cluster.running import running_sandbox
from sandbox.harness.cluster import Cluster
from sandbox.harness.settings import CLAIM, METASTORE_PORT, METASTORE_SERVICE, MOUNT, Settings

POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 185,
    "runAsGroup": 185,
    "fsGroup": 185,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
WAREHOUSE_VOLUME = {"name": "warehouse", "persistentVolumeClaim": {"claimName": CLAIM}}
WAREHOUSE_MOUNT = {"name": "warehouse", "mountPath": MOUNT}


def prepare(cluster: Cluster, settings: Settings) -> None:
    """Make the namespaces with their claims on the warehouse, and on a cluster of the user's own the metastore."""
    if settings.sandbox:
        for name in (settings.system_namespace, settings.namespace):
            running_sandbox().claim_warehouse(name, settings.storage)
        return
    cluster.apply(restricted_namespace(settings.namespace))
    if cluster.get("persistentvolumeclaim", CLAIM, namespace=settings.namespace) is None:
        cluster.apply(_claim(settings))
    cluster.apply(_metastore(settings), _metastore_service(settings))
    cluster.kubectl(
        "rollout", "status", f"deployment/{METASTORE_SERVICE}", "-n", settings.namespace, "--timeout=300s", timeout=310
    )


def restricted_namespace(name: str) -> dict[str, Any]:
    """Return a namespace that takes only pods under the restricted Pod Security Standard."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _claim(settings: Settings) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": [settings.access_mode],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if settings.storage_class is not None:
        spec["storageClassName"] = settings.storage_class
    metadata = {"name": CLAIM, "namespace": settings.namespace}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _metastore(settings: Settings) -> dict[str, Any]:
    """The metastore of the demo: its Derby database goes with its pod."""
    labels = {"app": METASTORE_SERVICE}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": METASTORE_SERVICE, "namespace": settings.namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": labels}, "spec": _metastore_pod(settings.metastore_image)},
        },
    }


def _metastore_pod(image: str) -> dict[str, Any]:
    probe = {"tcpSocket": {"port": METASTORE_PORT}, "periodSeconds": 1, "failureThreshold": 180}
    environment = {"STATE_DIR": "/state", "WAREHOUSE": f"file://{MOUNT}", "UMASK": "0002"}
    return {
        "automountServiceAccountToken": False,
        "securityContext": POD_SECURITY,
        "containers": [
            {
                "name": "metastore",
                "image": image,
                "env": [{"name": name, "value": value} for name, value in environment.items()],
                "readinessProbe": probe,
                "securityContext": CONTAINER_SECURITY,
                "volumeMounts": [WAREHOUSE_MOUNT, {"name": "state", "mountPath": "/state"}],
            }
        ],
        "volumes": [WAREHOUSE_VOLUME, {"name": "state", "emptyDir": {}}],
    }


def _metastore_service(settings: Settings) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": METASTORE_SERVICE, "namespace": settings.namespace},
        "spec": {"selector": {"app": METASTORE_SERVICE}, "ports": [{"port": METASTORE_PORT}]},
    }
