"""The operator's configuration, as Helm renders it: warehouses, Spark profiles and the cleanup's defaults."""

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from compaction_operator.api.compaction import Readers
from compaction_operator.api.model import Duration, Model, Size

LOCATION_PATTERN = r"^(file:(//)?)?/"
METASTORE_URI_PATTERN = r"^(thrift://[^:/]+:[0-9]+|https?://[^:/]+:[0-9]+/.*)$"


class Secret(Model):
    """The Kubernetes secret, of the same name in each namespace, whose keys are files for the pods."""

    name: str
    mount_path: str


class Tls(Model):
    """The authorities of the metastore's certificate (default: the system's), and the client's own certificate."""

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    check_hostname: bool = True


class Kerberos(Model):
    """The metastore's principal, in which _HOST is the host of the URI, and the keytab of the client's principal."""

    principal: str = Field(pattern=r"^[^/@]+/[^/@]+@[^/@]+$")
    client_principal: str
    keytab: str
    config_file: str | None = None


class Metastore(Model):
    """Where the processes of a Hive metastore listen, and how to talk to them.

    `timeout` is for one call in all, looking up names, connecting and fail-over included; `connections` is how many
    there may be at a time.
    """

    uris: tuple[Annotated[str, Field(pattern=METASTORE_URI_PATTERN)], ...] = Field(min_length=1)
    timeout: Duration = Field(default=20.0, gt=0)
    connections: int = Field(default=8, ge=1)
    tls: Tls | None = None
    kerberos: Kerberos | None = None
    token_file: str | None = None
    secret: Secret | None = None

    @model_validator(mode="after")
    def _agree(self) -> Self:
        schemes = {uri.partition(":")[0] for uri in self.uris}
        if len(schemes) > 1:
            raise ValueError(f"uris are of one scheme, not {' and '.join(sorted(schemes))}")
        for name, given, fits in (
            ("tls", self.tls, {"thrift", "https"}),
            ("kerberos", self.kerberos, {"thrift"}),
            ("tokenFile", self.token_file, {"http", "https"}),
        ):
            if given is not None and not schemes <= fits:
                raise ValueError(f"{name} goes with {' and '.join(sorted(fits))} URIs only")
        return self


class Volume(Model):
    """The persistent volume claim, of the same name in each namespace, that holds the warehouse's files."""

    claim_name: str
    mount_path: str


class HudiSettings(Model):
    """What holds for all Hudi tables of a warehouse.

    `options` are Hudi's own, a lock provider's above all; `locations` are the folders below which tables may be named
    by their location, none by default.
    """

    options: dict[Annotated[str, Field(pattern=r"^hoodie\.")], str] = Field(default_factory=dict)
    locations: tuple[Annotated[str, Field(pattern=LOCATION_PATTERN)], ...] = ()


class HidingLock(StrEnum):
    """The lock under which a cleanup takes directories out of sight. Only Exclusive holds those who begin to read off.

    Where queries do not wait for locks (Hive 4's zero-wait reads), Exclusive makes them fail, and SharedRead does not.
    """

    EXCLUSIVE = "Exclusive"
    SHARED_READ = "SharedRead"


class Warehouse(Model):
    """One Hive warehouse and who may use it. Empty `databases` means all of them.

    `deadline` is how long an attempt may run, unless its compaction says otherwise.
    `readers` are the rules of who counts as a reader from before that a compaction may choose; LocksAndTransactions
    always is one.
    `locations` are the folders below which its tables and partitions must lie, by default that of the volume.
    """

    name: str
    metastore: Metastore
    namespaces: tuple[str, ...]
    databases: tuple[str, ...] = ()
    locations: tuple[Annotated[str, Field(pattern=LOCATION_PATTERN)], ...] = ()
    volume: Volume | None = None
    deadline: Duration = Field(default=86400.0, gt=0)
    hudi: HudiSettings = HudiSettings()
    hiding_lock: HidingLock = HidingLock.EXCLUSIVE
    readers: tuple[Readers, ...] = (Readers.LOCKS_AND_TRANSACTIONS, Readers.LOCKS)

    @property
    def allowed_locations(self) -> tuple[str, ...]:
        """The folders below which tables and partitions must lie; none where there is no volume either."""
        return self.locations or ((self.volume.mount_path,) if self.volume else ())

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
    """Defaults of every cleanup: openLooKeng's hive.compaction-cleanup-interval and -threads.

    The threads are each warehouse's own. `planning_time` is how long after its lock a query may still be listing what
    it reads. `ttl` is how long a CompactionCleanup is kept once nothing is left of it to do.
    """

    interval: Duration = 2.0
    threads: int = Field(default=2, ge=1)
    deletion_threads: int = Field(default=2, ge=1)
    planning_time: Duration = 30.0
    suspend: bool = False
    ttl: Duration = 86400.0


class MetricsSettings(Model):
    """Where the controller tells its metrics."""

    enabled: bool = True
    port: int = Field(default=8081, ge=1, le=65535)


class OperatorConfig(Model):
    """The whole configuration file of the controller."""

    warehouses: tuple[Warehouse, ...]
    profiles: tuple[SparkProfile, ...]
    cleanup: CleanupSettings = CleanupSettings()
    metrics: MetricsSettings = MetricsSettings()
    max_concurrent_jobs: int = Field(default=10, ge=1)
    job_ttl: Duration = 3600.0

    def warehouse(self, name: str) -> Warehouse | None:
        """Return the warehouse of that name, or None."""
        return next((warehouse for warehouse in self.warehouses if warehouse.name == name), None)

    def metastores(self) -> dict[str, str]:
        """Return for each warehouse the first one of its metastore: processes of one are those that share a URI."""
        known: list[tuple[set[str], list[str]]] = []
        for warehouse in self.warehouses:
            uris, names = {uri.lower() for uri in warehouse.metastore.uris}, [warehouse.name]
            same = [one for one in known if one[0] & uris]
            known = [one for one in known if one not in same]
            known.append((uris.union(*(one[0] for one in same)), [name for one in same for name in one[1]] + names))
        return {name: names[0] for _, names in known for name in names}

    def allows(self, warehouse: str, *, namespace: str, database: str) -> bool:
        """Whether resources of a namespace may touch a database of a warehouse; nobody may where there is none."""
        known = self.warehouse(warehouse)
        return known is not None and known.allows_namespace(namespace) and known.allows_database(database)

    def profile(self, name: str) -> SparkProfile | None:
        """Return the Spark profile of that name, or None."""
        return next((profile for profile in self.profiles if profile.name == name), None)
