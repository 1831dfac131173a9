"""Properties of a table, and the bundle that supports it."""

from pathlib import Path

import pytest

from compaction_operator.api.request import Reason
from compaction_operator.hudi import HudiTable, UnsupportedVersionError, bundle_for, read_table
from compaction_operator.hudi.errors import HudiError, NotHudiError, NotMergeOnReadError
from compaction_operator.hudi.properties import line_of, parse_properties, table_of
from compaction_operator.storage import LocalStorage

VERSION_6 = r"""#Properties saved on 2026-11-22T06\:10\:01Z
#Sun Nov 22 06:10:01 UTC 2026
hoodie.table.type=MERGE_ON_READ
hoodie.table.precombine.field=ts
hoodie.compaction.payload.class=org.apache.hudi.common.model.DefaultHoodieRecordPayload
hoodie.table.name=orders
hoodie.table.version=6
"""

VERSION_9 = r"""
hoodie.table.type=MERGE_ON_READ
hoodie.table.ordering.fields=ts,lsn
hoodie.record.merge.mode=EVENT_TIME_ORDERING
hoodie.record.merge.strategy.id=eeb8d96f-b1e4-49fd-bbf8-28ac514178e5
hoodie.table.metadata.partitions=files,record_index
hoodie.table.name=a\=b \u00fc
hoodie.table.version=9
"""


def written(folder: Path, text: str, name: str = "hoodie.properties") -> str:
    (folder / ".hoodie").mkdir(exist_ok=True)
    (folder / ".hoodie" / name).write_text(text)
    return str(folder)


def test_a_table_of_version_6_names_its_ordering_field_the_old_way(tmp_path: Path) -> None:
    table = read_table(LocalStorage(), written(tmp_path, VERSION_6))
    assert table == HudiTable(
        location=str(tmp_path),
        name="orders",
        table_version=6,
        is_merge_on_read=True,
        ordering_fields=("ts",),
        payload_class="org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    )


def test_a_table_of_version_9_says_how_it_merges_and_what_its_metadata_table_has(tmp_path: Path) -> None:
    table = read_table(LocalStorage(), written(tmp_path, VERSION_9))
    assert table.name == "a=b ü"
    assert (table.ordering_fields, table.merge_mode) == (("ts", "lsn"), "EVENT_TIME_ORDERING")
    assert table.metadata_partitions == ("files", "record_index")


def test_while_hudi_changes_the_file_its_backup_is_read(tmp_path: Path) -> None:
    location = written(tmp_path, VERSION_6, "hoodie.properties.backup")
    assert read_table(LocalStorage(), location).table_version == 6
    written(tmp_path, "hoodie.table.name=orders\n")
    assert read_table(LocalStorage(), location).table_version == 6


@pytest.mark.parametrize("text", [None, "", "hoodie.table.name=x\nhoodie.table.version=eight\n"])
def test_what_is_no_hudi_table_is_refused_by_the_name_of_the_file(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        written(tmp_path, text)
    with pytest.raises(NotHudiError, match=r"\.hoodie/hoodie\.properties") as caught:
        read_table(LocalStorage(), str(tmp_path))
    assert caught.value.reason is Reason.TABLE_NOT_FOUND


def test_a_copy_on_write_table_is_refused(tmp_path: Path) -> None:
    table = read_table(LocalStorage(), written(tmp_path, VERSION_6.replace("MERGE_ON_READ", "COPY_ON_WRITE")))
    with pytest.raises(NotMergeOnReadError, match="copy-on-write"):
        table.require_merge_on_read()


def of_version(version: int) -> HudiTable:
    return HudiTable(location="/t", name="t", table_version=version, is_merge_on_read=True)


@pytest.mark.parametrize(("version", "bundle"), [(6, "1.0.2"), (8, "1.0.2"), (9, "1.2.0")])
def test_the_bundle_follows_from_the_tables_version(version: int, bundle: str) -> None:
    assert bundle_for(of_version(version), None) == bundle


@pytest.mark.parametrize("version", [6, 8])
def test_a_table_with_the_new_name_of_the_ordering_field_is_not_for_a_bundle_that_ignores_it(
    tmp_path: Path, version: int
) -> None:
    """1.0.2 would merge it by the order of arrival."""
    text = VERSION_9.replace("version=9", f"version={version}")
    table = read_table(LocalStorage(), written(tmp_path, text))
    assert bundle_for(table, None) == "1.2.0"
    with pytest.raises(
        UnsupportedVersionError, match=r"hoodie\.table\.ordering\.fields.*bundle 1\.0\.2 does not support"
    ):
        bundle_for(table, "1.0.2")
    both = read_table(LocalStorage(), written(tmp_path, f"{text}hoodie.table.precombine.field=ts\n"))
    assert bundle_for(both, None) == "1.0.2"


@pytest.mark.parametrize(("version", "last"), [(6, True), (8, True), (9, False)])
def test_readers_of_a_version_decide_where_a_merged_block_may_stand(version: int, last: bool) -> None:
    assert of_version(version).replays_merged_blocks_last is last


def test_a_bundle_that_serves_the_table_may_be_chosen() -> None:
    assert bundle_for(of_version(8), "1.2.0") == "1.2.0"


@pytest.mark.parametrize(
    ("version", "wanted", "said"),
    [
        (9, "1.0.2", "hudi.bundle 1.0.2 does not support"),
        (8, "1.1.1", "hudi.bundle 1.1.1 is unknown"),
        (10, None, "no bundle supports"),
        (5, None, "no bundle supports"),
    ],
)
def test_a_version_that_no_bundle_supports_is_refused(version: int, wanted: str | None, said: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=said):
        bundle_for(of_version(version), wanted)


@pytest.mark.parametrize(("bundle", "line"), [("1.0.2", "1.0"), ("1.0.10", "1.0"), ("1.2.1", "1.2")])
def test_a_release_belongs_to_the_line_of_its_first_two_numbers(bundle: str, line: str) -> None:
    assert line_of(bundle) == line


@pytest.mark.parametrize("bundle", ["1.1.1", "0.15.0", "1.20.0", "1.3.0", "2.0.0", "1.2", "1"])
def test_a_release_of_another_line_is_taken_for_none_that_is_known(bundle: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"Hudi {bundle} is of no line that the operator knows"):
        line_of(bundle)


def test_properties_are_read_as_java_writes_them() -> None:
    text = "# a comment\n! another\nkey\\:one=a\\\\b\\=c\n  two = d e \nempty=\ntab=a\\tb\n"
    assert parse_properties(text) == {"key:one": "a\\b=c", "two": "d e", "empty": "", "tab": "a\tb"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.cdc.enabled", "true"),
        ("hoodie.populate.meta.fields", "false"),
        ("hoodie.table.base.file.format", "HFILE"),
        ("hoodie.table.multiple.base.file.formats.enable", "true"),
        ("hoodie.bootstrap.base.path", "hdfs:/old"),
        ("hoodie.table.format", "ICEBERG"),
        ("hoodie.compaction.payload.type", "PARTIAL_UPDATE_AVRO"),
    ],
)
def test_a_table_with_features_that_are_not_supported_is_refused_by_their_names(key: str, value: str) -> None:
    found = {"hoodie.table.name": "t", "hoodie.table.version": "8", "hoodie.table.type": "MERGE_ON_READ"}
    plain = {"hoodie.table.cdc.enabled": "false", "hoodie.table.base.file.format": "PARQUET"}
    table_of("/t", {**found, **plain}).require_known_features()
    with pytest.raises(HudiError, match=f"{key}={value}"):
        table_of("/t", {**found, key: value}).require_known_features()
