"""Operator configuration, as Helm renders it: warehouses, Spark profiles and cleanup defaults."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from compaction_operator.api.compaction import CleanupMode, Readers
from compaction_operator.api.model import Duration, Model, Size
from compaction_operator.api.placement import PodAdditions, overlap
from compaction_operator.api.policy import Template
from compaction_operator.api.stores import (
    HDFS_SCHEMES,
    S3_SCHEMES,
    KerberosLogin,
    MountPath,
    Secret,
    StoreSettings,
    scheme_of,
)
from compaction_operator.logs import LogFormat

LOCATION_PATTERN = r"^((file:(//)?)?/|(hdfs|viewfs)://[^/]*/|s3[an]?://[^/:@]+(/|$))"
HOST_PATTERN = r"^[^/:*\s]+$|^[0-9a-fA-F:]+$"
COLLECTOR_PATTERN = (
    r"^(https?://([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])"
    r"(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?(/[^\s?#]*)?)?$"
)
"""Scheme, host, port and path: a user's password would be in the log, and a query is not kept."""
METASTORE_URI_PATTERN = r"^(thrift://[^:/]+:[0-9]+|https?://[^:/]+:[0-9]+/.*)$"


class Tls(Model):
    """TLS settings: the metastore's certificate authorities (default: the system's) and the client certificate."""

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    check_hostname: bool = True


class Kerberos(Model):
    """Kerberos settings. In the metastore's `principal`, _HOST stands for the host of the URI.

    `keytab` holds the key of `client_principal`.
    """

    principal: str = Field(pattern=r"^[^/@]+/[^/@]+@[^/@]+$")
    client_principal: str
    keytab: str
    config_file: str | None = None


class Metastore(Model):
    """How to connect to a Hive metastore: the URIs of its processes and the connection settings.

    `timeout` limits a whole call, including name lookup, connecting and fail-over. `connections` is the maximum number
    of concurrent connections.
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
            raise ValueError(f"uris must have one scheme, not {' and '.join(sorted(schemes))}")
        for name, given, fits in (
            ("tls", self.tls, {"thrift", "https"}),
            ("kerberos", self.kerberos, {"thrift"}),
            ("tokenFile", self.token_file, {"http", "https"}),
        ):
            if given is not None and not schemes <= fits:
                raise ValueError(f"{name} is only for {' and '.join(sorted(fits))} URIs")
        return self


class Volume(Model):
    """The persistent volume claim with the warehouse's files. It has the same name in each namespace."""

    claim_name: str
    mount_path: MountPath


class HudiSettings(Model):
    """Settings for all Hudi tables of a warehouse.

    `options` are Hudi's own options, above all the lock provider. `locations` are the folders below which tables may be
    named by location. The default is none.
    """

    options: dict[Annotated[str, Field(pattern=r"^hoodie\.")], str] = Field(default_factory=dict)
    locations: tuple[Annotated[str, Field(pattern=LOCATION_PATTERN)], ...] = ()


class WatchScope(StrEnum):
    """What the controller watches: the whole cluster, or each namespace that a warehouse lists, by itself.

    The second needs no right outside of these namespaces.
    """

    CLUSTER = "Cluster"
    NAMESPACES = "Namespaces"


class HidingLock(StrEnum):
    """The lock under which a cleanup hides directories. Only Exclusive blocks new readers.

    If queries do not wait for locks (Hive 4's zero-wait reads), Exclusive makes them fail, and SharedRead does not.
    """

    EXCLUSIVE = "Exclusive"
    SHARED_READ = "SharedRead"


class Receipts(Model):
    """The folder in which the controller keeps the receipts of a warehouse's compactions and deletions.

    It lies on the warehouse's volume, on HDFS or on S3. Its parent folder must exist, except on S3.
    """

    location: str = Field(pattern=LOCATION_PATTERN)


