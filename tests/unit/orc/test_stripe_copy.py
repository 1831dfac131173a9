"""Stripes are copied as bytes, with their statistics, into files that would have them just so, and into no others."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sandbox.harness.orctail import content_end

from compaction_operator.orc import OrcError
from compaction_operator.orc.file import OrcDraft, OrcWriter, StripeLayout, Tail, can_copy, read_tail, stripe_statistics
from compaction_operator.orc.spec import Compression, Kind, StreamKind
from compaction_operator.orc.spec.messages import PROLEPTIC_GREGORIAN, StripeFooter
from tests.unit.orc.build import FIXTURES
from tests.unit.orc.columns import LONG, STRING, add_stripe, arrays_of, layout, read, tree, write

TYPES = tree(LONG, STRING)
LAYOUT = layout(TYPES, row_index_stride=10)
OLD_MINOR = FIXTURES / "hive-3.1.3/try_it/after-minor"


def stripe_of(*numbers: int) -> dict[int, Any]:
    return arrays_of(TYPES, [(number, b"%d" % number) for number in numbers])


@pytest.fixture
def tail(tmp_path: Path) -> Tail:
    """A file of two stripes."""
    return read_tail(str(write(tmp_path / "input", LAYOUT, stripe_of(*range(15)), stripe_of(100, 101))))


def bytes_of(tail: Tail, index: int) -> bytes:
    stripe = tail.footer.stripes[index]
    length = stripe.index_length + stripe.data_length + stripe.footer_length
    return Path(tail.path).read_bytes()[stripe.offset :][:length]


def copy(tail: Tail, index: int, path: Path, layout_: StripeLayout = LAYOUT) -> int:
    """Write a file of a new stripe and a copied one; return the bytes copied."""
    with OrcWriter(str(path), layout_) as writer, Path(tail.path).open("rb") as file:
        add_stripe(writer, stripe_of(7))
        writer.copy_stripe(file, tail, index)
        writer.finish({})
        return writer.bytes_copied


def test_a_copied_stripe_has_its_bytes_rows_and_statistics(tail: Tail, tmp_path: Path):
    output = tmp_path / "output"
    assert copy(tail, 1, output) == len(bytes_of(tail, 1))
    written = read_tail(str(output))
    assert bytes_of(written, 1) == bytes_of(tail, 1)
    assert [columns[1].to_pylist() for columns in read(output)] == [[7], [100, 101]]
    assert stripe_statistics(written, 1) == stripe_statistics(tail, 1)
    numbers = written.footer.statistics[1]
    assert (numbers.number_of_values, numbers.int_statistics.maximum) == (3, 101)


def test_a_draft_has_the_size_of_the_file_and_reads_no_stripe(tail: Tail, tmp_path: Path):
    output = tmp_path / "output"
    copied = copy(tail, 0, output)
    Path(tail.path).unlink()
    draft = OrcDraft(LAYOUT)
    add_stripe(draft, stripe_of(7))
    draft.add_copied(tail, 0)
    assert (draft.finish({}), draft.bytes_copied) == (output.stat().st_size, copied)


def test_the_file_is_of_the_oldest_writer_that_is_in_it(tail: Tail, tmp_path: Path):
    for version, expected in ((6, 6), (7, 7), (9, 7)):
        tail.postscript.writer_version = version
        copy(tail, 0, tmp_path / str(version))
        assert read_tail(str(tmp_path / str(version))).postscript.writer_version == expected


def test_a_stripe_that_is_cut_off_is_not_copied(tail: Tail, tmp_path: Path):
    Path(tail.path).write_bytes(Path(tail.path).read_bytes()[: content_end(tail) - 1])
    with pytest.raises(OrcError, match="it ends within a stripe") as raised:
        copy(tail, 1, tmp_path / "output")
    assert raised.value.path == tail.path
    assert not (tmp_path / "output").exists()


def test_a_stripe_of_the_same_layout_can_be_copied(tail: Tail):
    assert can_copy(tail, 0, LAYOUT)
    assert can_copy(tail, 1, replace(LAYOUT, block_size=LAYOUT.block_size * 2))


@pytest.mark.parametrize(
    "other",
    [
        {"compression": Compression.SNAPPY},
        {"block_size": LAYOUT.block_size - 1},
        {"types": tree(LONG, (Kind.VARCHAR, ()))},
        {"calendar": PROLEPTIC_GREGORIAN},
        {"row_index_stride": 20},
        {"bloom_filters": {1: 0.05}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_stripe_of_another_layout_cannot_be_copied(tail: Tail, other: dict[str, Any]):
    assert not can_copy(tail, 0, replace(LAYOUT, **other))


def test_a_stripe_of_a_writer_with_other_statistics_cannot_be_copied(tail: Tail):
    tail.postscript.writer_version = 5
    assert not can_copy(tail, 0, LAYOUT)


def test_a_stripe_of_another_writer_than_javas_cannot_be_copied(tail: Tail):
    """Version 6 of C++, Presto and Trino is their first, of Java's that which ORC-135 changed."""
    tail.footer.writer = 4
    assert not can_copy(tail, 0, LAYOUT)


