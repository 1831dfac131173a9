"""What the engine keeps, drops and refuses, on files made for it."""

import hashlib
import resource
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pytest
from sandbox.harness.orctail import content_end, rewrite_tail, write_tail

from compaction_operator.orc import InputFile, KeyRange, OrcError, OriginalRows, merge_bucket, verify_output
from compaction_operator.orc.file import read_tail
from compaction_operator.orc.merge import output
from compaction_operator.orc.spec import Compression, Kind
from compaction_operator.orc.spec.schema import same
from tests.unit.orc.build import (
    BUCKET_0,
    BUCKET_1,
    DATA,
    FIXTURES,
    SCHEMA,
    Event,
    delete,
    delete_task,
    insert,
    insert_task,
    merged,
    physical_row,
    read_events,
    read_table,
    write_acid,
)


def test_rows_come_out_in_the_order_of_their_keys_whatever_the_order_of_the_files(tmp_path: Path):
    """Files that overlap (statements of one write id, a delta inside the range of another) are interleaved."""
    later = write_acid(tmp_path / "a", [insert(2, 0), insert(3, 0), insert(9, 0)])
    earlier = write_acid(tmp_path / "b", [insert(1, 0), insert(2, 0, bucket=BUCKET_0 + 1), insert(9, 1)])
    rows = merged(insert_task(tmp_path / "out", [later, earlier]))
    assert rows == [
        insert(1, 0),
        insert(2, 0),
        insert(2, 0, bucket=BUCKET_0 + 1),
        insert(3, 0),
        insert(9, 0),
        insert(9, 1),
    ]


def test_negative_row_ids_and_write_ids_beyond_32_bits_sort_as_numbers(tmp_path: Path):
    high = 2**40
    file = write_acid(tmp_path / "a", [insert(9, 10), insert(10, 9), insert(high, 1), insert(high + 1, 0)])
    write_ids = f"db.t:{high + 1}:9223372036854775807::"
    assert [row[1:4:2] for row in merged(insert_task(tmp_path / "out", [file], write_ids=write_ids))] == [
        (9, 10),
        (10, 9),
        (high, 1),
        (high + 1, 0),
    ]


@pytest.mark.parametrize(("columns", "size"), [(0, 262144), (40, 131072), (300, 65536)])
def test_compression_frames_are_smaller_the_more_columns_a_table_has(tmp_path: Path, columns: int, size: int):
    """Hive's reader allocates one for each stream. But a copied stripe's must fit: 64 kB here."""
    file = write_acid(tmp_path / "a", [insert(1, 0)], compression_block_size=65536)
    more = "".join(f",c{number}:int" for number in range(columns))
    merge_bucket(insert_task(tmp_path / "out", [file], row_type=f"struct<id:int,s:string{more}>"))
    assert read_tail(str(tmp_path / "out")).block_size == size


def test_rows_of_open_and_aborted_write_ids_are_left_out_and_not_counted(tmp_path: Path):
    file = write_acid(tmp_path / "a", [insert(1, 0), insert(2, 0), insert(3, 0), insert(4, 0), insert(5, 0)])
    result = merge_bucket(insert_task(tmp_path / "out", [file], write_ids="db.t:4:3:3:2"))
    assert [row[1] for row in read_events(tmp_path / "out")] == [1, 4]
    assert (result.rows_in, result.rows_out, result.rows_deleted) == (2, 2, 0)
    assert result.rows_in_by_write_id == {1: 1, 4: 1}


def test_a_delete_event_hits_only_the_row_with_its_whole_row_id(tmp_path: Path):
    """Same row id in another write id or bucket property stays."""
    file = write_acid(tmp_path / "a", [insert(1, 0), insert(1, 1), insert(1, 0, bucket=BUCKET_1), insert(2, 0)])
    deletes = write_acid(tmp_path / "d", [delete(1, 0, by=3)])
    result = merge_bucket(insert_task(tmp_path / "out", [file], [deletes]))
    assert read_events(tmp_path / "out") == [insert(1, 1), insert(1, 0, bucket=BUCKET_1), insert(2, 0)]
    assert (result.rows_deleted, result.delete_events_in) == (1, 1)


@pytest.mark.parametrize("write_ids", ["db.t:5:3:3:", "db.t:5:9223372036854775807::3", "db.t:2:9223372036854775807::"])
def test_a_delete_event_that_is_not_valid_deletes_nothing(tmp_path: Path, write_ids: str):
    """Open, aborted, or above the high watermark."""
    file = write_acid(tmp_path / "a", [insert(1, 0)])
    deletes = write_acid(tmp_path / "d", [delete(1, 0, by=3)])
    assert merged(insert_task(tmp_path / "out", [file], [deletes], write_ids=write_ids)) == [insert(1, 0)]


