"""Two files of rows that no merge can copy: by these a machine is measured."""

import numpy as np
import pyarrow as pa

from compaction_operator.orc.file import OrcWriter, StripeLayout
from compaction_operator.orc.merge.bucket_metadata import acid_metadata
from compaction_operator.orc.merge.events import EventKind, InputFile, MergeTask
from compaction_operator.orc.merge.keys import Keys
from compaction_operator.orc.merge.output import add_keys
from compaction_operator.orc.merge.source import INSERT
from compaction_operator.orc.spec import Compression, parse_type, physical_type, schema

_ROWS = 40_000
_BUCKET = 536870912
"""The bucket property of bucket 0 (codec version 1)."""


def sample_task(folder: str) -> MergeTask:
    """Write two files of 40,000 rows whose keys alternate, and return the task that merges them in that folder."""
    inputs = tuple(_written(f"{folder}/sample{first}", first) for first in (0, 1))
    return MergeTask(
        kind=EventKind.INSERT, bucket=0, inputs=inputs, write_ids=f"sample.t:1:{2**63 - 1}::", output=f"{folder}/merged"
    )


def _written(path: str, first: int) -> InputFile:
    types = schema.acid_tree(parse_type("struct<id:bigint,weight:double,code:string>"))
    layout = StripeLayout(types, Compression.ZLIB, block_size=256 * 1024, calendar=0, bloom_filters={})
    ones = np.ones(_ROWS, np.int64)
    keys = Keys(ones, ones * _BUCKET, np.arange(first, 2 * _ROWS, 2), ones)
    with OrcWriter(path, layout) as writer:
        with writer.stripe(_ROWS) as builder:
            add_keys(builder, keys, INSERT)
            builder.add(schema.ROW_ID, _rows(physical_type(types, schema.ROW_ID), seed=first))
        writer.finish(acid_metadata([keys.row(_ROWS - 1)], inserts=_ROWS, deletes=0))
    return InputFile(path)


def _rows(type_: pa.StructType, *, seed: int) -> pa.StructArray:
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 1 << 40, _ROWS)
    codes = pa.array([f"{number:010x}" for number in numbers.tolist()])
    columns = [pa.array(numbers), pa.array(random.normal(size=_ROWS)), codes.cast(type_.field(2).type)]
    return pa.StructArray.from_arrays(columns, fields=list(type_))
