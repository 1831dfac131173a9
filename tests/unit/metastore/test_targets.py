"""Which format a table has by what the metastore says, and what is refused because of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import Reason
from compaction_operator.metastore import (
    ORC_INPUT_FORMAT,
    ORC_SERDE,
    Generation,
    MetastoreClient,
    Refused,
    Table,
    compactable_table,
    hudi_table,
    require_one_compactor,
)
from tests.support.metastore import FakeMetastore, serving

REF = TableRef(database="lake", name="orders")
ACID = Table(
    database="lake",
    name="orders",
    location="file:/warehouse/lake/orders",
    create_time=1,
    input_format=ORC_INPUT_FORMAT,
    serde=ORC_SERDE,
    columns=(),
    parameters={"transactional": "true"},
)
HUDI = replace(ACID, parameters={}, input_format="org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat")
ICEBERG = replace(
    ACID, parameters={"table_type": "ICEBERG"}, input_format="org.apache.iceberg.mr.hive.HiveIcebergInputFormat"
)
PARQUET = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"


def client(table: Table | None) -> MetastoreClient:
    return serving(*[table] if table else []).client()


@pytest.mark.parametrize(
    ("changes", "hudi"),
    [
        ({}, True),
        ({"input_format": "org.apache.hudi.hadoop.HoodieParquetInputFormat"}, True),
        ({"input_format": PARQUET, "parameters": {"spark.sql.sources.provider": "hudi"}}, True),
        ({"input_format": PARQUET, "parameters": {"spark.sql.sources.provider": "HUDI"}}, True),
        ({"input_format": PARQUET, "parameters": {"spark.sql.sources.provider": "delta"}}, False),
        ({"input_format": PARQUET}, False),
        ({"input_format": ORC_INPUT_FORMAT, "parameters": ACID.parameters}, False),
        ({"input_format": ""}, False),
    ],
)
def test_a_hudi_table_is_recognized_by_its_input_format_or_its_provider(changes: dict[str, Any], hudi: bool) -> None:
    """The first comes from Hudi's sync with Hive, the second from Spark's own catalog."""
    assert replace(HUDI, **changes).is_hudi is hudi


def test_each_format_is_found_by_its_own_types() -> None:
    assert hudi_table(client(HUDI), REF) == HUDI
    assert compactable_table(client(ACID), REF) == ACID


@pytest.mark.parametrize(
    ("find", "table", "reason", "named"),
    [
        (hudi_table, None, Reason.TABLE_NOT_FOUND, "lake.orders does not exist"),
        (hudi_table, ACID, Reason.WRONG_FORMAT, "lake.orders is not a Hudi table: its input format is"),
        (compactable_table, None, Reason.TABLE_NOT_FOUND, "lake.orders does not exist"),
        (compactable_table, HUDI, Reason.WRONG_FORMAT, "its types are LogCompaction, Compaction, Clean and Archive"),
        (compactable_table, ICEBERG, Reason.WRONG_FORMAT, "lake.orders is an Iceberg table"),
    ],
)
def test_a_table_of_the_other_format_is_refused(
    find: Callable[[MetastoreClient, TableRef], Table], table: Table | None, reason: Reason, named: str
) -> None:
    """Nothing of a Hudi table is ever taken for deltas, nor the other way round."""
    with pytest.raises(Refused, match=named) as caught:
        find(client(table), REF)
    assert caught.value.reason is reason


@pytest.mark.parametrize(("of_table", "of_database"), [("true", ""), ("", "TRUE"), ("false", "false")])
def test_a_replica_is_refused_until_its_first_incremental_load(of_table: str, of_database: str) -> None:
    """HIVE-21197: as Hive's Initiator does, by the property of the table or of its database."""
    pending = {"hive.repl.first.inc.pending": of_table}
    metastore = serving(replace(ACID, parameters={**ACID.parameters, **pending}))
    metastore.databases["lake"] = {"hive.repl.first.inc.pending": of_database}
    if (of_table, of_database) == ("false", "false"):
        compactable_table(metastore.client(), REF)
        return
    with pytest.raises(Refused, match="replica before its first incremental load") as refused:
        compactable_table(metastore.client(), REF)
    assert refused.value.reason is Reason.UNSUPPORTED_TABLE


def one_compactor(
    generation: Generation, *, initiator: str = "true", allowed: bool = False, table: Table = ACID
) -> None:
    metastore = FakeMetastore(generation, settings={"hive.compactor.initiator.on": initiator})
    require_one_compactor(metastore.client(), table, allowed=allowed)


@pytest.mark.parametrize(("initiator", "says"), [("true", "Hive compacts"), ("", "Hive may compact")])
def test_what_hive_3_may_compact_by_itself_is_refused_with_what_to_do(initiator: str, says: str) -> None:
    """H23: its Worker has no second look."""
    with pytest.raises(Refused, match=says) as refused:
        one_compactor(Generation.HIVE3, initiator=initiator)
    assert refused.value.reason is Reason.AUTO_COMPACTION_ON
    assert "ALTER TABLE lake.orders SET TBLPROPERTIES ('NO_AUTO_COMPACTION'='true')" in str(refused.value)


def test_a_table_without_another_compactor_or_with_permission_is_accepted() -> None:
    marked = replace(ACID, parameters={**ACID.parameters, "NO_AUTO_COMPACTION": "true"})
    one_compactor(Generation.HIVE3, table=marked)
    one_compactor(Generation.HIVE3, initiator="false")
    one_compactor(Generation.HIVE3, allowed=True)
    one_compactor(Generation.HIVE4)