def test_current_transaction_is_kept_where_it_differs_from_the_row_id(tmp_path: Path):
    file = write_acid(tmp_path / "a", [insert(1, 0, current=4)])
    assert merged(insert_task(tmp_path / "out", [file])) == [insert(1, 0, current=4)]


def test_two_rows_with_one_row_id_are_refused(tmp_path: Path):
    """As overlapping compactions would leave them: never doubled, never guessed."""
    one = write_acid(tmp_path / "a", [insert(1, 0), insert(1, 1)])
    two = write_acid(tmp_path / "b", [insert(1, 1), insert(1, 2)])
    with pytest.raises(OrcError, match=r"more than one row has the ROW__ID \(1, 536870912, 1\)"):
        merge_bucket(insert_task(tmp_path / "out", [one, two]))
    assert not (tmp_path / "out").exists()


def test_delete_events_are_kept_once_each_in_their_bucket_newest_first(tmp_path: Path):
    """Events come twice from Hive 3.1.3's own minor; of one row the newest event goes first (ReaderKey)."""
    one = write_acid(tmp_path / "a", [delete(1, 0, by=3), delete(1, 0, by=3, bucket=BUCKET_1)])
    two = write_acid(tmp_path / "b", [delete(1, 0, by=3), delete(1, 0, by=5), delete(1, 9, by=4)])
    task = delete_task(tmp_path / "out", [one, two])
    result = merge_bucket(task)
    assert read_events(tmp_path / "out") == [delete(1, 0, by=5), delete(1, 0, by=3), delete(1, 9, by=4)]
    assert (result.delete_events_in, result.delete_events_out) == (4, 3)
    verify_output(task, result)
    assert read_tail(str(tmp_path / "out")).user_metadata["hive.acid.stats"] == b"0,0,3"


def test_delete_events_that_are_not_valid_are_dropped(tmp_path: Path):
    file = write_acid(tmp_path / "a", [delete(1, 0, by=3), delete(1, 1, by=4)])
    assert merged(delete_task(tmp_path / "out", [file], write_ids="db.t:9:9:9:4")) == [delete(1, 0, by=3)]


def test_a_delete_delta_may_be_older_than_a_new_column(tmp_path: Path):
    """Delete events have no row, so its type may differ; that of the last file is taken."""
    wider = SCHEMA.set(5, pa.field("row", pa.struct([("id", pa.int32()), ("s", pa.string()), ("n", pa.int64())])))
    old = write_acid(tmp_path / "a", [delete(1, 0, by=3)])
    new = write_acid(tmp_path / "b", [delete(1, 1, by=4)], schema=wider)
    assert merged(delete_task(tmp_path / "out", [old, new])) == [delete(1, 0, by=3), delete(1, 1, by=4)]
    assert read_table(tmp_path / "out").schema.equals(wider)


def test_nothing_left_is_a_file_of_no_rows_with_the_inputs_types(tmp_path: Path):
    file = write_acid(tmp_path / "a", [insert(1, 0)])
    deletes = write_acid(tmp_path / "d", [delete(1, 0, by=2)])
    task = insert_task(tmp_path / "out", [file], [deletes])
    result = merge_bucket(task)
    tail = read_tail(str(tmp_path / "out"))
    assert (tail.rows, tail.stripe_rows) == (0, [])
    assert tail.user_metadata == {
        "hive.acid.key.index": b"",
        "hive.acid.stats": b"0,0,0",
        "hive.acid.version": b"2",
    }
    verify_output(task, result)
    assert merged(insert_task(tmp_path / "again", [InputFile(str(tmp_path / "out")), file])) == [insert(1, 0)]


def test_without_inputs_the_types_come_from_the_files_named_for_it(tmp_path: Path):
    model = write_acid(tmp_path / "d", [delete(1, 0, by=2)])
    assert merged(insert_task(tmp_path / "out", [], schema_from=(model.path,))) == []
    assert read_table(tmp_path / "out").schema.equals(SCHEMA)
    with pytest.raises(OrcError, match="no input file to take the columns from"):
        merge_bucket(insert_task(tmp_path / "none", []))


