"""What the tests of this folder do: tables of their own, compactions, readers' locks; and all of it is taken away."""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sandbox.harness import chart
from sandbox.harness.cluster import Cluster
from sandbox.harness.compactions import Compactions, manifest
from sandbox.harness.settings import METASTORE_SERVICE
from sandbox.harness.stage import Stage, Warehouse
from sandbox.harness.tables import Fixture, HiveTable, HudiTable
from sandbox.harness.wait import wait_until
from sandbox.metastore.admin import HUDI, MetastoreAdmin

from compaction_operator.api.cleanup import (
    LABEL_ATTEMPT,
    LABEL_COMPACTION_UID,
    CompactionCleanupSpec,
    CompactionCleanupStatus,
    PartitionEntry,
)
from compaction_operator.api.compaction import Phase
from compaction_operator.api.conditions import Condition, ConditionStatus, find_condition
from compaction_operator.api.config import Metastore
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.metastore import LockKind, LockWish

Names = dict[str, frozenset[str]]
"""Names by partition ('' for an unpartitioned table)."""

READER = "carol"
INTERVAL = timedelta(seconds=2)
"""How often the controller looks for readers, as the tests install it."""
PLANNING = timedelta(seconds=1)
"""How long a reader who came later may be listing still, and hold a deletion up, as the tests install it."""

NARROW = "narrow"
"""A warehouse whose configuration allows the database `sales` only."""
RECORDED = "recorded"
"""A warehouse that keeps receipts."""
BROKEN = "broken"
"""A profile whose drivers always fail: their service account may not write a journal."""

UNPULLABLE, NO_IMAGE = "unpullable", "localhost/compaction-operator:none"
"""A profile whose image no registry has. Its attempts wait a short time only."""

LOOKED_AT, ADMITTED = "looked-at", "looked-at"
"""A profile whose drivers have Spark's page and event log; and the label of a node that takes its executors."""
CRAMPED = "cramped"
"""A profile whose drivers have a file system in their memory, at /ram."""
COME_AND_GO = "come-and-go"
"""A profile whose drivers let go of executors that are idle."""


def _profiles() -> list[dict[str, Any]]:
    """Return the profiles of single tests. NB: an earlier chart knows fewer fields, and its tests take the default."""
    return [
        chart.profile(BROKEN, serviceAccount="default"),
        chart.profile(UNPULLABLE, image=NO_IMAGE, startTimeout="15s"),
        chart.profile(
            LOOKED_AT,
            volumes=[{"name": "events", "emptyDir": {}}],
            volumeMounts=[{"name": "events", "mountPath": "/events"}],
            executor={"nodeSelector": {ADMITTED: ""}},
            sparkConf={
                "spark.ui.enabled": "true",
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": "file:///events",
            },
        ),
        chart.profile(
            CRAMPED,
            volumes=[{"name": "ram", "emptyDir": {"medium": "Memory"}}],
            volumeMounts=[{"name": "ram", "mountPath": "/ram"}],
        ),
        chart.profile(
            COME_AND_GO,
            sparkConf={
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.executorIdleTimeout": "5s",
            },
        ),
    ]


def install(stage: Stage, *beside: Stage, release: chart.Release | None = None, controller_image: str = "") -> None:
    """Install the operator with what the tests need beside the demo's warehouse and profile, and for these stages."""
    folder = stage.settings.warehouse_location.removeprefix("file:")
    stage.operator.install(
        release=release,
        warehouses=[
            chart.warehouse(stage.settings, NARROW, databases=["sales"]),
            chart.warehouse(stage.settings, RECORDED, receipts={"location": f"{folder}/receipts"}),
            *(chart.warehouse(other.settings) for other in beside),
        ],
        profiles=[] if release else _profiles(),
        controller_image=controller_image,
        ui=True,
    )