class QueuePool(Model):
    """The pool of Hive 4's compaction queue whose entries the controller takes, as one of Hive's Workers would.

    - `namespace` is where it creates a TableCompaction for each entry; `template` is what each has in its spec.
    - `interval` is the pause between two looks at the queue.
    - `ttl` is how long a TableCompaction is kept after it has ended.
    """

    pool: str = Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?$")
    namespace: str
    template: Template = Template()
    interval: Duration = Field(default=5.0, gt=0)
    ttl: Duration = 86400.0

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """The API server would refuse each TableCompaction."""
        cleanup = self.template.cleanup
        if cleanup.mode is CleanupMode.NEVER and cleanup.quarantine is not None:
            raise ValueError("template.cleanup: mode Never moves and deletes nothing; leave it or the quarantine out")
        return self


class Warehouse(Model):
    """One Hive warehouse, and the namespaces and databases that may use it.

    - `databases`: empty means all databases.
    - `locations`: folders below which tables and partitions must lie. The default is the volume's mount path. Folders
      on HDFS and S3 are spelled as the metastore spells them (`hdfs://nameservice/a` and `hdfs://host:8020/a` are two).
    - `stores`: how HDFS and S3 are reached. `locations` or `hudi.locations` must have a folder on each of them.
    - `deadline`: the maximum duration of an attempt, unless its compaction sets another.
    - `readers`: the values of `cleanup.readers` that a compaction may choose. LocksAndTransactions is always allowed.
    - `receipts`: where receipts are kept; none are written without it.
    - `queue`: the pool of Hive 4's compaction queue to work on; without it, the queue is left to Hive's Workers.
    """

    name: str
    metastore: Metastore
    namespaces: tuple[str, ...]
    databases: tuple[str, ...] = ()
    locations: tuple[Annotated[str, Field(pattern=LOCATION_PATTERN)], ...] = ()
    volume: Volume | None = None
    stores: StoreSettings = StoreSettings()
    deadline: Duration = Field(default=86400.0, gt=0)
    hudi: HudiSettings = HudiSettings()
    hiding_lock: HidingLock = HidingLock.EXCLUSIVE
    readers: tuple[Readers, ...] = (Readers.LOCKS_AND_TRANSACTIONS, Readers.LOCKS)
    receipts: Receipts | None = None
    queue: QueuePool | None = None

    @model_validator(mode="after")
    def _agree(self) -> Self:
        self._require_a_store_for_each_location()
        _require_one_each(self.mounts())
        self._require_files_in_executors()
        if self.queue and not self.allows_namespace(self.queue.namespace):
            raise ValueError(f"queue.namespace: {self.queue.namespace} must be one of the warehouse's namespaces")
        return self

    def _require_a_store_for_each_location(self) -> None:
        folders = (*self.locations, *self.hudi.locations)
        for folder in folders:
            if lacking := self.stores.lacking(folder):
                raise ValueError(f"locations: {folder} needs the settings {lacking}")
        if self.receipts:
            self._require_a_store_for(self.receipts)
            folders = (*folders, self.receipts.location)
        schemes = {scheme_of(folder) for folder in folders}
        stores = (("hdfs", self.stores.hdfs, HDFS_SCHEMES), ("s3", self.stores.s3, S3_SCHEMES))
        for name, settings, known in stores:
            if settings and not schemes & known:
                raise ValueError(f"locations: list the folders of tables on {name}, which stores.{name} is for")
        if (self.stores.hdfs or self.stores.s3) and not (self.locations or self.volume):
            # NB: without folders, tables could lie anywhere that these stores reach.
            raise ValueError("locations: list the folders of tables; without a volume they have no default")

    def _require_a_store_for(self, receipts: Receipts) -> None:
        location = receipts.location
        if lacking := self.stores.lacking(location):
            raise ValueError(f"receipts.location: {location} needs the settings {lacking}")
        path = location.removeprefix("file://").removeprefix("file:")
        if scheme_of(location) == "file" and not (self.volume and path.startswith(f"{self.volume.mount_path}/")):
            raise ValueError(f"receipts.location: {location} must lie below the volume's mountPath, or on HDFS or S3")

    def _require_files_in_executors(self) -> None:
        """Executors read and write HDFS, but do not have the metastore's secret. A process has one KRB5_CONFIG."""
        login = self.stores.hdfs.kerberos if self.stores.hdfs else None
        if login is None:
            return
        own, secret = self.metastore.kerberos, self.metastore.secret
        if own and own.config_file != login.config_file:
            raise ValueError("stores.hdfs.kerberos.configFile: must be that of metastore.kerberos")
        mounted = self.stores.secrets().values()
        for name, file in _kerberos_files(login):
            if secret and secret not in mounted and file.startswith(f"{secret.mount_path}/"):
                raise ValueError(
                    f"stores.hdfs.kerberos.{name}: only the metastore's secret has {file}; set hdfs.secret"
                )

    def mounts(self, *, root: str = "") -> Iterator[tuple[str, str]]:
        """Yield the path of each thing that a pod mounts, and what it is. The volume's lies below `root`."""
        if self.volume:
            yield f"{root}{self.volume.mount_path}", f"claim {self.volume.claim_name}"
        if self.stores.hdfs:
            yield self.stores.hdfs.mount_path, f"ConfigMap {self.stores.hdfs.config_map}"
        for secret in filter(None, (self.metastore.secret, *self.stores.secrets().values())):
            yield secret.mount_path, f"secret {secret.name}"

    @property
    def allowed_locations(self) -> tuple[str, ...]:
        """The folders below which tables and partitions must lie. Empty if nothing is configured that can hold any."""
        return self.locations or ((self.volume.mount_path,) if self.volume else ())

    def allows_namespace(self, namespace: str) -> bool:
        """Whether compactions in that namespace may use this warehouse."""
        return namespace in self.namespaces

    def allows_database(self, database: str) -> bool:
        """Whether compactions may use that database, case-insensitive."""
        return not self.databases or database.lower() in {name.lower() for name in self.databases}