def test_rows_from_before_acid_become_insert_events_of_write_id_zero(tmp_path: Path):
    """Consecutive row ids over stripes and files, the bucket property of the task, delete events apply."""
    table = pa.table({"id": pa.array(range(5), pa.int32()), "s": pa.array(list("abcde"))})
    first, second = tmp_path / "000000_0", tmp_path / "000000_0_copy_1"
    po.write_table(table, str(first), compression="zlib")
    po.write_table(table.slice(0, 2), str(second), compression="zlib")
    inputs = [
        InputFile(str(first), OriginalRows(bucket_property=BUCKET_0, first_row_id=0)),
        InputFile(str(second), OriginalRows(bucket_property=BUCKET_0, first_row_id=5)),
        write_acid(tmp_path / "delta", [insert(10000001, 0)]),
    ]
    deletes = write_acid(tmp_path / "d", [delete(0, 1, by=10000002), delete(0, 6, by=10000002)])
    write_ids = "db.t:10000002:9223372036854775807::"
    rows = merged(insert_task(tmp_path / "out", inputs, [deletes], write_ids=write_ids))
    values = [(row[0], row[1], row[3], row[4], row[5]["s"]) for row in rows if row[5]]
    assert values == [
        (0, 0, 0, 0, "a"),
        (0, 0, 2, 0, "c"),
        (0, 0, 3, 0, "d"),
        (0, 0, 4, 0, "e"),
        (0, 0, 5, 0, "a"),
        (0, 10000001, 0, 10000001, "x"),
    ]


