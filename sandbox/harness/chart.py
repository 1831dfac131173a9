"""The operator on the cluster: installed with its Helm chart for one warehouse, or more."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.harness.cluster import Cluster
from sandbox.harness.settings import CLAIM, HADOOP_CONF, MOUNT, S3_CLIENT, S3_CLIENT_MOUNT, S3_ENDPOINT, Settings

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "compaction-operator"
RELEASE = "compaction-operator"


def warehouse(settings: Settings, name: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a warehouse for the chart's values, by default with the settings' name.

    More of its fields are given as they are written in YAML.
    """
    return {
        "name": name or settings.warehouse,
        "metastore": {"uris": [settings.metastore_uri]},
        "namespaces": [settings.namespace],
        **_storage(settings),
        "hudi": {"locations": [settings.warehouse_location]},
        **more,
    }


def _storage(settings: Settings) -> dict[str, Any]:
    """Where the tables are and how pods reach them, as docs/install.md tells it for each store."""
    stores: dict[str, Any] = {
        "hdfs": {"configMap": HADOOP_CONF},
        "s3": {
            "endpoint": S3_ENDPOINT,
            "region": "us-east-1",
            "pathStyle": True,
            "credentialsFile": f"{S3_CLIENT_MOUNT}/credentials",
            "secret": {"name": S3_CLIENT, "mountPath": S3_CLIENT_MOUNT},
        },
    }
    if settings.storage == "file":
        return {"volume": {"claimName": CLAIM, "mountPath": MOUNT}}
    return {"locations": [settings.warehouse_location], "stores": {settings.storage: stores[settings.storage]}}


def profile(name: str = "default", **more: Any) -> dict[str, Any]:
    """Return a Spark profile for the chart's values, with requests that fit a small node."""
    return {"name": name, "driverCpuRequest": "200m", "executorCpuRequest": "200m", **more}


@dataclass(frozen=True)
class Release:
    """A version of the operator: its sources, and the image that the node has of them."""

    sources: Path
    image: str

    @property
    def chart(self) -> Path:
        """The folder of its chart."""
        return self.sources / "charts" / RELEASE


class Operator:
    """The operator's release in its namespace."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._settings = settings
        self.namespace = settings.system_namespace
        self._current = Release(ROOT, settings.operator_image)

    def install(
        self,
        *,
        release: Release | None = None,
        warehouses: Sequence[Any] = (),
        profiles: Sequence[Any] = (),
        controller_image: str = "",
        ui: bool = False,
    ) -> str:
        """Install or upgrade the chart, wait until the controller is ready, and return the command.

        There is the settings' warehouse and the profile `default`; more of both may be given. Without an image of its
        own the controller has that of the compactions. `ui` is whether the web page is served. Without a release it is
        the current one.
        """
        release = release or self._current
        command = ["upgrade", "--install", RELEASE, str(release.chart), "--namespace", self.namespace]
        command += ["--values", "-", "--wait", "--timeout", "3m"]
        own = {"controllerImage": {"repository": controller_image.rpartition(":")[0]}, "ui": {"enabled": ui}}
        values = self._values(release, warehouses, profiles) | own
        self._cluster.helm(*command, stdin=json.dumps(values), timeout=200)
        return f"helm {' '.join(command)}".replace(f"{ROOT}/", "")

    def restart(self) -> None:
        """Kill the controller's pod without a word; its Deployment starts another."""
        self._cluster.kubectl("delete", "pod", "-n", self.namespace, "-l", self.selector, "--grace-period=0", "--force")

    def roll_back(self) -> None:
        """Go back to the release before, and wait until its controller is ready."""
        command = ["rollback", RELEASE, "--namespace", self.namespace, "--wait", "--timeout", "3m"]
        self._cluster.helm(*command, timeout=200)

    def remove(self) -> None:
        """Remove the release and the CRDs, with all resources."""
        self._cluster.helm("uninstall", RELEASE, "--namespace", self.namespace, "--wait", "--ignore-not-found")
        self._cluster.kubectl("delete", "crd", "-l", f"app.kubernetes.io/name={RELEASE}", "--timeout=60s")

    def _values(self, release: Release, warehouses: Sequence[Any], profiles: Sequence[Any]) -> dict[str, Any]:
        repository, _, tag = release.image.rpartition(":")
        return {
            "image": {"repository": repository, "tag": tag},
            "warehouses": [warehouse(self._settings), *warehouses],
            "profiles": [profile(), *profiles],
            "replicas": 1,  # the node is small, and tests read the log of the controller
            # The readers of demo and tests hold locks only: they have listed at once.
            "cleanup": {"interval": "2s", "planningTime": "1s"},
        }

    @property
    def selector(self) -> str:
        """The labels of the controller's pod."""
        return f"app.kubernetes.io/name=compaction-operator,app.kubernetes.io/instance={RELEASE}"
