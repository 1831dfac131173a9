"""Everything of one plane put together, and what a test does with it."""

import itertools
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import kubernetes

from compaction_operator.api import cleanup as cleanup_api
from compaction_operator.api import compaction as compaction_api
from compaction_operator.api.cleanup import LABEL_COMPACTION_UID
from compaction_operator.api.conditions import find_condition
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.controller.kube.job import current_job
from compaction_operator.controller.kube.resources import Cleanup, Compaction, read_cleanup, read_compaction
from sandbox.harness.places import Place, StorageKind
from sandbox.harness.ports import free_ports
from sandbox.harness.settings import WAREHOUSE
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import Database, Hive, MetastoreServer
from sandbox.plane import pod
from sandbox.plane.control import ControlPlane
from sandbox.plane.controller import Controller
from sandbox.plane.install import NAMESPACE, SYSTEM_NAMESPACE, Installed, install
from sandbox.plane.kubelet import Kubelet
from sandbox.plane.mirror import Mirror, Raw
from sandbox.plane.processes import Entry, Launch, inherited
from sandbox.plane.store import STORES, Store

Answer = TypeVar("Answer")
SPARK = {"driver": {"cores": 1, "memory": "512m"}}


Environment = Callable[[Sequence[str]], Mapping[str, str]]
"""Gives more environment variables for a process of these arguments that is about to start."""


def _nothing_more(_arguments: Sequence[str]) -> Mapping[str, str]:
    return {}


class EndedOtherwiseError(AssertionError):
    """A compaction or cleanup that ended for good, and not as it was to."""


