"""The storage benchmark's judgement, and the table it compacts."""

from pathlib import Path
from typing import Any

import pytest
from bench.acid_table import make_table
from bench.storage import judged

from compaction_operator.orc.file import read_tail
from compaction_operator.orc.file.stripe_copy import JAVA


def _listing(**rates: int) -> dict[str, Any]:
    return {name: {"directories_per_second": rate} for name, rate in rates.items()}


def _compaction(*, cpu: float = 1.0, through: int = 10, requests: int = 20) -> dict[str, Any]:
    return {"64 MB": _stores(cpu=cpu, through=through, requests=requests), "256 MB": _stores()}


def _stores(*, cpu: float = 1.0, through: int = 10, requests: int = 20) -> dict[str, Any]:
    minor = {"bytes_in": 1000, "bytes_through": through, "requests": requests, "reads": 8, "files_out": 1}
    return {
        "file": {"Minor": minor, "Major": {"cpu_seconds": 1.0}},
        "s3": {"Minor": minor, "Major": {"cpu_seconds": cpu}},
    }


def test_what_meets_all_targets_misses_none() -> None:
    assert judged(_listing(hdfs=2500, s3=9000), _compaction(cpu=1.5, through=20))["missed"] == []


@pytest.mark.parametrize(
    ("listing", "compaction", "missed"),
    [
        (_listing(hdfs=2499), _compaction(), "listing on hdfs: 2499"),
        (_listing(), _compaction(cpu=1.51), "a major on s3 takes 1.51 times"),
        (_listing(), _compaction(through=21), "a minor on s3 moves 2.1% of the bytes"),
        (_listing(), _compaction(requests=21), "a minor on s3 makes 13.0 requests"),
    ],
)
def test_each_miss_is_said(listing: dict[str, Any], compaction: dict[str, Any], missed: str) -> None:
    (said,) = judged(listing, compaction)["missed"]
    assert said.startswith(missed)


def test_each_size_of_the_table_is_judged() -> None:
    compaction = {"64 MB": _stores(), "256 MB": _stores(cpu=1.6)}
    (said,) = judged(_listing(), compaction)["missed"]
    assert said == "a major on s3 takes 1.60 times the CPU of a local one (256 MB)"


def test_the_stripes_of_the_table_can_be_copied(tmp_path: Path) -> None:
    make_table(tmp_path / "t", deltas=1, rows=200)
    tail = read_tail(str(tmp_path / "t" / "delta_0000001_0000001_0000" / "bucket_00000"))
    assert (tail.footer.writer, len(tail.footer.stripes), tail.footer.number_of_rows) == (JAVA, 1, 200)
