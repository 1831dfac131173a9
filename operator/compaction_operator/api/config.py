"""The operator's configuration, as Helm renders it: warehouses, Spark profiles and the cleanup's defaults."""

from typing import Annotated, Any

from pydantic import Field

from compaction_operator.api.model import Duration, Model, Size

METASTORE_URI_PATTERN = r"^(thrift://[^:/]+:[0-9]+|https?://[^:/]+:[0-9]+/.*)$"


class Metastore(Model):
    """Where the Hive metastore listens, one URI for each of its processes, and how long one call may take."""

    uris: tuple[Annotated[str, Field(pattern=METASTORE_URI_PATTERN)], ...] = Field(min_length=1)
    timeout: Duration = 20.0


class Volume(Model):
    """The persistent volume claim, of the same name in each namespace, that holds the warehouse's files."""

    claim_name: str
    mount_path: str


class Warehouse(Model):
    """One Hive warehouse and who may use it. Empty `databases` means all of them."""

    name: str
    metastore: Metastore
    namespaces: tuple[str, ...]
    databases: tuple[str, ...] = ()
    volume: Volume | None = None

    def allows_namespace(self, namespace: str) -> bool:
        """Whether compactions of that namespace may use this warehouse."""
        return namespace in self.namespaces

    def allows_database(self, database: str) -> bool:
        """Whether compactions may touch that database (case does not matter)."""
        return not self.databases or database.lower() in {name.lower() for name in self.databases}


class SparkProfile(Model):
    """What the pods of a job run: code and settings, hence the administrator's to choose."""

    name: str
    image: str
    image_pull_policy: str = "IfNotPresent"
    service_account: str = "compaction-driver"
    spark_conf: dict[str, str] = Field(default_factory=dict)
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()
    driver_cpu_request: str | None = None
    executor_cpu_request: str | None = None
    task_memory: Size = 512 * 1024**2


class CleanupSettings(Model):
    """Defaults of every cleanup: openLooKeng's hive.compaction-cleanup-interval and -threads."""

    interval: Duration = 2.0
    threads: int = Field(default=2, ge=1)
    deletion_threads: int = Field(default=2, ge=1)
    suspend: bool = False


class OperatorConfig(Model):
    """The whole configuration file of the controller."""

    warehouses: tuple[Warehouse, ...]
    profiles: tuple[SparkProfile, ...]
    cleanup: CleanupSettings = CleanupSettings()
    max_concurrent_jobs: int = Field(default=10, ge=1)
    job_ttl: Duration = 3600.0

    def warehouse(self, name: str) -> Warehouse | None:
        """Return the warehouse of that name, or None."""
        return next((warehouse for warehouse in self.warehouses if warehouse.name == name), None)

    def profile(self, name: str) -> SparkProfile | None:
        """Return the Spark profile of that name, or None."""
        return next((profile for profile in self.profiles if profile.name == name), None)
