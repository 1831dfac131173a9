"""Where the demo and the cluster tests run: the sandbox, or with DEMO_CLUSTER=existing a cluster of the user's own."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sandbox.cluster.running import SandboxDownError, running_sandbox
from sandbox.harness.places import StorageKind
from sandbox.metastore.server import ON_S3, Hive

WAREHOUSE = "main"
MOUNT = "/warehouse"
CLAIM = "warehouse"
METASTORE_SERVICE = "hive-metastore"
METASTORE_PORT = 9083

HDFS = "hdfs://hdfs-namenode.hdfs.svc:8020"
HADOOP_CONF = "hadoop-conf"
"""The ConfigMap of each namespace by which its pods reach HDFS."""
S3_ENDPOINT = "http://minio.minio.svc:9000"
S3_CLIENT = "s3-client"
"""The secret of each namespace by which its pods log in to S3, in the file `credentials`."""
S3_CLIENT_MOUNT = "/etc/s3-client"

_LOCATIONS: Mapping[StorageKind, str] = {
    "file": f"file:{MOUNT}",
    "hdfs": f"{HDFS}{MOUNT}",
    "s3": f"s3a://lake{MOUNT}",
}


class SettingsError(Exception):
    """A switch that is not set or makes no sense; says which, and what to set."""


@dataclass(frozen=True)
class Settings:
    """Which cluster, which images and which namespaces; `environment` is what kubectl and helm need.

    The sandbox has its metastore already, so `metastore_image` is for other clusters. `warehouse` is the name in the
    operator's configuration.
    """

    sandbox: bool
    environment: Mapping[str, str]
    operator_image: str
    metastore_image: str
    namespace: str
    system_namespace: str
    metastore_namespace: str
    warehouse: str = WAREHOUSE
    storage: StorageKind = "file"
    storage_class: str | None = None
    access_mode: str = "ReadWriteMany"

    @property
    def metastore_uri(self) -> str:
        """The metastore's address inside the cluster."""
        return f"thrift://{METASTORE_SERVICE}.{self.metastore_namespace}.svc:{METASTORE_PORT}"

    @property
    def warehouse_location(self) -> str:
        """The folder of all databases, as the metastore has it."""
        return _LOCATIONS[self.storage]

    @property
    def hive(self) -> Hive:
        """The version of the metastore and of the writers."""
        return ON_S3[0] if self.storage == "s3" else "3.1.3"

    def database_location(self, database: str) -> str:
        """Return where the harness puts a database."""
        return f"{self.warehouse_location}/{database}.db"


def beside(settings: Settings, storage: StorageKind) -> Settings:
    """Return settings for tables on another store of the sandbox, with a metastore and a namespace of their own."""
    return replace(
        settings,
        storage=storage,
        warehouse=storage,
        namespace=f"demo-{storage}",
        metastore_namespace=f"hive-{storage}",
    )


def load() -> Settings:
    """Return the settings for this environment; raises SettingsError."""
    choice = os.environ.get("DEMO_CLUSTER", "sandbox")
    if choice == "existing":
        return _existing(os.environ)
    if choice != "sandbox":
        raise SettingsError(f"DEMO_CLUSTER is {choice!r}: set it to sandbox or existing")
    return _sandbox()


def _sandbox() -> Settings:
    try:
        up = running_sandbox()
    except SandboxDownError as error:
        raise SettingsError(str(error)) from error
    return Settings(
        sandbox=True,
        environment=up.environment(),
        operator_image=up.operator_image,
        metastore_image="",
        namespace="demo",
        system_namespace="compaction-system",
        metastore_namespace="hive",
        storage=up.storage,
    )


def _existing(given: Mapping[str, str]) -> Settings:
    """One namespace holds all, since a claim that is made by a storage class belongs to one namespace."""
    missing = [name for name in ("OPERATOR_IMAGE", "METASTORE_IMAGE") if not given.get(name)]
    if missing:
        raise SettingsError(f"DEMO_CLUSTER=existing needs {' and '.join(missing)}; see docs/own-cluster.md")
    namespace = given.get("DEMO_NAMESPACE", "compaction-demo")
    return Settings(
        sandbox=False,
        environment={},
        operator_image=given["OPERATOR_IMAGE"],
        metastore_image=given["METASTORE_IMAGE"],
        namespace=namespace,
        system_namespace=namespace,
        metastore_namespace=namespace,
        storage_class=given.get("DEMO_STORAGE_CLASS"),
        access_mode=given.get("DEMO_ACCESS_MODE", "ReadWriteMany"),
    )