def test_the_key_index_has_the_last_key_of_every_stripe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Read and written over several stripes."""
    monkeypatch.setattr(output, "STRIPE_BYTES", 150_000)
    rows = [insert(1, number, hashlib.sha512(b"%d" % number).hexdigest()) for number in range(6000)]
    file = write_acid(tmp_path / "a", rows, stripe_size=1)
    assert len(read_tail(file.path).stripe_rows) > 1
    task = insert_task(tmp_path / "out", [file])
    result = merge_bucket(task)
    tail = read_tail(str(tmp_path / "out"))
    ends = [sum(tail.stripe_rows[: n + 1]) - 1 for n in range(len(tail.stripe_rows))]
    assert len(ends) > 1
    index = "".join(f"1,{BUCKET_0},{end};" for end in ends)
    assert tail.user_metadata["hive.acid.key.index"] == index.encode()
    assert read_events(tmp_path / "out") == rows
    verify_output(task, result)


def test_tiny_stripes_are_joined_only_as_far_as_readers_profit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """However much memory the task has: a large stripe would cost it without use."""
    monkeypatch.setattr(output, "JOINED_MEMORY", 150_000)
    files = [write_acid(tmp_path / f"{w}", [insert(w, number) for number in range(200)]) for w in range(1, 11)]
    task = insert_task(tmp_path / "out", files)
    result = merge_bucket(task)
    verify_output(task, result)
    assert read_tail(str(tmp_path / "out")).stripe_rows == [800, 800, 400]


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_the_output_has_the_codec_and_row_index_of_a_hive_file(tmp_path: Path, codec: str):
    file = write_acid(tmp_path / "a", [insert(1, n, "x" * n) for n in range(200)], compression=codec)
    merged(insert_task(tmp_path / "out", [file]))
    orc = po.ORCFile(str(tmp_path / "out"))
    assert orc.compression == codec.upper()
    assert orc.row_index_stride == 10000
    assert orc.nstripe_statistics == orc.nstripes == 1


def test_of_plain_and_compressed_inputs_the_codec_is_that_of_the_compressed(tmp_path: Path):
    """Hive 3.1.3's minor compaction writes plain files: the table's codec is that of the others."""
    plain = write_acid(tmp_path / "a", [insert(1, n, "x" * n) for n in range(200)], compression="uncompressed")
    packed = write_acid(tmp_path / "b", [insert(2, 0)], compression="snappy")
    merged(insert_task(tmp_path / "out", [packed, plain]))
    assert read_tail(str(tmp_path / "out")).compression is Compression.SNAPPY


@pytest.mark.usefixtures("rewriting")
@pytest.mark.parametrize(
    "name", ["nest", "ts_utc", "ts_local", "ts_neg", "ts_zero", "ts_far", "ts_old", "mapnull", "union"]
)
def test_every_type_and_null_of_a_file_by_hives_writer_is_kept(tmp_path: Path, name: str):
    """Also what Arrow cannot hold; of a time zone other than UTC, the wall clock is kept."""
    source = DATA / f"{name}.orc"
    task = insert_task(tmp_path / "out", [InputFile(str(source))])
    verify_output(task, merge_bucket(task))
    assert physical_row(tmp_path / "out").equals(physical_row(source))
    assert same(read_tail(str(source)).types, 0, read_tail(str(tmp_path / "out")).types, 0)


@pytest.mark.usefixtures("rewriting")
def test_char_and_varchar_stay_themselves_in_the_type_tree(tmp_path: Path):
    merge_bucket(insert_task(tmp_path / "out", [InputFile(str(DATA / "nest.orc"))]))
    char, varchar = read_tail(str(tmp_path / "out")).types[7:9]
    assert (char.kind, char.maximum_length) == (Kind.CHAR, 4)
    assert (varchar.kind, varchar.maximum_length) == (Kind.VARCHAR, 5)


def test_update_events_of_old_hive_are_refused_with_file_and_column(tmp_path: Path):
    source = DATA / "update.orc"
    with pytest.raises(OrcError, match="column operation has update events of Hive before 3") as caught:
        merge_bucket(insert_task(tmp_path / "out", [InputFile(str(source))]))
    assert str(caught.value).startswith(f"{source}: ")
    assert not (tmp_path / "out").exists()


WIDER = SCHEMA.set(5, pa.field("row", pa.struct([("id", pa.int64()), ("s", pa.string()), ("n", pa.int32())])))


def wide(write_id: int, number: int, added: int) -> Event:
    return (0, write_id, BUCKET_0, 0, write_id, {"id": number, "s": "y", "n": added})


def test_rows_get_the_columns_of_the_newest_file(tmp_path: Path):
    """A column that was added is null in older rows, one that was widened keeps its values."""
    old = write_acid(tmp_path / "a", [insert(1, 0)])
    new = write_acid(tmp_path / "b", [wide(2, 2**40, 7)], schema=WIDER)
    rows = merged(insert_task(tmp_path / "out", [old, new]))
    assert [row[5] for row in rows] == [{"id": 0, "s": "x", "n": None}, {"id": 2**40, "s": "y", "n": 7}]


def test_rows_get_the_columns_of_the_table_where_they_are_known(tmp_path: Path):
    """No file was written since the column was added."""
    old = write_acid(tmp_path / "a", [insert(1, 0)])
    rows = merged(insert_task(tmp_path / "out", [old], row_type="struct<id:bigint,s:string,added:array<int>>"))
    assert [row[5] for row in rows] == [{"id": 0, "s": "x", "added": None}]


@pytest.mark.parametrize(
    ("row_type", "reason"),
    [
        ("struct<id:int>", "column s is in this file but not in the table"),
        ("struct<id:smallint,s:string>", "column id is int in this file but smallint in the table"),
        ("struct<id:int,s:binary>", "column s is string in this file but binary in the table"),
        ("struct<id:int,s:strin>", "unknown type strin"),
    ],
)
def test_what_would_lose_something_is_refused_with_file_and_column(tmp_path: Path, row_type: str, reason: str):
    file = write_acid(tmp_path / "a", [insert(1, 0)])
    with pytest.raises(OrcError, match=reason):
        merge_bucket(insert_task(tmp_path / "out", [file], row_type=row_type))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("one", "other", "same"), [(0, 1, True), (1, 1, True), (2, 2, True), (0, 2, False), (2, 1, False)]
)
def test_dates_of_two_calendars_are_never_mixed(tmp_path: Path, one: int, other: int, same: bool):
    """0 (a file that does not say, as Hive 3's) and 1 are the hybrid calendar, 2 the proleptic one."""
    schema = SCHEMA.set(5, pa.field("row", pa.struct([("d", pa.date32())])))
    inputs = []
    for number, calendar in enumerate((one, other)):
        file = write_acid(tmp_path / str(number), [(0, 1, BUCKET_0, number, 1, {"d": None})], schema=schema)
        tail = read_tail(file.path)
        rewrite_tail(file.path, types=tail.types, user_metadata=tail.user_metadata, calendar=calendar)
        inputs.append(file)
    if same:
        assert len(merged(insert_task(tmp_path / "out", inputs))) == 2
        assert read_tail(str(tmp_path / "out")).footer.calendar == one
    else:
        with pytest.raises(OrcError, match="1: its dates use another calendar"):
            merge_bucket(insert_task(tmp_path / "out", inputs))


def test_a_file_with_nulls_in_its_keys_is_refused(tmp_path: Path):
    event = dict(zip(SCHEMA.names, [0, 1, BUCKET_0, None, 1, {"id": 1, "s": "x"}], strict=True))
    po.write_table(pa.Table.from_pylist([event], schema=SCHEMA), str(tmp_path / "a"))
    with pytest.raises(OrcError, match="column rowId has nulls"):
        merge_bucket(insert_task(tmp_path / "out", [InputFile(str(tmp_path / "a"))]))


def test_a_delete_event_among_the_rows_is_refused(tmp_path: Path):
    file = write_acid(tmp_path / "a", [insert(1, 0), delete(1, 0, by=2)])
    with pytest.raises(OrcError, match="column operation is 2, expected 0"):
        merge_bucket(insert_task(tmp_path / "out", [file]))


@pytest.mark.parametrize("bucket", [2**30, -1])
def test_a_bucket_property_of_no_known_codec_is_refused(tmp_path: Path, bucket: int):
    file = write_acid(tmp_path / "a", [delete(1, 0, by=2), delete(1, 1, by=2, bucket=bucket)])
    with pytest.raises(OrcError, match=r"a: column bucket: bucket property .* has codec version"):
        merge_bucket(delete_task(tmp_path / "out", [file]))


def test_more_files_than_a_process_may_have_open(tmp_path: Path):
    """A table that is written to by a stream has thousands of small deltas."""
    files = [write_acid(tmp_path / str(number), [insert(number, 0)]) for number in range(1, 151)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 50, hard))
    try:
        rows = merged(insert_task(tmp_path / "out", files))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [row[1] for row in rows] == list(range(1, 151))


