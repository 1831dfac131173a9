"""A bucket cut into ranges of keys gives the rows of the whole bucket; whole stripes are taken over as they are."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sandbox.harness.orctail import content_end, rewrite_tail

from compaction_operator.orc import (
    InputFile,
    KeyRange,
    MergeResult,
    MergeTask,
    OrcError,
    OriginalRows,
    merge_bucket,
    sketch,
    stitch_parts,
    verify_output,
    verify_stitched,
)
from compaction_operator.orc.file import read_tail
from compaction_operator.orc.merge import engine
from tests.unit.orc.build import (
    BUCKET_0,
    DATA,
    FIXTURES,
    Event,
    delete,
    delete_task,
    insert,
    insert_task,
    merged,
    read_events,
    write_acid,
)

KEYS = st.tuples(st.integers(1, 4), st.integers(0, 6))


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stripes of any size are worth copying."""
    monkeypatch.setattr(engine, "COPY_ROWS", 1)


def run(task: MergeTask) -> MergeResult:
    """Merge and verify."""
    result = merge_bucket(task)
    verify_output(task, result)
    return result


def compacted(path: Path, events: Sequence[Event], **options: Any) -> InputFile:
    """A file of these events as the engine itself writes it: with statistics and row indexes."""
    source = write_acid(path.with_suffix(".source"), events, **options)
    operation = events[0][0]
    run(insert_task(path, [source]) if operation == 0 else delete_task(path, [source]))
    return InputFile(str(path))


@pytest.mark.usefixtures("copying")
def test_stripes_that_nothing_changes_are_copied_byte_for_byte(tmp_path: Path):
    one = compacted(tmp_path / "1", [insert(1, n, f"{n}") for n in range(50)])
    two = compacted(tmp_path / "2", [insert(2, n, f"{n}") for n in range(70)])
    result = run(insert_task(tmp_path / "out", [two, one]))
    output, inputs = (tmp_path / "out").read_bytes(), [Path(file.path).read_bytes() for file in (one, two)]
    ends = [content_end(read_tail(file.path)) for file in (one, two)]
    assert output[3 : ends[0] + ends[1] - 3] == inputs[0][3 : ends[0]] + inputs[1][3 : ends[1]]
    assert result.bytes_copied == sum(ends) - 6
    assert read_events(tmp_path / "out") == read_events(one.path) + read_events(two.path)
    assert result.rows_out_by_write_id == {1: 50, 2: 70}


@pytest.mark.usefixtures("copying")
@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({"write_ids": "db.t:2:2:2:"}, 1),
        ({"write_ids": "db.t:2:9223372036854775807::2"}, 1),
        ({"keys": KeyRange(to=(1, BUCKET_0, 0))}, 1),
        ({"keys": KeyRange(after=(1, BUCKET_0, 0))}, 2),
        ({"row_type": "struct<id:bigint,s:string>"}, 3),
        ({"row_type": "struct<id:int,s:string,t:date>"}, 3),
    ],
    ids=["open", "aborted", "ends before", "begins after", "widened", "column added"],
)
def test_a_stripe_that_must_change_is_not_copied(tmp_path: Path, more: dict[str, Any], kept: int):
    """One stripe with rows of two write ids and a row that another range holds."""
    file = compacted(tmp_path / "a", [insert(1, 0), insert(2, 0), insert(2, 1)])
    result = run(insert_task(tmp_path / "out", [file], **more))
    assert (result.rows_out, result.bytes_copied) == (kept, 0)


@pytest.mark.usefixtures("copying")
def test_a_stripe_is_rewritten_only_where_a_delete_event_hits_it(tmp_path: Path):
    files = [compacted(tmp_path / f"{number}", [insert(number, n) for n in range(9)]) for number in (1, 2, 3)]
    deletes = compacted(tmp_path / "d", [delete(2, 4, by=4)])
    result = run(insert_task(tmp_path / "out", files, [deletes]))
    sizes = [content_end(read_tail(file.path)) - 3 for file in files]
    assert (result.rows_out, result.bytes_copied) == (26, sizes[0] + sizes[2])
    assert read_tail(str(tmp_path / "out")).stripe_rows == [9, 8, 9]


