"""Tables with features that no compaction here keeps: refused by name, before anything is on their timeline."""

from pathlib import Path

import pytest
from sandbox.hudi.look import timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import SmallTable

from compaction_operator.hudi import HudiError
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs

EACH_TIME = {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.compact.inline.max.delta.commits": "1"}

FEATURES = {
    "change-capture": ("hoodie.table.cdc.enabled", "true"),
    "no-meta-fields": ("hoodie.populate.meta.fields", "false"),
}


def refused(table: SmallTable, jobs: Jobs, feature: str) -> None:
    """See that each type of compaction is refused because of a feature, and leaves the timeline as it is."""
    before = timeline(table.location)
    for kind in (LOG_COMPACTION, COMPACTION):
        with pytest.raises(HudiError, match=feature):
            jobs.run(table, kind, options=EACH_TIME)
    assert timeline(table.location) == before


@pytest.mark.parametrize("feature", FEATURES)
def test_a_table_that_a_compaction_would_block_is_refused(
    hudi: HudiSession, tmp_path: Path, jobs: Jobs, feature: str
) -> None:
    """With change capture 1.2.0 leaves log files that no planner reads; without meta fields 1.0.2 never commits."""
    key, value = FEATURES[feature]
    table = SmallTable(hudi.spark, tmp_path / "table", options={key: value})
    for ids, ts in ((range(60), 10), (range(20), 20), (range(10, 30), 30)):
        table.upsert(ids, ts)
    refused(table, jobs, f"{key}={value}")


def test_a_bootstrapped_table_is_refused(hudi: HudiSession, tmp_path: Path, jobs: Jobs) -> None:
    """Its base files are those of another table, and Hudi joins them with its own when it reads."""
    old = tmp_path / "old"
    table = SmallTable(hudi.spark, tmp_path / "table", options={"hoodie.bootstrap.base.path": str(old)})
    table.rows(range(60), 10).write.parquet(str(old))
    options = table.options | {
        "hoodie.datasource.write.operation": "bootstrap",
        "hoodie.bootstrap.keygen.class": table.options["hoodie.datasource.write.keygenerator.class"],
    }
    nothing = hudi.spark.createDataFrame([], table.rows(range(0), 0).schema)
    nothing.write.format("hudi").options(**options).mode("overwrite").save(table.uri)
    refused(table, jobs, f"hoodie.bootstrap.base.path={old}")