class Scene:
    """A database of its own with tables, the compactions of these, and locks that a reader holds on them."""

    def __init__(self, stage: Stage, warehouse: Warehouse) -> None:
        self.stage = stage
        self.warehouse = warehouse
        self.database = f"test_{uuid.uuid4().hex[:8]}"
        self._reader = MetastoreAdmin(Metastore(uris=(warehouse.forward.uri,)), user=READER)
        self._tables: list[HiveTable] = []
        self._applied: list[str] = []
        self._uids: dict[str, str] = {}
        self._locks: set[int] = set()

    @property
    def cluster(self) -> Cluster:
        return self.stage.cluster

    @property
    def compactions(self) -> Compactions:
        return self.stage.compactions

    @property
    def namespace(self) -> str:
        return self.stage.settings.namespace

    def table(self, fixture: Fixture, name: str | None = None) -> HiveTable:
        """Return a new table with all writes of the fixture."""
        table = self.warehouse.writer.create(fixture, database=self.database, name=name or f"t{len(self._tables)}")
        self._tables.append(table)
        return table

    def strange_table(self, name: str, *, location: str | None = None, **properties: Any) -> HiveTable:
        """Return a table to which nothing is written, made with these arguments of MetastoreAdmin.create_table."""
        self.warehouse.writer.ensure_database(self.database)
        location = location or f"{self.stage.settings.database_location(self.database)}/{name}"
        self.warehouse.admin.create_table(self.database, name, location=location, columns=[("id", "int")], **properties)
        table = HiveTable(self.database, name, location)
        self._tables.append(table)
        return table

    def hudi_table(self, folder: Path, *, name: str = "") -> HudiTable:
        """Return a copy of the Hudi table in a folder of this machine; the metastore knows it where it has a name."""
        location = f"{self.stage.settings.database_location(self.database)}/{folder.name}"
        self.warehouse.toolbox.put(location, folder)
        if name:
            self.strange_table(name, location=location, parameters={}, formats=HUDI)
        return HudiTable(location, self.database if name else "", name)

    def compact(self, table: HiveTable | HudiTable, type_: str, **spec: Any) -> str:
        """Apply a TableCompaction and return its name, which no other has."""
        name = f"{type_.lower()}-{uuid.uuid4().hex[:8]}"
        self.compactions.apply(manifest(name, table, type_, **spec))
        self._applied.append(name)
        return name

    def adopt(self, compaction: str) -> None:
        """Wait until a compaction is there that a test makes by other means; it is taken away like the others."""
        self._applied.append(compaction)
        wait_until(
            lambda: self.cluster.get("tcomp", compaction, namespace=self.namespace),
            timeout=120,
            what=f"tcomp/{compaction}",
        )

    def owned_by(self, policy: str) -> list[str]:
        """Return the names of the compactions that a policy has created."""
        found = json.loads(self.cluster.kubectl("get", "tcomp", "-n", self.namespace, "-o", "json"))["items"]
        return [
            one["metadata"]["name"]
            for one in found
            if any(owner["name"] == policy for owner in one["metadata"].get("ownerReferences", ()))
        ]

    def uid(self, compaction: str) -> str:
        """Return a compaction's UID, also when it is deleted by now."""
        if compaction not in self._uids:
            found = self.cluster.get("tcomp", compaction, namespace=self.namespace)
            assert found is not None
            self._uids[compaction] = found["metadata"]["uid"]
        return self._uids[compaction]

    def cleanup_of(self, compaction: str) -> str:
        """Return the only cleanup of a compaction."""
        (cleanup,) = self.compactions.cleanups(compaction)
        return cleanup

    def wait_cleanup_of(self, compaction: str, *, timeout: float = 240.0) -> str:
        """Return a compaction's first cleanup once there is one."""
        found = wait_until(
            lambda: self.compactions.cleanups(compaction), timeout=timeout, what=f"a journal of {compaction}"
        )
        return found[0]

    def published(self, compaction: str) -> tuple[Names, Names]:
        """Return the outputs and the obsolete directories in the journals of a compaction that has succeeded."""
        self.compactions.wait_succeeded(compaction)
        entries = [
            entry
            for cleanup in self.compactions.cleanups(compaction)
            for entry in self.compactions.journal(cleanup).partitions
        ]
        outputs = {entry.partition: frozenset(entry.outputs) for entry in entries}
        return outputs, {entry.partition: frozenset(item.name for item in entry.obsolete) for entry in entries}

    def cleaned(self, compaction: str) -> None:
        """Wait until everything that a compaction made obsolete is deleted."""
        for cleanup in self.compactions.cleanups(compaction):
            self.compactions.wait_cleaned(cleanup)

    def names(self, table: HiveTable) -> Names:
        """Return all names in the directory of a table or of each of its partitions, hidden ones too."""
        places = table.partitions or ("",)
        return {place: frozenset(self.warehouse.toolbox.names(f"{table.location}/{place}")) for place in places}

    def verdict(self, compaction: str) -> Condition:
        """Return a compaction's Succeeded condition, also before it has one."""
        known = find_condition(self.compactions.status(compaction).conditions, "Succeeded")
        return known or Condition(type="Succeeded", status=ConditionStatus.UNKNOWN, reason="", last_transition_time="")

    def wait_reason(self, compaction: str, reason: str, *, timeout: float = 120.0) -> Condition:
        """Return a compaction's Succeeded condition once it has that reason."""

        def found() -> Condition | None:
            condition = self.verdict(compaction)
            return condition if condition.reason == reason else None

        return wait_until(found, timeout=timeout, what=f"tcomp/{compaction} to say {reason}")

    def check_refused(self, refused: Mapping[str, tuple[str, str]]) -> None:
        """Wait until compactions are refused, each with its reason and a message that names this, without a Job."""
        names = [f"tcomp/{name}" for name in refused]
        self.cluster.kubectl(
            "wait", "--for=condition=Failed", *names, "-n", self.namespace, "--timeout=300s", timeout=310
        )
        for name, (reason, named) in refused.items():
            verdict = self.verdict(name)
            assert (verdict.status, verdict.reason) == (ConditionStatus.FALSE, reason), (name, verdict)
            assert named in verdict.message
            assert "\n" not in verdict.message
            status = self.compactions.status(name)
            assert (status.phase, status.attempt, status.failed_attempts) == (Phase.FAILED, 0, 0)
            assert (self.jobs(name), self.compactions.cleanups(name)) == ([], [])

    def lock(self, table: HiveTable, partition: str | None = None, *, kind: LockKind = LockKind.SHARED_READ) -> int:
        """Take a lock without a transaction, as a client called carol, and return its id."""
        wish = LockWish(database=table.database, table=table.name, partition=partition, kind=kind, agent="query")
        state = self._reader.lock(wish)
        assert state.acquired
        self._locks.add(state.lock_id)
        return state.lock_id

    def unlock(self, lock_id: int) -> datetime:
        """Give a lock back and return when that was done."""
        self._reader.unlock(lock_id)
        self._locks.discard(lock_id)
        return datetime.now(UTC)

    def jobs(self, compaction: str) -> list[dict[str, Any]]:
        """Return the Jobs of a compaction's attempts."""
        return self.cluster.get_all("jobs", namespace=self.namespace, selector=self._label(compaction))

    def events(self, compaction: str, reason: str) -> list[str]:
        """Return the messages of a compaction's events with that reason."""
        about = f"involvedObject.kind=TableCompaction,involvedObject.name={compaction},reason={reason}"
        found = self.cluster.kubectl("get", "events", "-n", self.namespace, f"--field-selector={about}", "-o", "json")
        return [event["message"] for event in json.loads(found)["items"]]

    def wait_driver(self, compaction: str, attempt: int = 1, *, timeout: float = 180.0) -> str:
        """Return the name of an attempt's driver pod once it runs."""
        selector = f"{self._label(compaction)},{LABEL_ATTEMPT}={attempt}"

        def running() -> str | None:
            pods = self.cluster.get_all("pods", namespace=self.namespace, selector=selector)
            names = [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]
            return names[0] if names else None

        return wait_until(running, timeout=timeout, what=f"the driver of {compaction} to run")

    def kill_pods(self, namespace: str, *which: str) -> None:
        """Take pods away without a word to their processes; they are named, or selected with -l."""
        self.cluster.kubectl("delete", "pod", "-n", namespace, *which, "--grace-period=0", "--force")

    def clock(self, model: CompactionCleanupSpec) -> str:
        """Return the name of a new cleanup of the model's table that has nothing to delete, for it to be waited for.

        Once it has succeeded the controller has taken at least one whole look since this call.
        """
        name = f"clock-{uuid.uuid4().hex[:8]}"
        entries = tuple(_nothing(entry) for entry in model.partitions)
        reference = model.compaction.model_copy(update={"name": name, "job": name, "uid": name})
        spec = model.model_copy(
            update={"partitions": entries, "compaction": reference, "lock_ids": (), "suspend": False}
        )
        self.record(name, spec)
        return name

    def record(self, name: str, spec: CompactionCleanupSpec) -> None:
        """Apply a journal that no driver wrote."""
        metadata = {"name": name, "namespace": self.namespace}
        self.cluster.apply(
            {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": "CompactionCleanup",
                "metadata": metadata,
                "spec": spec.to_json(),
            }
        )

    def suspend(self, name: str, on: bool, *, kind: str = "ccl") -> None:
        """Hold a cleanup or a compaction, or let it go on."""
        patch = f'{{"spec": {{"suspend": {str(on).lower()}}}}}'
        self.cluster.kubectl("patch", kind, name, "-n", self.namespace, "--type=merge", "-p", patch)

    def delete_compaction(self, name: str) -> None:
        """Delete a TableCompaction and wait until it is gone; its cleanups stay."""
        self.uid(name)
        self.cluster.kubectl("delete", "tcomp", name, "-n", self.namespace, "--timeout=60s")

    def close(self) -> None:
        """Take everything away again."""
        for lock_id in self._locks:
            self._reader.unlock(lock_id)
        self._reader.close()
        # NB: a driver that still runs goes with its compaction, and creates no cleanup any more.
        self._delete(*(f"tcomp/{name}" for name in self._applied))
        self._delete(*(f"ccl/{name}" for name in self._cleanups()))
        if self._tables:
            self.warehouse.admin.drop_database(self.database)
        # NB: the metastore leaves what it does not know to be a table's.
        self.warehouse.toolbox.remove(self.stage.settings.database_location(self.database))

    def _cleanups(self) -> list[str]:
        found = self.cluster.get_all("ccl", namespace=self.namespace)
        mine = [cleanup for cleanup in found if cleanup["spec"]["table"]["database"] == self.database]
        return [cleanup["metadata"]["name"] for cleanup in mine]

    def _delete(self, *objects: str) -> None:
        if objects:
            self.cluster.kubectl("delete", *objects, "-n", self.namespace, "--ignore-not-found", "--timeout=60s")

    def _label(self, compaction: str) -> str:
        return f"{LABEL_COMPACTION_UID}={self.uid(compaction)}"