def test_a_file_that_is_no_acid_file_is_refused_unless_given_as_an_original(tmp_path: Path):
    original = FIXTURES / "hive-3.1.3" / "original" / "before" / "000000_0"
    with pytest.raises(OrcError, match="not a Hive ACID file"):
        merge_bucket(insert_task(tmp_path / "out", [InputFile(str(original))]))
    acid = write_acid(tmp_path / "a", [insert(1, 0)])
    with pytest.raises(OrcError, match="it is a Hive ACID file"):
        merge_bucket(insert_task(tmp_path / "out", [InputFile(acid.path, OriginalRows(BUCKET_0, 0))]))


def test_an_original_with_fewer_rows_than_its_footer_says_is_refused(tmp_path: Path):
    """Its rows have no keys that could be counted: before any are made up, there must be so many rows."""
    path = tmp_path / "000000_0"
    po.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), str(path))
    tail = read_tail(str(path))
    tail.footer.number_of_rows = tail.footer.stripes[0].number_of_rows = 1 << 40
    write_tail(tail)
    with pytest.raises(OrcError, match=f"^{path}: stripe 0: column id: "):
        merge_bucket(insert_task(tmp_path / "out", [InputFile(str(path), OriginalRows(BUCKET_0, 0))]))


def test_a_stripe_that_by_its_file_ends_before_it_begins_is_refused(tmp_path: Path):
    """Where a bucket is cut into ranges, none of them would read it."""
    path = write_acid(tmp_path / "a", [insert(3, 0), insert(4, 0)], compression="uncompressed").path
    tail = read_tail(path)
    metadata = tail.user_metadata | {"hive.acid.key.index": b"2,536870912,0;"}
    rewrite_tail(path, types=tail.types, user_metadata=metadata, calendar=0)
    with pytest.raises(OrcError, match="stripe 0: its statistics contradict"):
        merge_bucket(insert_task(tmp_path / "out", [InputFile(path)], keys=KeyRange(to=(2, BUCKET_0, 9))))


def test_an_output_that_exists_is_left_as_it_is(tmp_path: Path):
    file = write_acid(tmp_path / "a", [insert(1, 0)])
    (tmp_path / "out").write_bytes(b"someone else's")
    with pytest.raises(OrcError, match="cannot be created: File exists"):
        merge_bucket(insert_task(tmp_path / "out", [file]))
    assert (tmp_path / "out").read_bytes() == b"someone else's"


def test_a_damaged_stripe_is_one_line_and_leaves_no_output(tmp_path: Path):
    """The tail is whole, the content of the columns is not."""
    file = write_acid(tmp_path / "a", [insert(1, n, f"{n * 7919}") for n in range(3000)])
    content = bytearray(Path(file.path).read_bytes())
    middle = content_end(read_tail(file.path)) // 2
    content[middle : middle + 500] = bytes(500)
    Path(file.path).write_bytes(content)
    with pytest.raises(OrcError, match="a: ") as caught:
        merge_bucket(insert_task(tmp_path / "out", [file]))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_newer_file_of_older_columns_does_not_narrow_the_rest(tmp_path: Path):
    """A base was compacted with a new column while a write from before it was still open."""
    base = write_acid(tmp_path / "a", [wide(1, 5, 6)], schema=WIDER)
    late = write_acid(tmp_path / "b", [insert(2, 0)])
    rows = merged(insert_task(tmp_path / "out", [base, late]))
    assert [row[5] for row in rows] == [{"id": 5, "s": "y", "n": 6}, {"id": 0, "s": "x", "n": None}]