MAX_AUTO_EXECUTORS = 4
"""The most executors with Auto, unless the profile says otherwise."""


class SparkProfile(PodAdditions):
    """The code and settings of a job's pods. Only the administrator may choose them.

    `max_auto_executors` limits the executors of a compaction that leaves their number to the driver. `start_timeout` is
    how long an attempt waits for its pods to start. `oom_memory_factor` is how many times the memory the driver's pods
    get after one ran out of it.
    """

    name: str
    image: str
    image_pull_policy: str = "IfNotPresent"
    service_account: str = "compaction-driver"
    spark_conf: dict[str, str] = Field(default_factory=dict)
    driver_cpu_request: str | None = None
    executor_cpu_request: str | None = None
    task_memory: Size = 512 * 1024**2
    max_auto_executors: int = Field(default=MAX_AUTO_EXECUTORS, ge=0)
    start_timeout: Duration = Field(default=1800.0, gt=0)
    oom_memory_factor: float = Field(default=1.5, ge=1, le=16)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if (clash := next(iter(self.clashes()), None)) is not None:
            raise ValueError(f"profile {self.name}: {clash}")
        return self


class CleanupSettings(Model):
    """Defaults for all cleanups, such as openLooKeng's hive.compaction-cleanup-interval and -threads.

    Each warehouse has its own threads. `planning_time` is the longest time a query lists files after it acquired its
    lock. `ttl` is how long a CompactionCleanup is kept after it is done.
    """

    interval: Duration = 2.0
    threads: int = Field(default=2, ge=1)
    deletion_threads: int = Field(default=2, ge=1)
    planning_time: Duration = 30.0
    suspend: bool = False
    ttl: Duration = 86400.0


PROBES = 8080
"""The port of the kubelet's probes."""


class MetricsSettings(Model):
    """Where the controller serves its metrics."""

    enabled: bool = True
    port: int = Field(default=8081, ge=1, le=65535)