@pytest.mark.usefixtures("copying")
def test_a_delete_event_between_the_rows_of_a_stripe_changes_nothing(tmp_path: Path):
    """It hits a row that is gone already: the keys are read, and the stripe is copied after all."""
    file = compacted(tmp_path / "a", [insert(1, 0), insert(1, 2)])
    deletes = compacted(tmp_path / "d", [delete(1, 1, by=4)])
    result = run(insert_task(tmp_path / "out", [file], [deletes]))
    assert (result.rows_out, result.bytes_copied > 0) == (2, True)


@pytest.mark.usefixtures("copying")
def test_files_without_statistics_and_row_indexes_get_them(tmp_path: Path):
    """The minor compaction of Hive 3.1.3 writes none, so the merge rewrites its stripes."""
    file = next((FIXTURES / "hive-3.1.3/table_txn_001/after-minor/delta_0000001_0000003").glob("bucket_*"))
    assert read_tail(str(file)).footer.row_index_stride == 0
    result = run(insert_task(tmp_path / "out", [InputFile(str(file))]))
    assert result.bytes_copied == 0
    assert read_tail(str(tmp_path / "out")).footer.row_index_stride == 10_000
    assert read_events(tmp_path / "out") == read_events(file)


@pytest.mark.usefixtures("copying")
def test_a_stripe_of_another_codec_is_not_copied(tmp_path: Path):
    old = compacted(tmp_path / "1", [insert(1, 0, "x" * 900)])
    new = compacted(tmp_path / "2", [insert(2, 0, "x" * 900)], compression="snappy")
    result = run(insert_task(tmp_path / "out", [old, new]))
    assert result.bytes_copied == content_end(read_tail(new.path)) - 3


def test_small_stripes_become_one(tmp_path: Path):
    files = [compacted(tmp_path / f"{number}", [insert(number, 0)]) for number in range(1, 9)]
    result = run(insert_task(tmp_path / "out", files))
    assert read_tail(str(tmp_path / "out")).stripe_rows == [8]
    assert result.bytes_copied == 0


@pytest.mark.parametrize(
    ("rows", "stripes"),
    [
        ([5, 1, 5], [5, 1, 5]),
        ([1, 5, 1], [1, 5, 1]),
        ([5, 1, 1, 1, 5], [5, 1, 1, 1, 5]),
        ([5, 1, 1, 1, 1, 5], [5, -4, 5]),
        ([1, 1, 1, 1, 5], [-4, 5]),
        ([4, 1, 1, 1, 1], [4, -4]),
    ],
)
def test_only_runs_of_small_stripes_are_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[int], stripes: list[int]
):
    """Here a stripe of five rows is large; a negative number stands for a stripe that was joined."""
    files = [compacted(tmp_path / f"{n}", [insert(n, row) for row in range(rows[n])]) for n in range(len(rows))]
    monkeypatch.setattr(engine, "COPY_ROWS", 5)
    result = run(insert_task(tmp_path / "out", files))
    assert read_tail(str(tmp_path / "out")).stripe_rows == [abs(number) for number in stripes]
    assert list(result.copied) == [place for place, number in enumerate(stripes) if number > 0]


def test_a_small_stripe_without_neighbours_is_copied(tmp_path: Path):
    result = run(insert_task(tmp_path / "out", [compacted(tmp_path / "a", [insert(1, 0)])]))
    assert list(result.copied) == [0]


def test_a_joined_stripe_that_fills_the_memory_is_not_rewritten_again(tmp_path: Path):
    """It has few bytes and rows, but together with another one it would be cut at the same place."""
    rows = [compacted(tmp_path / f"{n}", [insert(n, row, "x" * 100) for row in range(100)]) for n in range(20)]
    run(insert_task(tmp_path / "once", rows, memory=150_000))
    stripes = read_tail(str(tmp_path / "once")).stripe_rows
    again = run(insert_task(tmp_path / "again", [InputFile(str(tmp_path / "once"))], memory=150_000))
    assert len(stripes) > 1
    assert list(again.copied) == list(range(len(stripes)))


