"""The operator's own compaction of a Hudi table, in this process: the flow of the driver without a cluster."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from compaction_operator.api.compaction import CompactionType, Format, TableRef
from compaction_operator.api.config import Metastore, SparkProfile, Warehouse
from compaction_operator.api.hudi import HudiOptions
from compaction_operator.api.progress import Progress
from compaction_operator.api.request import JobRequest
from compaction_operator.driver.hudi.setup import compact, prepare
from compaction_operator.hudi.options import THRESHOLD


class _Alone:
    """A lease without competitors, and a report that goes nowhere."""

    def confirm(self) -> None:
        """It is held."""

    def update(self, progress: Progress, *, at_once: bool = False) -> None:
        """Nothing is passed on."""


def compact_small(spark: Any, location: Path, *, threshold: int, limit: int) -> None:
    """Merge runs of at least `threshold` log blocks of at most `limit` bytes; raises what a driver's attempt raises."""
    warehouse = Warehouse(name="main", metastore=Metastore(uris=("thrift://nowhere:9083",)), namespaces=("bench",))
    request = JobRequest(
        name="bench",
        namespace="bench",
        uid="bench",
        attempt=1,
        job="bench",
        warehouse=warehouse,
        profile=SparkProfile(name="default", image="none"),
        table=TableRef(location=str(location)),
        type=CompactionType.LOG_COMPACTION,
        format=Format.HUDI,
        hudi=HudiOptions(single_writer=True, max_log_file_size_to_merge=limit, options={THRESHOLD: str(threshold)}),
    )
    alone = _Alone()
    job = prepare(request, str(location))
    compact(job, request, lease=lambda: nullcontext(alone), session=lambda: nullcontext(spark), report=alone)
