"""Entries of a pool that the operator does not do: SHOW COMPACTIONS of a real metastore shows the reason."""

from datetime import UTC, datetime

import pytest
from sandbox.harness.places import location_of
from sandbox.metastore.admin import FULL_ACID, ORC, Formats, MetastoreAdmin
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.compaction import TableCompactionSpec, TableCompactionStatus
from compaction_operator.api.config import OperatorConfig, QueuePool, SparkProfile
from compaction_operator.api.request import queue_compaction_name
from compaction_operator.controller.compaction.decide import CompactionObservation
from compaction_operator.controller.compaction.decide import decide as decide_compaction
from compaction_operator.controller.kube.resources import Compaction, Meta
from compaction_operator.controller.queues.decide import QueueAction, decide
from compaction_operator.controller.queues.manifest import compaction_manifest
from compaction_operator.controller.work import Work
from compaction_operator.metastore import MetastoreError, QueueEntry, QueueState
from compaction_operator.metastore import hive4_calls as hive4
from tests.unit.driver.support import REQUEST

SERVERS = ("4.0.1", "4.1.0", "4.2.0")
MINOR, MAJOR, REBALANCE, ABORT_TXN_CLEANUP, SMART_OPTIMIZE = 1, 2, 3, 4, 5
"""Numbers of Hive's CompactionType; Hive 4.0 has all but the last one."""
INSERT_ONLY = {"transactional": "true", "transactional_properties": "insert_only"}
ICEBERG = Formats(
    "org.apache.iceberg.mr.hive.HiveIcebergInputFormat",
    "org.apache.iceberg.mr.hive.HiveIcebergOutputFormat",
    "org.apache.iceberg.mr.hive.HiveIcebergSerDe",
)


class Controller:
    """The controller's steps for the entries of one pool."""

    def __init__(self, admin: MetastoreAdmin, server: MetastoreServer, pool: str) -> None:
        self.admin = admin
        self.pool = pool
        self._queue = QueuePool(pool=pool, namespace=REQUEST.namespace)
        metastore = server.settings()
        warehouse = REQUEST.warehouse.model_copy(update={"metastore": metastore, "queue": self._queue})
        self._config = OperatorConfig.model_construct(
            warehouses=(warehouse,), profiles=(SparkProfile(name="default", image="i:1"),)
        )
        self._warehouse = warehouse.name
        self._work = Work(self._config, clock=lambda: datetime.now(UTC))

    def enqueue(self, table: str, kind: int) -> int:
        """Put an entry into the pool, as HiveServer2 does for ALTER TABLE; returns its id."""
        request = hive4.CompactionRequest(
            dbname=self.pool, tablename=table, type=kind, runas="hive", poolName=self.pool
        )
        reply = self.admin._call(lambda client: hive4.compact2(client, request))
        assert reply.accepted
        return int(reply.id)

    def end(self, queue_id: int) -> QueueEntry:
        """Do all for an entry until it has ended; returns its line of SHOW COMPACTIONS."""
        taken = self._work.take_from_queue(self._warehouse)
        assert isinstance(taken, QueueEntry)
        assert taken.queue_id == queue_id
        name = queue_compaction_name(self._warehouse, queue_id)
        compaction = self._compaction(taken, name) if taken.type else None
        decision = decide(taken, compaction, name=name)
        assert decision.action is QueueAction.REFUSE
        assert self._work.end_in_queue(self._warehouse, taken, refused=True, message=decision.message) is None
        return self.line(queue_id)

    def _compaction(self, entry: QueueEntry, name: str) -> Compaction:
        """Return the entry's TableCompaction after its preflight."""
        raw = compaction_manifest(entry, self._queue, warehouse=self._warehouse, name=name)
        spec, now = TableCompactionSpec.model_validate(raw["spec"]), datetime.now(UTC)
        meta = Meta(REQUEST.namespace, name, "uid", 1, 1, now)
        found = Compaction(meta, spec, TableCompactionStatus(), raw)
        observed = CompactionObservation(verdict=self._work.preflight(found))
        status = decide_compaction(found, observed, config=self._config, now=now).status
        return Compaction(meta, spec, status, raw)

    def line(self, queue_id: int) -> QueueEntry:
        """Return an entry's line of SHOW COMPACTIONS."""
        (line,) = (one for one in self.admin.pool_compactions(self.pool) if one.queue_id == queue_id)
        return line


@pytest.fixture
def controller(admin: MetastoreAdmin, server: MetastoreServer, database: str) -> Controller:
    """A pool of its own, and in the database of its name a table of each kind."""
    tables = {"acid": (FULL_ACID, ORC), "rows": (INSERT_ONLY, ORC), "ice": ({"table_type": "ICEBERG"}, ICEBERG)}
    for name, (parameters, formats) in tables.items():
        location = location_of(server.warehouse / f"{database}.db" / name)
        columns = [("id", "int")]
        admin.create_table(database, name, location=location, columns=columns, parameters=parameters, formats=formats)
    return Controller(admin, server, database)


@pytest.mark.parametrize(
    ("table", "kind", "type_name", "reason"),
    [
        (
            "acid",
            REBALANCE,
            "REBALANCE",
            "REBALANCE is not supported: the compaction operator compacts MINOR and MAJOR",
        ),
        ("rows", MINOR, "MINOR", "InsertOnlyTable: table {db}.rows is insert-only"),
        ("rows", MAJOR, "MAJOR", "InsertOnlyTable: table {db}.rows is insert-only"),
        ("ice", MINOR, "MINOR", "WrongFormat: table {db}.ice is an Iceberg table"),
        ("ice", MAJOR, "MAJOR", "WrongFormat: table {db}.ice is an Iceberg table"),
    ],
)
def test_an_entry_is_refused_with_the_reason(
    controller: Controller, table: str, kind: int, type_name: str, reason: str
) -> None:
    line = controller.end(controller.enqueue(table, kind))
    assert (line.state, line.type_name) == (QueueState.REFUSED, type_name)
    assert (line.error or "").startswith(reason.format(db=controller.pool))


def test_smart_optimize_is_refused_where_hive_knows_it(controller: Controller, server: MetastoreServer) -> None:
    """Since 4.1, for Iceberg tables. A metastore of 4.0 does not take such a request at all."""
    if server.hive == "4.0.1":
        with pytest.raises(MetastoreError):
            controller.enqueue("ice", SMART_OPTIMIZE)
        assert controller.admin.pool_compactions(controller.pool) == ()
        return
    line = controller.end(controller.enqueue("ice", SMART_OPTIMIZE))
    assert (line.state, line.type_name) == (QueueState.REFUSED, "SMART_OPTIMIZE")
    assert (line.error or "").startswith("SMART_OPTIMIZE is not supported")


def test_an_entry_of_a_strange_type_holds_up_no_other(controller: Controller) -> None:
    """Each look lists all entries of the pool."""
    strange, usual = controller.enqueue("rows", ABORT_TXN_CLEANUP), controller.enqueue("ice", MAJOR)
    line = controller.end(strange)
    assert (line.state, line.type_name) == (QueueState.REFUSED, "ABORT_TXN_CLEANUP")
    assert controller.line(usual).state is QueueState.INITIATED
    assert controller.end(usual).state is QueueState.REFUSED