@contextmanager
def scene_of(stage: Stage, warehouse: Warehouse) -> Iterator[Scene]:
    """Give a scene and take away what was made in it."""
    scene = Scene(stage, warehouse)
    try:
        yield scene
    finally:
        scene.close()


class MetastorePod:
    """The metastore's Deployment, which can be stopped, started and killed."""

    def __init__(self, stage: Stage, warehouse: Warehouse) -> None:
        self._cluster = stage.cluster
        self._namespace = stage.settings.metastore_namespace
        self._warehouse = warehouse

    def stop(self) -> None:
        """Stop it and wait until it is gone."""
        self._scale(0)
        self._cluster.kubectl("wait", "--for=delete", "pod", *self._pods, "--timeout=60s")

    def start(self) -> None:
        """Start it and wait until it answers, here too."""
        self._scale(1)
        self._await()

    def kill(self) -> None:
        """Kill it without a word and wait until its successor answers, here too."""
        self._cluster.kubectl("delete", "pod", *self._pods, "--grace-period=0", "--force")
        self._await()

    def _scale(self, replicas: int) -> None:
        self._cluster.kubectl(
            "scale", f"deployment/{METASTORE_SERVICE}", "-n", self._namespace, f"--replicas={replicas}"
        )

    def _await(self) -> None:
        self._cluster.kubectl(
            "rollout",
            "status",
            f"deployment/{METASTORE_SERVICE}",
            "-n",
            self._namespace,
            "--timeout=180s",
            timeout=190,
        )
        self._warehouse.forward.restart()

    @property
    def _pods(self) -> tuple[str, ...]:
        return "-n", self._namespace, "-l", f"app={METASTORE_SERVICE}"


def completed(status: CompactionCleanupStatus) -> datetime:
    """Return when a cleanup ended, by the controller's clock, which is this machine's."""
    assert status.completion_time
    return datetime.fromisoformat(status.completion_time)


def succeeded(status: Iterable[Condition]) -> Condition:
    """Return the Succeeded condition of one that has it."""
    found = find_condition(status, "Succeeded")
    assert found
    return found


def _nothing(entry: PartitionEntry) -> PartitionEntry:
    never = [item.model_copy(update={"name": "delta_0000000_0000000_9999"}) for item in entry.obsolete[:1]]
    return entry.model_copy(update={"outputs": (), "obsolete": tuple(never)})