def test_little_memory_makes_more_stripes_of_the_same_rows(tmp_path: Path):
    rows = [insert(1, n, f"{n * 7919 % 1000}") for n in range(3000)]
    files = [write_acid(tmp_path / "a", rows[::2]), write_acid(tmp_path / "b", rows[1::2])]
    run(insert_task(tmp_path / "out", files, memory=150_000))
    assert len(read_tail(str(tmp_path / "out")).stripe_rows) > 2
    assert read_events(tmp_path / "out") == rows


@pytest.mark.parametrize("index", [b"", b"1,536870912,0;", b"nonsense", b"1,536870912,2;1,536870912,2;"])
def test_without_a_key_index_that_fits_the_keys_are_read(tmp_path: Path, index: bytes):
    """Hive before HIVE-18817 could leave entries out."""
    one = write_acid(tmp_path / "a", [insert(1, n, f"{n * 7919}" * 30) for n in range(0, 6000, 2)], stripe_size=1)
    two = write_acid(tmp_path / "b", [insert(1, n, "y") for n in range(1, 6000, 2)])
    tail = read_tail(one.path)
    assert len(tail.stripe_rows) > 2
    metadata = tail.user_metadata | {"hive.acid.key.index": index}
    rewrite_tail(one.path, types=tail.types, user_metadata=metadata, calendar=0)
    rows = merged(insert_task(tmp_path / "out", [one, two]))
    assert [row[3] for row in rows] == list(range(6000))


def test_a_key_index_that_lies_is_refused(tmp_path: Path):
    """Stripes would be taken for disjoint that are not, and rows come out of order."""
    file = write_acid(tmp_path / "a", [insert(1, 0), insert(1, 1)])
    tail = read_tail(file.path)
    metadata = tail.user_metadata | {"hive.acid.key.index": f"1,{BUCKET_0},0;".encode()}
    rewrite_tail(file.path, types=tail.types, user_metadata=metadata, calendar=0)
    with pytest.raises(OrcError, match="its keys contradict the order"):
        merge_bucket(insert_task(tmp_path / "out", [file]))


def test_a_sketch_says_where_the_stripes_end(tmp_path: Path):
    file = write_acid(tmp_path / "a", [insert(1, n, f"{n * 7919}" * 30) for n in range(6000)], stripe_size=1)
    found = sketch(file.path)
    assert (found.rows, found.bytes) == (6000, Path(file.path).stat().st_size)
    ends = [stripe.last for stripe in found.stripes]
    assert ends[-1] == (1, BUCKET_0, 5999)
    assert sum(stripe.rows for stripe in found.stripes) == 6000
    assert len(ends) == len(set(ends)) > 1


def test_a_sketch_of_a_file_without_keys_has_none():
    found = sketch(str(DATA.parents[2] / "fixtures/hive-3.1.3/original/before/000000_0"))
    assert [stripe.last for stripe in found.stripes] == [None]


def ranges(cuts: Sequence[tuple[int, int]]) -> list[KeyRange]:
    """Ranges without a gap, cut behind some keys."""
    ends = [(write_id, BUCKET_0, row_id) for write_id, row_id in sorted(set(cuts))]
    return [KeyRange(after, to) for after, to in zip([None, *ends], [*ends, None], strict=True)]