class Plane:
    """A control plane, a metastore, the controller and what runs the drivers; see the package for how to use it."""

    def __init__(
        self,
        folder: Path,
        *,
        hive: Hive = "3.1.3",
        database: Database = "derby",
        storage: StorageKind | Store = "file",
        entry: Entry = pod.run,
        environment: Environment = _nothing_more,
        spark: bool = True,
        txn_timeout_seconds: int = 300,
        values: Mapping[str, Any] | None = None,
        warehouse: Mapping[str, Any] | None = None,
        overrides: Mapping[str, str] | None = None,
        receipts: bool = False,
    ) -> None:
        self.hive = hive
        self.store = storage if isinstance(storage, Store) else _store(storage, folder / "store")
        self.metastore = MetastoreServer(
            folder / "metastore",
            hive=hive,
            database=database,
            warehouse=self.store.warehouse if self.store else None,
            properties=self.store.hadoop if self.store else None,
            txn_timeout_seconds=txn_timeout_seconds,
            **{"overrides": overrides, **(self.store.metastore if self.store else {})},
        )
        self._folder = folder
        self._entry = entry
        self._environment = environment
        self._spark = spark
        self._values = values or {}
        self._warehouse = warehouse or {}
        self._keeps_receipts = receipts
        self.control = ControlPlane(folder / "control")
        self._names = itertools.count(1)
        self._admins: list[MetastoreAdmin] = []

    def __enter__(self) -> Self:
        try:
            return self._start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process; the folder stays."""
        for admin in self._admins:
            admin.close()
        if hasattr(self, "drivers"):
            self.mirror.stop()
            self.controller.kill()
            self.drivers.kill_all()
        self.metastore.stop()
        if self.store:
            self.store.kill()
        self.control.stop()

    def admin(self, *, user: str = "test") -> MetastoreAdmin:
        """Return a client of the metastore that can also make tables and play writers; it is closed with the plane."""
        self._admins.append(MetastoreAdmin(self.metastore.settings(), user=user))
        return self._admins[-1]

    def client(self) -> kubernetes.client.ApiClient:
        """Return an API client with the administrator's rights."""
        return self.control.client()

    def restart_metastore(self) -> None:
        """Start the metastore again after `metastore.kill()`, on the same port with the same data."""
        self.metastore.start()

    def back_up_etcd(self) -> None:
        """Keep a copy of all objects, for `restore_etcd`."""
        self.control.back_up()

    def restore_etcd(self) -> None:
        """Let the API server have the objects of the last `back_up_etcd`, and its resource versions of then."""
        self.control.restore()

    @contextmanager
    def api_server_away(self) -> Iterator[None]:
        """Let the API server give no answer meanwhile."""
        self.control.pause_api_server()
        try:
            yield
        finally:
            self.control.resume_api_server()

    @contextmanager
    def without_room(self) -> Iterator[None]:
        """Let the namespace's quota, `full`, have no room for a pod meanwhile.

        NB: no controller of quotas runs here, so the status, by which the API server decides, is written as well.
        """
        metadata, hard = {"name": "full", "namespace": NAMESPACE}, {"pods": "0"}
        self.control.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
        status = json.dumps({"status": {"hard": hard, "used": hard}})
        where = ("resourcequota", "full", "-n", NAMESPACE)
        self.control.kubectl("patch", *where, "--subresource=status", "--type=merge", "-p", status)
        try:
            yield
        finally:
            self.control.kubectl("delete", *where)

    def forget_lease(self) -> None:
        """Delete the Lease by which one controller leads, so that the next one need not wait until it expires."""
        self.control.kubectl("delete", "lease", "--all", "-n", SYSTEM_NAMESPACE)

    def compact(self, table: str, type_: str, *, name: str | None = None, **spec: Any) -> str:
        """Create a TableCompaction of `database.name`, or of the location of a Hudi table, and return its name.

        Further fields of the spec are given as they are written in YAML: `cleanup={"gracePeriod": "1s"}`.
        """
        reference = {"location": table} if "/" in table else _by_name(table)
        chosen = name or f"{type_.lower()}-{next(self._names)}"
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": compaction_api.KIND,
            "metadata": {"name": chosen},
            "spec": {"warehouse": WAREHOUSE, "table": reference, "type": type_, "spark": SPARK, **spec},
        }
        self._custom.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, compaction_api.PLURAL, body)
        self.wait(lambda: self.mirror.get(compaction_api.PLURAL, chosen), what=f"tcomp/{chosen} to be seen", timeout=10)
        return chosen

    def compaction(self, name: str) -> Compaction:
        """Return a TableCompaction as it was last seen; raises LookupError."""
        raw = self.mirror.get(compaction_api.PLURAL, name)
        if raw is None:
            raise LookupError(f"there is no tcomp/{name}")
        return read_compaction(raw)

    def cleanups(self, compaction: str) -> tuple[Cleanup, ...]:
        """Return the CompactionCleanups of a compaction, in the order of their names.

        NB: as the API server has them. Each kind has its own watch: a busy machine may show the end of a compaction
        before its cleanups, and an empty answer would mean that nothing is left to clean up.
        """
        label = f"{LABEL_COMPACTION_UID}={self.compaction(compaction).meta.uid}"
        answer = self._custom.list_namespaced_custom_object(
            GROUP, VERSION, NAMESPACE, cleanup_api.PLURAL, label_selector=label
        )
        return tuple(sorted(map(read_cleanup, answer["items"]), key=lambda cleanup: cleanup.meta.name))

    def events(self, name: str) -> list[Raw]:
        """Return the events about an object, the oldest first."""
        about = [raw for raw in self.mirror.all("events") if raw["involvedObject"]["name"] == name]
        return sorted(about, key=lambda raw: raw["metadata"]["creationTimestamp"])

    def patch_cleanup(self, name: str, **spec: Any) -> None:
        """Change what may be changed of a cleanup's spec: `suspend=True`, `approved=True`."""
        self._patch(cleanup_api.PLURAL, name, spec)

    def patch_compaction(self, name: str, **spec: Any) -> None:
        """Change what may be changed of a compaction's spec: `suspend=True`."""
        self._patch(compaction_api.PLURAL, name, spec)

    def patch_job(self, compaction: str, *, suspend: bool, labels: Mapping[str, str] | None = None) -> None:
        """Change the Job of a compaction's current attempt as a queue does."""
        change = json.dumps({"metadata": {"labels": dict(labels or {})}, "spec": {"suspend": suspend}})
        job = current_job(self.compaction(compaction))
        self.control.kubectl("patch", "job", job, "-n", NAMESPACE, "--type=merge", "-p", change)

    def _patch(self, plural: str, name: str, spec: Mapping[str, Any]) -> None:
        self._custom.patch_namespaced_custom_object(GROUP, VERSION, NAMESPACE, plural, name, {"spec": spec})

    def wait(self, predicate: Callable[[], Answer | None], *, timeout: float, what: str) -> Answer:
        """Return the predicate's first true answer; it is asked after each event. Raises WaitTimeoutError."""
        return self.mirror.wait(predicate, timeout=timeout, what=what)

    def wait_ended(self, compaction: str, *, timeout: float = 60.0) -> Compaction:
        """Return a compaction once it has succeeded; raises EndedOtherwiseError when it has failed for good."""

        def ended() -> Compaction | None:
            found = self.compaction(compaction)
            return found if found.ended else None

        found = self.wait(ended, timeout=timeout, what=f"tcomp/{compaction} to end")
        _require_success(f"tcomp/{compaction}", found.status.conditions)
        return found

    def wait_cleaned(self, compaction: str, *, timeout: float = 60.0) -> tuple[Cleanup, ...]:
        """Return all cleanups of a compaction once they have succeeded; raises EndedOtherwiseError when one failed."""

        def ended() -> tuple[Cleanup, ...] | None:
            found = self.cleanups(compaction)
            return found if all(cleanup.ended for cleanup in found) else None

        found = self.wait(ended, timeout=timeout, what=f"the cleanups of tcomp/{compaction} to end") or ()
        for cleanup in found:
            _require_success(f"ccl/{cleanup.meta.name}", cleanup.status.conditions)
        return found

    def delete(self, compaction: str) -> None:
        """Delete a compaction with its Jobs and cleanups and wait until they are gone."""
        uid = self.compaction(compaction).meta.uid
        # NB: each by itself, as the garbage collector learns of new kinds only every 30 s.
        kinds = (compaction_api.PLURAL, cleanup_api.PLURAL, "jobs", "pods")
        for kind in kinds:
            for raw in self._of(kind, uid):
                self.mirror.delete(kind, raw["metadata"]["name"])
        gone = lambda: not any(self._of(kind, uid) for kind in kinds)  # noqa: E731
        self.wait(gone, timeout=30.0, what=f"all of tcomp/{compaction} to go")

    def _of(self, kind: str, uid: str) -> Sequence[Raw]:
        if kind == compaction_api.PLURAL:
            return [raw for raw in self.mirror.all(kind) if raw["metadata"]["uid"] == uid]
        return self.mirror.all(kind, **{LABEL_COMPACTION_UID: uid})

    def _start(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.control.launch()
        if self.store:
            self.store.start()
        self.metastore.start()
        self.control.await_ready()
        main = {
            "metastore": self.metastore.settings().to_json(),
            **self._stores(),
            **self._receipts(),
            **self._warehouse,
        }
        self.installed = install(self.control, warehouse=main, folder=self._folder, values=self._values)
        api = self.control.client()
        self._custom = kubernetes.client.CustomObjectsApi(api)
        self.mirror = Mirror(api, NAMESPACE)
        self._make_processes(api, self.installed)
        self.mirror.start()
        self.controller.start()
        return self

    def _stores(self) -> Mapping[str, Any]:
        """Return the chart's values by which the operator reaches the store."""
        if self.store is None:
            return {}
        return {"locations": [str(self.metastore.warehouse)], "stores": self.store.values}

    @property
    def receipts(self) -> Place:
        """The folder of the receipts, if it keeps any."""
        return self.metastore.warehouse / "receipts"

    def _receipts(self) -> Mapping[str, Any]:
        """Return the chart's values by which the controller keeps receipts."""
        if not self._keeps_receipts:
            return {}
        kept = {"receipts": {"location": str(self.receipts)}}
        volume = {"claimName": "warehouse", "mountPath": str(self.metastore.warehouse)}
        return kept if self.store else {**kept, "volume": volume}

    def _make_processes(self, api: kubernetes.client.ApiClient, installed: Installed) -> None:
        drivers = self._folder / "drivers"
        drivers.mkdir()
        self.controller = Controller(
            folder=self._folder / "controller",
            config=installed.config,
            launch=self._launcher(installed.controller_secrets),
            environment=installed.controller_environment,
            entry=self._entry,
        )
        self.drivers = Kubelet(
            api, self.mirror, folder=drivers, launch=self._launcher(installed.driver_secrets), entry=self._entry
        )

    def _launcher(self, secrets: Path) -> Callable[..., Launch]:
        def launch(*, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> Launch:
            pod_like = {
                "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                "KUBERNETES_SERVICE_PORT": str(self.control.port),
                # An image has but one Python.
                "PYSPARK_PYTHON": sys.executable,
                pod.SPARK_VARIABLE: "yes" if self._spark else "no",
            }
            return Launch(
                arguments=tuple(arguments),
                environment={**inherited(), **pod_like, **environment, **self._environment(arguments)},
                log=folder / "log",
                secrets=secrets,
                termination_message=folder / "termination-log",
                port=free_ports(1)[0],
            )

        return launch


def _store(storage: StorageKind, folder: Path) -> Store | None:
    return STORES[storage](folder) if storage in STORES else None


def _by_name(table: str) -> dict[str, str]:
    database, name = table.split(".")
    return {"database": database, "name": name}


def _require_success(what: str, conditions: Sequence[Any]) -> None:
    verdict = find_condition(conditions, "Succeeded")
    if verdict is None or verdict.status.value != "True":
        said = f"{verdict.status} {verdict.reason}: {verdict.message}" if verdict else "no Succeeded condition"
        raise EndedOtherwiseError(f"{what}: {said}")
