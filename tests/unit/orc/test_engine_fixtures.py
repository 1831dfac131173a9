"""Every table of tests/fixtures, compacted here, equals row for row what Hive's own compactor made of it."""

from pathlib import Path

import pytest

from compaction_operator.acid.names import DirectoryKind, bucket_of_property
from compaction_operator.orc import merge_bucket, verify_output
from compaction_operator.orc.file import read_tail
from compaction_operator.orc.spec.schema import same
from tests.unit.orc.build import Partition, delete_task, insert_task, partitions, read_events, read_table, text_of

pytestmark = pytest.mark.usefixtures("rewriting")
EVERY_PARTITION = pytest.mark.parametrize("partition", partitions(), ids=str)
COMPACTED_MINOR = pytest.mark.parametrize(
    "partition", [partition for partition in partitions() if partition.has_minor()], ids=str
)


@EVERY_PARTITION
def test_major_is_hives_major(partition: Partition, tmp_path: Path):
    """Rows, ROW__IDs, currentTransaction, type tree and user metadata; a bucket that Hive leaves out is empty here."""
    by_hive = partition.written_by_hive("after-major", DirectoryKind.BASE)
    deletes = partition.deletes()
    for bucket in partition.buckets():
        output = tmp_path / f"bucket_{bucket:05d}"
        inputs = partition.inserts(bucket, base=True)
        schema_from = tuple(file.path for file in deletes)
        task = insert_task(output, inputs, deletes, write_ids=partition.write_ids, schema_from=schema_from)
        verify_output(task, merge_bucket(task))
        _check_like_hives(output, by_hive.get(bucket))


@COMPACTED_MINOR
def test_minor_rows_are_hives_minor_rows(partition: Partition, tmp_path: Path):
    """The delta keeps every valid insert event, deleted later or not."""
    by_hive = partition.written_by_hive("after-minor", DirectoryKind.DELTA)
    schema_from = tuple(file.path for file in partition.deletes())
    for bucket in partition.buckets():
        output = tmp_path / f"bucket_{bucket:05d}"
        inputs = partition.inserts(bucket, base=False)
        task = insert_task(output, inputs, write_ids=partition.write_ids, schema_from=schema_from)
        verify_output(task, merge_bucket(task))
        _check_like_hives(output, by_hive.get(bucket))


@COMPACTED_MINOR
def test_minor_delete_events_are_hives_each_once(partition: Partition, tmp_path: Path):
    """All events that Hive kept, each in the file of its own bucket only (Hive 3.1.3 copies them into every file)."""
    by_hive = partition.written_by_hive("after-minor", DirectoryKind.DELETE_DELTA)
    expected = {event[:5] for file in by_hive.values() for event in read_events(file)}
    found = []
    for bucket in partition.buckets() if partition.deletes() else []:
        output = tmp_path / f"bucket_{bucket:05d}"
        task = delete_task(output, partition.deletes(), bucket=bucket, write_ids=partition.write_ids)
        result = merge_bucket(task)
        verify_output(task, result)
        events = read_events(output)
        assert {bucket_of_property(event[2]) for event in events} <= {bucket}
        assert result.delete_events_in == len(expected)
        found += [event[:5] for event in events]
    assert len(found) == len(expected)
    assert set(found) == expected


def _check_like_hives(output: Path, by_hive: Path | None) -> None:
    if by_hive is None:
        assert read_table(output).num_rows == 0
        return
    assert text_of(output) == text_of(by_hive)
    ours, theirs = read_tail(str(output)), read_tail(str(by_hive))
    assert same(theirs.types, 0, ours.types, 0)
    assert ours.user_metadata == theirs.user_metadata
    assert ours.footer.calendar == theirs.footer.calendar
