"""Options of Hudi's write client, and those that a user may not set."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.hudi import HudiMode, HudiOptions
from compaction_operator.api.request import Reason
from compaction_operator.hudi import (
    HudiError,
    HudiTable,
    RefusedOptionError,
    require_fitting_type,
    threshold,
    write_options,
)
from compaction_operator.hudi.errors import NoLockProviderError

ZOOKEEPER = "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
LOCKS = {"hoodie.write.lock.provider": ZOOKEEPER, "hoodie.write.lock.zookeeper.url": "zk:2181"}
TABLE = HudiTable(
    location="/warehouse/orders",
    name="orders",
    table_version=8,
    is_merge_on_read=True,
    ordering_fields=("ts",),
    merge_mode="EVENT_TIME_ORDERING",
    payload_class="org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    metadata_partitions=("files", "column_stats"),
)


def options(table: HudiTable = TABLE, partitions: tuple[str, ...] = (), **fields: object) -> dict[str, str]:
    return write_options(table, warehouse=LOCKS, own=HudiOptions.model_validate(fields), partitions=partitions)


def test_a_users_options_go_over_the_warehouses() -> None:
    found = options(options={"hoodie.write.lock.zookeeper.url": "other:2181", "hoodie.compaction.target.io": "100"})
    assert found["hoodie.write.lock.zookeeper.url"] == "other:2181"
    assert found["hoodie.write.lock.provider"] == ZOOKEEPER
    assert found["hoodie.compaction.target.io"] == "100"


def test_a_table_with_features_that_are_not_supported_is_refused() -> None:
    with pytest.raises(HudiError, match=r"hoodie\.table\.cdc\.enabled=true"):
        options(replace(TABLE, features=("hoodie.table.cdc.enabled=true",)))


@pytest.mark.parametrize(
    ("type_", "given", "partitions", "named"),
    [
        (CompactionType.CLEAN, {}, ("2024",), "partitions does not apply to type Clean"),
        (CompactionType.ARCHIVE, {}, ("2024",), "partitions does not apply to type Archive"),
        (CompactionType.CLEAN, {"mode": "Schedule"}, (), "hudi.mode does not apply to type Clean"),
        (CompactionType.CLEAN, {"max_log_file_size_to_merge": "1MiB"}, (), "hudi.maxLogFileSizeToMerge does not"),
        (CompactionType.CLEAN, {"metadata_table": True}, (), "hudi.metadataTable does not"),
        (CompactionType.ARCHIVE, {"clean": True}, (), "hudi.clean does not apply to type Archive"),
    ],
)
def test_what_does_not_apply_to_upkeep_is_named(
    type_: CompactionType, given: dict[str, Any], partitions: tuple[str, ...], named: str
) -> None:
    own = HudiOptions.model_validate(given)
    with pytest.raises(RefusedOptionError) as refused:
        require_fitting_type(type_, own, partitions=partitions)
    assert named in str(refused.value)


def test_a_clean_may_archive_too_and_compactions_have_all_fields() -> None:
    require_fitting_type(CompactionType.CLEAN, HudiOptions(clean=True, archive=True), partitions=())
    require_fitting_type(CompactionType.COMPACTION, HudiOptions(mode=HudiMode.SCHEDULE), partitions=("2024",))


@pytest.mark.parametrize("level", ["MEMORY_ONLY", "MEMORY_ONLY_SER_2", "OFF_HEAP", "NONE"])
def test_a_run_keeps_what_it_wrote_until_the_commit(level: str) -> None:
    """A file group whose status was dropped from memory would be written twice."""
    key = "hoodie.write.status.storage.level"
    with pytest.raises(RefusedOptionError, match=rf"{key}\] is '{level}'"):
        options(options={key: level})
    assert options(options={key: "disk_only"})[key] == "disk_only"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.write.auto.upgrade", "false"),
        ("hoodie.write.concurrency.mode", "optimistic_concurrency_control"),
        ("hoodie.clean.failed.writes.policy", "LAZY"),
        ("hoodie.embed.timeline.server", "false"),
        ("hoodie.clean.automatic", "false"),
        ("hoodie.archive.automatic", "false"),
        ("hoodie.log.compaction.inline", "false"),
        ("hoodie.metadata.auto.delete.partitions", "false"),
        ("hoodie.write.markers.type", "DIRECT"),
        ("hoodie.auto.commit", "false"),
    ],
)
def test_what_always_holds_is_set_and_refused_otherwise(key: str, value: str) -> None:
    assert options()[key] == value
    assert options(options={key: value.upper()})[key] == value
    with pytest.raises(RefusedOptionError, match=key):
        options(options={key: "something else"})


@pytest.mark.parametrize(
    "key",
    [
        "hoodie.base.path",
        "hoodie.table.name",
        "hoodie.write.table.version",
        "hoodie.cleaner.policy.failed.writes",
        "hoodie.datasource.write.payload.class",
        "hoodie.payload.ordering.field",
        "hoodie.metadata.enable",
        "hoodie.metadata.index.bloom.filter.enable",
        "hoodie.write.commit.callback.http.url",
        "hoodie.write.schema",
        "hoodie.internal.schema",
        "hoodie.populate.meta.fields",
        "hoodie.client.init.callback.classes",
        "hoodie.auto.commit",
        "hoodie.write.lock.conflict.resolution.strategy",
    ],
)
def test_what_the_table_decides_is_refused_from_a_user_and_from_a_warehouse(key: str) -> None:
    with pytest.raises(RefusedOptionError, match=key):
        options(options={key: "x"})
    with pytest.raises(RefusedOptionError, match=key):
        write_options(TABLE, warehouse=LOCKS | {key: "x"}, own=HudiOptions(), partitions=())


def test_what_is_none_of_hudis_options_is_refused() -> None:
    with pytest.raises(RefusedOptionError, match=r"spark\.jars"):
        options(options={"spark.jars": "evil.jar"})


def test_the_client_gets_the_ordering_of_the_tables_records() -> None:
    """A client of 1.0.2 does not derive it: a late record would overwrite a newer one in a full compaction."""
    found = options()
    assert found["hoodie.payload.ordering.field"] == "ts"
    assert found["hoodie.datasource.write.precombine.field"] == "ts"
    assert found["hoodie.record.merge.mode"] == "EVENT_TIME_ORDERING"
    assert found["hoodie.compaction.payload.class"] == TABLE.payload_class


def test_a_table_without_an_ordering_field_is_given_none() -> None:
    table = HudiTable(
        location="/t", name="t", table_version=9, is_merge_on_read=True, merge_mode="COMMIT_TIME_ORDERING"
    )
    assert "hoodie.payload.ordering.field" not in options(table)


def test_a_table_that_releases_merge_differently_gets_no_client() -> None:
    with pytest.raises(HudiError, match=r"com\.acme\.Payload") as caught:
        options(replace(TABLE, payload_class="com.acme.Payload"))
    assert caught.value.reason is Reason.UNSUPPORTED_TABLE


def test_the_metadata_table_keeps_exactly_the_indexes_that_it_has() -> None:
    """A client that does not know of an index deletes it, and one that thinks there should be another builds it."""
    found = options()
    assert found["hoodie.metadata.enable"] == "true"
    assert found["hoodie.metadata.index.column.stats.enable"] == "true"
    assert found["hoodie.metadata.record.index.enable"] == "false"
    assert found["hoodie.metadata.index.bloom.filter.enable"] == "false"


def test_a_table_without_a_metadata_table_gets_none() -> None:
    table = HudiTable(
        location="/t", name="t", table_version=9, is_merge_on_read=True, merge_mode="COMMIT_TIME_ORDERING"
    )
    assert options(table)["hoodie.metadata.enable"] == "false"
    with pytest.raises(RefusedOptionError, match="/t has no metadata table"):
        options(table, metadataTable=True)


@pytest.mark.parametrize("provider", [None, "InProcessLockProvider", "NoopLockProvider"])
def test_without_a_lock_that_holds_between_processes_nothing_is_done(provider: str | None) -> None:
    name = f"org.apache.hudi.client.transaction.lock.{provider}"
    own = HudiOptions(options={} if provider is None else {"hoodie.write.lock.provider": name})
    with pytest.raises(NoLockProviderError, match=r"hudi\.singleWriter"):
        write_options(TABLE, warehouse={}, own=own, partitions=())


def test_a_declared_single_writer_needs_no_lock() -> None:
    found = write_options(TABLE, warehouse={}, own=HudiOptions(single_writer=True), partitions=())
    assert found["hoodie.write.concurrency.mode"] == "single_writer"


def test_locks_by_files_are_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    provider = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"}
    with caplog.at_level(logging.WARNING):
        write_options(TABLE, warehouse=provider, own=HudiOptions(), partitions=())
    assert "deletes it" in caplog.text


FILE_LOCKS = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"


@pytest.mark.parametrize(
    ("location", "given"),
    [
        ("s3a://lake/orders", {}),
        ("s3://lake/orders", {"hoodie.fs.atomic_creation.support": "s3,s3a"}),
        ("/warehouse/orders", {"hoodie.write.lock.filesystem.path": "s3a://lake/locks"}),
    ],
)
def test_locks_by_files_on_s3_are_refused(location: str, given: dict[str, str]) -> None:
    """Hudi throws, and would take them with hoodie.fs.atomic_creation.support; but S3A creates no file atomically."""
    table, own = replace(TABLE, location=location), HudiOptions(options=given)
    with pytest.raises(RefusedOptionError, match="two clients may create one lock file") as caught:
        write_options(table, warehouse={"hoodie.write.lock.provider": FILE_LOCKS}, own=own, partitions=())
    assert caught.value.reason is Reason.REFUSED_OPTION
    write_options(table, warehouse={}, own=HudiOptions(options=given, single_writer=True), partitions=())


def test_locks_by_files_elsewhere_may_be_for_a_table_on_s3() -> None:
    table = replace(TABLE, location="s3a://lake/orders")
    locks = {"hoodie.write.lock.provider": FILE_LOCKS, "hoodie.write.lock.filesystem.path": "hdfs://nn/locks"}
    assert write_options(table, warehouse=locks, own=HudiOptions(), partitions=())["hoodie.write.lock.provider"]


@pytest.mark.parametrize("text", ["1", "0", "-3", "five", "²", ""])
def test_a_threshold_is_a_number_of_blocks(text: str) -> None:
    with pytest.raises(RefusedOptionError, match=r"log\.compaction\.blocks\.threshold"):
        options(options={"hoodie.log.compaction.blocks.threshold": text})


def test_the_metadata_table_has_a_threshold_of_its_own() -> None:
    given = {"hoodie.metadata.log.compaction.blocks.threshold": "9", "hoodie.log.compaction.blocks.threshold": "4"}
    assert threshold(given, of_metadata_table=True) == 9
    assert threshold(given, of_metadata_table=False) == 4
    assert threshold({}, of_metadata_table=True) == 5


def test_log_compaction_of_the_metadata_table_is_on_when_that_is_asked_for_only() -> None:
    key = "hoodie.metadata.log.compaction.enable"
    assert (options()[key], options(metadataTable=True)[key]) == ("false", "true")


def test_a_limit_of_sizes_is_refused_where_a_file_may_hold_blocks_of_many_commits() -> None:
    table = HudiTable(location="/t", name="t", table_version=6, is_merge_on_read=True)
    with pytest.raises(RefusedOptionError, match="maxLogFileSizeToMerge"):
        options(table, maxLogFileSizeToMerge="1MiB")


def test_a_compaction_of_some_partitions_is_planned_by_hudis_own_strategy() -> None:
    key = "hoodie.compaction.partition.path.regex"
    assert key not in options()
    assert options(partitions=("dt=2024-01-01", "/a.b/"))[key] == r"^(dt=2024\-01\-01|a\.b)(/.*)?$"


def test_a_strategy_beside_partitions_is_refused_as_the_partitions_need_one_of_their_own() -> None:
    strategy = {"hoodie.compaction.strategy": "org.apache.hudi.table.action.compact.strategy.LogFileNumBasedStrategy"}
    assert options(options=strategy)["hoodie.compaction.strategy"] == strategy["hoodie.compaction.strategy"]
    with pytest.raises(RefusedOptionError, match=r"hoodie\.compaction\.strategy"):
        options(options=strategy, partitions=("dt=2024-01-01",))


def test_the_metadata_table_of_version_6_is_left_to_its_writers() -> None:
    with pytest.raises(RefusedOptionError, match="from version 8 on"):
        options(replace(TABLE, table_version=6), metadataTable=True)


def test_the_metadata_table_has_none_of_the_tables_partitions() -> None:
    with pytest.raises(RefusedOptionError, match="without partitions"):
        options(metadataTable=True, partitions=("dt=2024-01-01",))
