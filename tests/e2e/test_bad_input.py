"""What cannot be compacted is refused in one sentence, without a pod; what may be over later is waited for."""

import json
import uuid
from collections.abc import Iterator

import pytest
from sandbox.harness import expected
from sandbox.harness.cluster import CommandError
from sandbox.harness.compactions import manifest
from sandbox.harness.namespaces import restricted_namespace
from sandbox.harness.stage import Stage, Warehouse
from sandbox.harness.tables import TABLE_TXN_001, TRY_IT, HiveTable
from sandbox.harness.wait import wait_until
from sandbox.metastore.admin import ORC

from compaction_operator.api.cleanup import PublishedState
from compaction_operator.api.compaction import Phase
from compaction_operator.api.conditions import ConditionStatus
from tests.e2e.scene import NARROW, MetastorePod, Scene

INSERT_ONLY = {"transactional": "true", "transactional_properties": "insert_only"}
TEXT_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
DAMAGED = "delta_0000003_0000003_0000"


def test_what_cannot_be_compacted_is_refused(scene: Scene) -> None:
    """Succeeded is False with a reason and a message that names it; no Job, no journal, no file."""
    good = scene.table(TABLE_TXN_001, "good")
    partitioned = scene.table(TRY_IT, "partitioned")
    plain = scene.strange_table("plain", parameters={})
    insert_only = scene.strange_table("insert_only", parameters=INSERT_ONLY)
    text = scene.strange_table("text", formats=ORC._replace(serde=TEXT_SERDE))
    missing = HiveTable(scene.database, "missing", "")
    before = {table.name: scene.names(table) for table in (good, partitioned)}
    refused = {
        scene.compact(missing, "Minor"): ("TableNotFound", f"{scene.database}.missing"),
        scene.compact(plain, "Minor"): ("NotTransactional", f"{scene.database}.plain"),
        scene.compact(insert_only, "Major"): ("InsertOnlyTable", f"{scene.database}.insert_only"),
        scene.compact(text, "Major"): ("NotOrc", f"{scene.database}.text"),
        scene.compact(partitioned, "Minor", partitions=["prt='p9'"]): ("PartitionNotFound", "prt='p9'"),
        scene.compact(partitioned, "Minor", partitions=["day=1"]): ("PartitionNotFound", "day"),
        scene.compact(good, "Minor", partitions=["prt='p1'"]): ("PartitionNotFound", "not partitioned"),
        scene.compact(good, "Minor", warehouse="elsewhere"): ("UnknownWarehouse", "elsewhere"),
        scene.compact(good, "Minor", warehouse=NARROW): ("NotAllowed", scene.database),
        scene.compact(good, "Minor", spark={"profile": "huge"}): ("UnknownProfile", "huge"),
    }
    scene.check_refused(refused)
    assert {table.name: scene.names(table) for table in (good, partitioned)} == before


