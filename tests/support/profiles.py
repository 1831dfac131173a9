"""A Spark profile's additions to pods, all of them, in the form of Helm's values."""

from typing import Any

QUEUE = "kueue.x-k8s.io/queue-name"
MATCHES = {"matchLabels": {"app.kubernetes.io/name": "compaction-operator"}}
EVERYTHING: dict[str, Any] = {
    "nodeSelector": {"pool": "batch"},
    "tolerations": [{"key": "batch", "operator": "Exists"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "arch", "operator": "In", "values": ["amd64"]}]}]
            }
        }
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": MATCHES}
    ],
    "priorityClassName": "batch-low",
    "schedulerName": "volcano",
    "labels": {"team": "lake"},
    "annotations": {"example.com/cost": "42"},
    "driver": {"nodeSelector": {"capacity": "on-demand"}, "labels": {QUEUE: "nightly"}},
    "executor": {
        "nodeSelector": {"capacity": "spot"},
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    },
    "env": [
        {"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
        {"name": "FROM_CONFIG", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}},
    ],
    "volumes": [{"name": "more", "configMap": {"name": "more", "optional": True}}],
    "volumeMounts": [{"name": "more", "mountPath": "/etc/more", "readOnly": True}],
    "imagePullSecrets": ["mirror"],
    "runtimeClassName": "gvisor",
}
