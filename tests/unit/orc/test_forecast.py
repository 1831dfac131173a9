"""The estimate of a joined stripe from the sizes of its parts."""

import pytest

from compaction_operator.orc.file import StripeLayout
from compaction_operator.orc.merge.forecast import Forecaster, StripeSizes
from compaction_operator.orc.spec import Compression, parse_type, schema

TYPES = schema.acid_tree(parse_type("struct<id:bigint>"))
LAYOUT = StripeLayout(TYPES, Compression.ZLIB, block_size=1 << 18, calendar=0, bloom_filters={})
TAIL = 30
"""Bytes of the estimate for the tail of a file without inputs."""


def sizes(**more: int) -> StripeSizes:
    return StripeSizes(**{"rows": 1000, "values": 300, "dictionaries": {}, "index": 0, "groups": 0, "footer": 0} | more)


def rewritten(*parts: tuple[StripeSizes, float]) -> int:
    forecaster = Forecaster(LAYOUT, [])
    forecaster.rewrite(parts, keys=0, decoded=0)
    return forecaster.finished(size=0).bytes_rewritten - TAIL


@pytest.mark.parametrize("parts", [1, 2, 40])
def test_of_almost_no_rows_the_frames_remain(parts: int) -> None:
    """The headers of all parts are more than the rows that are left: the estimate was negative."""
    assert rewritten(*[(sizes(headers=30), 1.0)] * parts) == pytest.approx(30 + 0.27 * parts, abs=1)