def test_a_compaction_in_a_namespace_that_no_operator_serves_waits(stage: Stage) -> None:
    """It may belong to an operator that is slow, or is installed later."""
    body = manifest("early", HiveTable("d", "t", ""), "Minor")
    unserved = f"unserved-{uuid.uuid4().hex[:8]}"
    body["metadata"]["namespace"] = unserved
    stage.cluster.apply(restricted_namespace(unserved))
    try:
        stage.cluster.kubectl("create", "-f", "-", stdin=json.dumps(body))
        said = '{.status.phase} {.status.conditions[?(@.type=="Succeeded")].reason}'

        def is_told() -> bool:
            found = stage.cluster.kubectl("get", "tcomp/early", "-n", unserved, "-o", f"jsonpath={said}")
            return found == "Waiting NotServed"

        wait_until(is_told, timeout=180, what="tcomp/early to say NotServed")
    finally:
        stage.cluster.kubectl("delete", "namespace", unserved, "--wait=false")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"type": "Medium"}, "spec.type"),
        ({"table": {"database": "a.b", "name": "c"}}, "spec.table.database"),
        ({"partitions": ["p1"]}, "spec.partitions"),
        ({"cleanup": {"interval": "soon"}}, "spec.cleanup.interval"),
        ({"retry": {"maxAttempts": 0}}, "spec.retry.maxAttempts"),
        ({"deadline": "tomorrow"}, "spec.deadline"),
        ({"deadline": "0s"}, "spec.deadline"),
        ({"deadline": "-6h"}, "spec.deadline"),
        ({"cleanup": {"deadline": "0s"}}, "spec.cleanup.deadline"),
        ({"allowAutoCompaction": "yes"}, "spec.allowAutoCompaction"),
    ],
)
def test_an_invalid_spec_never_reaches_the_controller(stage: Stage, change: dict[str, object], named: str) -> None:
    """The API server refuses it and names the field (test_packaging.py has every field)."""
    body = manifest("invalid", HiveTable("d", "t", ""), "Minor")
    body["metadata"]["namespace"] = stage.settings.namespace
    with pytest.raises(CommandError) as refused:
        stage.cluster.kubectl("create", "-f", "-", stdin=json.dumps({**body, "spec": {**body["spec"], **change}}))
    assert named in str(refused.value)


@pytest.fixture
def stopped_metastore(stage: Stage, warehouse: Warehouse, scene: Scene) -> Iterator[tuple[MetastorePod, HiveTable]]:
    """A metastore that is down, and a table that was made before; it is up again after the test."""
    table = scene.table(TABLE_TXN_001)
    metastore = MetastorePod(stage, warehouse)
    metastore.stop()
    try:
        yield metastore, table
    finally:
        metastore.start()


def test_a_metastore_that_is_down_is_waited_for(
    scene: Scene, stopped_metastore: tuple[MetastorePod, HiveTable]
) -> None:
    """Succeeded is Unknown and says why; nothing fails, and when the metastore is back the compaction goes on."""
    metastore, table = stopped_metastore
    compaction = scene.compact(table, "Minor")
    verdict = scene.wait_reason(compaction, "MetastoreUnavailable")
    assert verdict.status is ConditionStatus.UNKNOWN
    assert "hive-metastore" in verdict.message
    status = scene.compactions.status(compaction)
    assert (status.phase, status.attempt, scene.jobs(compaction)) == (Phase.WAITING, 0, [])
    metastore.start()
    status = scene.compactions.wait_succeeded(compaction)
    assert (status.attempt, status.failed_attempts) == (1, 0)
    scene.cleaned(compaction)
    assert scene.names(table) == {"": expected.AFTER_INSERTS_MINOR}


def test_an_unreadable_file_stops_its_own_partition_only(scene: Scene) -> None:
    """The other partition is published and cleaned up; of the damaged one nothing is deleted and nothing is left."""
    table = scene.table(TRY_IT)
    place = f"{table.location}/prt=p3"
    scene.warehouse.toolbox.write(place, {f"{DAMAGED}/bucket_00000": b"ORC, but not for long"})
    partitions = ["prt='p2'", "prt='p3'"]
    retry = {"maxAttempts": 2, "backoff": "1s"}
    compaction = scene.compact(table, "Major", partitions=partitions, retry=retry)
    status = scene.compactions.wait_failed(compaction)
    verdict = scene.verdict(compaction)
    assert verdict.reason == "PartiallyPublished"
    assert f"{place.removeprefix('file:')}/{DAMAGED}/bucket_00000" in verdict.message
    assert (status.attempt, status.failed_attempts) == (2, 2)
    scene.cleaned(compaction)
    assert scene.names(table) == {**expected.TRY_IT, "prt=p2": expected.TRY_IT_AFTER_MAJOR["prt=p2"]}
    for cleanup in scene.compactions.cleanups(compaction):
        for partition in scene.compactions.cleanup_status(cleanup).partitions:
            assert (partition.partition, partition.state is PublishedState.NOT_PUBLISHED) == ("prt=p2", False)