@settings(max_examples=40, deadline=None)
@given(
    files=st.lists(st.sets(KEYS, min_size=1, max_size=12), min_size=1, max_size=3),
    deleted=st.sets(KEYS, max_size=8),
    cuts=st.lists(KEYS, max_size=3),
)
def test_the_parts_of_a_bucket_stitched_are_the_bucket(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[set[tuple[int, int]]],
    deleted: set[tuple[int, int]],
    cuts: list[tuple[int, int]],
):
    """Insert and delete events, whatever the ranges: the same events, and counts that add up."""
    folder = tmp_path_factory.mktemp("parts")
    seen: set[tuple[int, int]] = set()
    inputs = []
    for number, keys in enumerate(files):
        if new := sorted(keys - seen):
            inputs.append(write_acid(folder / f"{number}", [insert(*key) for key in new]))
        seen |= keys
    deletes = [write_acid(folder / "d", [delete(*key, by=5) for key in sorted(deleted)])] if deleted else []
    for name, whole in (("i", insert_task(folder / "i", inputs, deletes)), ("d", delete_task(folder / "ds", deletes))):
        if not whole.inputs:
            continue
        tasks = [replace(whole, keys=keys, output=f"{whole.output}.{n}") for n, keys in enumerate(ranges(cuts))]
        parts = [run(task) for task in tasks]
        output = str(folder / f"{name}.stitched")
        stitch_parts(parts, output)
        verify_stitched(output, parts)
        all_at_once = run(whole)
        assert read_events(output) == read_events(whole.output)
        for count in ("rows_in", "rows_out", "rows_deleted", "delete_events_in", "delete_events_out"):
            assert sum(getattr(part, count) for part in parts) == getattr(all_at_once, count)


def test_originals_are_cut_by_their_row_numbers(tmp_path: Path):
    original = FIXTURES / "hive-3.1.3/original/before/000000_0"
    file = InputFile(str(original), OriginalRows(BUCKET_0, first_row_id=10, write_id=7))
    rows = merged(insert_task(tmp_path / "out", [file], keys=KeyRange(after=(7, BUCKET_0, 10))))
    assert [row[1:5] for row in rows] == [(7, BUCKET_0, n, 7) for n in range(11, 10 + read_tail(str(original)).rows)]


@pytest.mark.parametrize("damage", ["order", "missing"])
def test_parts_that_do_not_follow_each_other_are_found(tmp_path: Path, damage: str):
    parts = [run(insert_task(tmp_path / f"{n}", [write_acid(tmp_path / f"s{n}", [insert(n, 0)])])) for n in (1, 2)]
    stitched = parts[::-1] if damage == "order" else parts[:1]
    stitch_parts(stitched, str(tmp_path / "out"))
    with pytest.raises(OrcError, match=r"out: (the keys of its parts overlap|it has 1 rows)"):
        verify_stitched(str(tmp_path / "out"), stitched if damage == "order" else parts)


def test_parts_of_different_layouts_are_not_stitched(tmp_path: Path):
    one = run(insert_task(tmp_path / "1", [write_acid(tmp_path / "s1", [insert(1, 0)])]))
    file = write_acid(tmp_path / "s2", [insert(2, 0)])
    other = run(insert_task(tmp_path / "2", [file], row_type="struct<id:bigint,s:string>"))
    with pytest.raises(OrcError, match="the layout of its stripe 0 differs from that of"):
        stitch_parts([one, other], str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("memory", [1, 4_000, 10**6])
def test_delete_events_that_do_not_fit_into_memory_are_taken_in_ranges(tmp_path: Path, memory: int):
    """The same events are written, and the same rows go, as with memory for all at once."""
    files = [
        write_acid(tmp_path / "d1", [delete(1, n, by=5) for n in range(0, 90, 2)]),
        write_acid(tmp_path / "d2", [delete(1, n, by=6) for n in range(0, 90, 3)]),
    ]
    rows = write_acid(tmp_path / "a", [insert(1, n) for n in range(100)])
    result = run(insert_task(tmp_path / "out", [rows], files, memory=memory))
    assert result.delete_events_in == 75
    assert [row[3] for row in read_events(tmp_path / "out")] == [n for n in range(100) if n > 89 or (n % 2 and n % 3)]
    events = run(delete_task(tmp_path / "ds", files, memory=memory))
    assert (events.delete_events_in, events.delete_events_out) == (75, 75)
    assert sorted(read_events(tmp_path / "ds")) == sorted(read_events(files[0].path) + read_events(files[1].path))