def test_a_stripe_with_bloom_filters_goes_where_they_are_wanted(tmp_path: Path):
    wanted = replace(LAYOUT, bloom_filters={2: 0.05})
    tail = read_tail(str(write(tmp_path / "input", wanted, stripe_of(1))))
    assert can_copy(tail, 0, wanted)
    assert can_copy(tail, 0, LAYOUT)
    assert not can_copy(tail, 0, replace(LAYOUT, bloom_filters={1: 0.05, 2: 0.05}))


def test_a_stripe_without_a_row_index_of_each_column_cannot_be_copied(tmp_path: Path):
    plain = replace(LAYOUT, compression=Compression.NONE)
    path = write(tmp_path / "input", plain, stripe_of(1))
    tail = read_tail(str(path))
    stripe = tail.footer.stripes[0]
    start = stripe.offset + stripe.index_length + stripe.data_length
    written = path.read_bytes()
    footer = StripeFooter.FromString(written[start : start + stripe.footer_length])
    footer.streams[1].kind = StreamKind.BLOOM_FILTER
    path.write_bytes(written[:start] + footer.SerializeToString() + written[start + stripe.footer_length :])
    assert not can_copy(tail, 0, plain)


def test_what_hives_own_minor_compaction_wrote_is_never_copied():
    files = sorted(OLD_MINOR.rglob("bucket_*"))
    tails = [tail for tail in map(read_tail, map(str, files)) if tail.footer.row_index_stride == 0 and tail.rows]
    assert tails
    for tail in tails:
        assert not can_copy(tail, 0, layout_of(tail))


def test_what_hive_wrote_can_be_copied_into_its_like():
    for file in (FIXTURES / "hive-3.1.3/try_it/before").rglob("bucket_00000"):
        tail = read_tail(str(file))
        assert can_copy(tail, 0, layout_of(tail))


def layout_of(tail: Tail) -> StripeLayout:
    """The layout that a file has itself."""
    return StripeLayout(
        types=tail.types,
        compression=tail.compression,
        block_size=tail.block_size,
        calendar=tail.footer.calendar,
        bloom_filters={},
        row_index_stride=tail.footer.row_index_stride,
    )


def test_statistics_that_are_not_there_or_damaged_are_not_taken_for_any(tail: Tail):
    without = replace(tail, metadata=b"")
    assert not can_copy(without, 0, LAYOUT)
    with pytest.raises(OrcError, match="the statistics of stripe 0 cannot be read"):
        can_copy(replace(tail, metadata=b"\x03\x00\x00x"), 0, LAYOUT)


def test_a_damaged_stripe_footer_is_no_reason_to_crash(tail: Tail):
    stripe = tail.footer.stripes[0]
    stripe.footer_length -= 1
    with pytest.raises(OrcError, match="the footer of stripe 0 cannot be read"):
        can_copy(tail, 0, LAYOUT)
