"""Parts of one layout become one file of their stripes; others are refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from compaction_operator.orc import MergeResult, OrcError, stitch_parts
from compaction_operator.orc.file import read_tail
from compaction_operator.orc.spec import Compression
from tests.unit.orc.columns import read, write
from tests.unit.orc.test_stripe_copy import LAYOUT, TYPES, stripe_of


def part(path: Path, *stripes: tuple[int, ...], **other: object) -> MergeResult:
    arrays = [stripe_of(*numbers) for numbers in stripes]
    written = write(path, replace(LAYOUT, **other), *arrays)  # type: ignore[arg-type]
    return MergeResult(output=str(written), rows_out=sum(map(len, stripes)))


def test_a_stitched_file_has_the_stripes_of_all_parts_in_their_order(tmp_path: Path):
    parts = [part(tmp_path / "0", (1, 2), (3,)), part(tmp_path / "1", ()), part(tmp_path / "2", (4, 5))]
    output = tmp_path / "output"
    size = stitch_parts(parts, str(output))
    tail = read_tail(str(output))
    assert size == output.stat().st_size
    assert [columns[1].to_pylist() for columns in read(output)] == [[1, 2], [3], [4, 5]]
    assert tail.user_metadata == {
        "hive.acid.key.index": b"",
        "hive.acid.stats": b"5,0,0",
        "hive.acid.version": b"2",
    }
    assert tail.footer.statistics[1].int_statistics.sum == 15


def test_parts_without_rows_are_a_file_without_rows(tmp_path: Path):
    output = tmp_path / "output"
    stitch_parts([part(tmp_path / "0", ()), part(tmp_path / "1", ())], str(output))
    assert read_tail(str(output)).rows == 0
    assert list(read_tail(str(output)).types) == TYPES


def test_the_largest_frame_of_all_parts_is_that_of_the_file(tmp_path: Path):
    parts = [part(tmp_path / "0", (1,), block_size=1000), part(tmp_path / "1", (2,), block_size=2000)]
    stitch_parts(parts, str(tmp_path / "output"))
    assert read_tail(str(tmp_path / "output")).block_size == 2000


def test_a_part_of_another_layout_is_refused_by_name(tmp_path: Path):
    parts = [part(tmp_path / "0", (1,)), part(tmp_path / "1", (2,), compression=Compression.NONE)]
    with pytest.raises(OrcError, match="the layout of its stripe 0 differs from that of") as raised:
        stitch_parts(parts, str(tmp_path / "output"))
    assert raised.value.path == parts[1].output
    assert not (tmp_path / "output").exists()


def test_no_part_is_no_file(tmp_path: Path):
    with pytest.raises(OrcError, match="there is no part"):
        stitch_parts([], str(tmp_path / "output"))