class UiSettings(Model):
    """Where the controller serves its web page. NB: all who reach the port see what the controller sees.

    `hosts` are the names by which browsers or a proxy may ask for it, without port and without wildcards; empty: any.
    """

    enabled: bool = False
    port: int = Field(default=8082, ge=1, le=65535)
    hosts: tuple[Annotated[str, Field(pattern=HOST_PATTERN)], ...] = ()


class LogSettings(Model):
    """The log of the controller and of drivers."""

    format: LogFormat = LogFormat.TEXT


class TracingSettings(Model):
    """Where the controller sends traces by OTLP/HTTP, such as http://collector:4318. Empty: nowhere."""

    endpoint: str = Field(default="", pattern=COLLECTOR_PATTERN)


class LeaderElection(Model):
    """The Lease in the controller's own namespace by which one of several controllers leads."""

    lease: str


class OperatorConfig(Model):
    """The controller's whole configuration file.

    `volumes_path` is where the controller's pod has the claims of all warehouses: below it, in a folder with the
    claim's name, each has its mount path. So warehouses with different claims may have one mount path. Without it each
    claim lies at its mount path, as in drivers and executors. Without `leader_election` there may be one controller
    only. `take_over` are the namespaces of operators that were removed: this one goes on with what they handled in the
    namespaces that it serves.
    """

    warehouses: tuple[Warehouse, ...]
    profiles: tuple[SparkProfile, ...]
    watch: WatchScope = WatchScope.CLUSTER
    cleanup: CleanupSettings = CleanupSettings()
    metrics: MetricsSettings = MetricsSettings()
    ui: UiSettings = UiSettings()
    log: LogSettings = LogSettings()
    tracing: TracingSettings = TracingSettings()
    leader_election: LeaderElection | None = None
    max_concurrent_jobs: int = Field(default=10, ge=1)
    job_ttl: Duration = 3600.0
    volumes_path: MountPath | None = None
    take_over: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """The controller's pod mounts what all warehouses need."""
        _require_names_once("warehouses", (warehouse.name for warehouse in self.warehouses))
        _require_names_once("profiles", (profile.name for profile in self.profiles))
        _require_one_each(mount for one in self.warehouses for mount in one.mounts(root=self.volume_root(one)))
        self._require_one_volume_a_path()
        self._require_own_paths()
        self._require_one_warehouse_a_pool()
        self._require_one_server_a_port()
        return self

    def _require_one_server_a_port(self) -> None:
        taken = {PROBES: "the probes"}
        for field, what, server in ("metrics", "the metrics", self.metrics), ("ui", "the web page", self.ui):
            if not server.enabled:
                continue
            if other := taken.get(server.port):
                raise ValueError(f"{field}.port: {server.port} is the port of {other}, too; take another one")
            taken[server.port] = what

    def volume_root(self, warehouse: Warehouse) -> str:
        """Return the folder that stands for `/` in a warehouse's paths in the controller's pod; empty: none does."""
        volume = warehouse.volume
        return f"{self.volumes_path}/{volume.claim_name}" if self.volumes_path and volume else ""

    def local_folders(self, warehouse: Warehouse) -> tuple[str, ...]:
        """Return the folders below which local files are a warehouse's own in the controller's pod.

        Without `volumes_path` the controller has all volumes at their mount paths.
        """
        if self.volumes_path is None:
            return ("/",)
        return (warehouse.volume.mount_path,) if warehouse.volume else ()

    def _require_one_volume_a_path(self) -> None:
        """Of one metastore, each path must lie in one claim: a sweep ends lost attempts knowing nothing but paths.

        NB: in another claim the path is not there, and the attempt would seem to have left nothing (hazard H3).
        """
        places, known = self.metastores(), list[tuple[str, Volume]]()
        for warehouse in self.warehouses:
            if (volume := warehouse.volume) is None:
                continue
            metastore = places[warehouse.name]
            for other, claim in known:
                if (
                    other == metastore
                    and claim.claim_name != volume.claim_name
                    and overlap(claim.mount_path, volume.mount_path)
                ):
                    raise ValueError(
                        f"warehouses: claims {claim.claim_name} at {claim.mount_path} and {volume.claim_name} at "
                        f"{volume.mount_path} are for one metastore, so neither path may lie in the other"
                    )
            known.append((metastore, volume))

    def _require_own_paths(self) -> None:
        """NB: a volume of a profile within a warehouse's would hide tables, and what is written there would be lost."""
        for warehouse in self.warehouses:
            taken = dict.fromkeys((path for path, _ in warehouse.mounts()), f"warehouse {warehouse.name}")
            for profile in self.profiles:
                if (clash := next(iter(profile.path_clashes(taken)), None)) is not None:
                    raise ValueError(f"profile {profile.name}: {clash}")

    def _require_one_warehouse_a_pool(self) -> None:
        places, known = self.metastores(), dict[tuple[str, str], str]()
        for warehouse in self.warehouses:
            if warehouse.queue:
                pool = places[warehouse.name], warehouse.queue.pool
                if other := known.get(pool):
                    raise ValueError(
                        f"queue.pool: warehouses {other} and {warehouse.name} cannot both take entries of {pool[1]}"
                    )
                known[pool] = warehouse.name

    def warehouse(self, name: str) -> Warehouse | None:
        """Return the warehouse of that name, or None."""
        return next((warehouse for warehouse in self.warehouses if warehouse.name == name), None)

    def metastores(self) -> dict[str, str]:
        """Return the first warehouse of the same metastore, by warehouse. A shared URI means the same metastore."""
        known: list[tuple[set[str], list[str]]] = []
        for warehouse in self.warehouses:
            uris, names = {uri.lower() for uri in warehouse.metastore.uris}, [warehouse.name]
            same = [one for one in known if one[0] & uris]
            known = [one for one in known if one not in same]
            known.append((uris.union(*(one[0] for one in same)), [name for one in same for name in one[1]] + names))
        return {name: names[0] for _, names in known for name in names}

    def allows(self, warehouse: str, *, namespace: str, database: str) -> bool:
        """Whether a namespace may use a database of a warehouse. False if the warehouse does not exist."""
        known = self.warehouse(warehouse)
        return known is not None and known.allows_namespace(namespace) and known.allows_database(database)

    def namespaces(self) -> list[str]:
        """Return the namespaces that warehouses list, in alphabetical order."""
        return sorted({name for warehouse in self.warehouses for name in warehouse.namespaces})

    def watched(self) -> list[str] | None:
        """Return the namespaces that are watched one by one, None if the whole cluster is watched."""
        return None if self.watch is WatchScope.CLUSTER else self.namespaces()

    def serves(self, namespace: str) -> bool:
        """Whether any warehouse lists the namespace. What lies in others may belong to another operator."""
        return any(warehouse.allows_namespace(namespace) for warehouse in self.warehouses)

    def profile(self, name: str) -> SparkProfile | None:
        """Return the Spark profile of that name, or None."""
        return next((profile for profile in self.profiles if profile.name == name), None)


def _require_names_once(kind: str, names: Iterable[str]) -> None:
    known = set[str]()
    for name in names:
        if name in known:
            raise ValueError(f"{kind}: two have the name {name}")
        known.add(name)


def _require_one_each(mounts: Iterable[tuple[str, str]]) -> None:
    known: dict[str, str] = {}
    for path, what in mounts:
        if (other := known.setdefault(path, what)) != what:
            raise ValueError(f"mountPath {path}: {other} and {what} cannot be mounted at one path")


def _kerberos_files(login: KerberosLogin) -> Iterator[tuple[str, str]]:
    yield "keytab", login.keytab
    if login.config_file:
        yield "configFile", login.config_file
