"""The estimate of a joined stripe from the sizes of its parts."""

from dataclasses import replace

import pytest

from compaction_operator.orc.file import StripeLayout
from compaction_operator.orc.merge.forecast import Encoded, Forecaster, StripeSizes
from compaction_operator.orc.spec import Compression, parse_type, schema

TYPES = schema.acid_tree(parse_type("struct<id:bigint>"))
LAYOUT = StripeLayout(TYPES, Compression.ZLIB, block_size=1 << 18, calendar=0, bloom_filters={})
ID = 7
TEXT = 8
"""The ids of the columns of the row."""

TAIL = 30
"""Bytes of the estimate for the tail of a file without inputs."""


def sizes(*, values: int, headers: int = 0, dictionary: int = 0) -> StripeSizes:
    words = {ID: dictionary} if dictionary else {}
    return StripeSizes(1000, {ID: values}, {ID: headers}, words, {}, index=0, groups=0, footer=0)


def rewritten(*parts: tuple[StripeSizes, float]) -> int:
    forecaster = Forecaster(LAYOUT, [])
    forecaster.rewrite(parts, Encoded(0, {}), decoded=0, size=0)
    return forecaster.finished(size=0).bytes_rewritten - TAIL


def test_later_texts_become_what_earlier_ones_became() -> None:
    """The first stripe's dictionary has the words of both parts, so the second one's is taken to have them."""
    parts = [(sizes(values=100, dictionary=500), 1000.0)] * 2
    assert rewritten(*parts) == 200 + 500
    forecaster = Forecaster(LAYOUT, [])
    forecaster.rewrite(parts, Encoded(0, {ID: 1400}), decoded=0, size=1400)
    forecaster.rewrite(parts, Encoded(0, {}), decoded=0, size=0)
    assert forecaster.finished(size=0).bytes_rewritten - TAIL == 1400 + 2 * (200 + 500)


@pytest.mark.parametrize(
    ("rows", "values", "texts", "chosen"),
    [
        (500_000, {}, {}, [{ID, TEXT}, set()]),
        (600_000, {}, {}, [{TEXT}, set()]),
        (10, {ID: 2_000_000, TEXT: 1_500_000}, {}, [{TEXT}, set()]),
        (10, {}, {TEXT: 17_000_000}, [{ID}, {ID}]),
        (10, {}, {TEXT: 9_000_000}, [{ID, TEXT}, {ID}]),
    ],
    ids=["all values", "too many values", "too many bytes", "too long texts", "too long texts later"],
)
def test_a_plan_encodes_what_its_bounds_leave(
    rows: int, values: dict[int, int], texts: dict[int, int], chosen: list[set[int]]
) -> None:
    types = schema.acid_tree(parse_type("struct<id:bigint,text:string>"))
    forecaster = Forecaster(replace(LAYOUT, types=types), [])
    stripe = StripeSizes(rows, values, {}, {}, texts, index=0, groups=0, footer=0)
    assert [forecaster.choose([stripe]) for _ in range(2)] == chosen


@pytest.mark.parametrize("parts", [1, 2, 40])
def test_of_almost_no_rows_the_frames_remain(parts: int) -> None:
    """The headers of all parts are more than the rows that are left: the estimate was negative."""
    assert rewritten(*[(sizes(values=270, headers=30), 1.0)] * parts) == pytest.approx(30 + 0.27 * parts, abs=1)
