"""The storm's short form: one table of each release, one kill of each, while the log compaction executes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from tests.soak.hudi_storm.compactor import Compactor, Work
from tests.soak.hudi_storm.killer import Killer, Moment
from tests.soak.hudi_storm.model import MergeMode
from tests.soak.hudi_storm.season import Stage, acting, settle, staged
from tests.soak.hudi_storm.table import Kind
from tests.soak.hudi_storm.timeline import INFLIGHT, services

THRESHOLD_SECONDS = 300.0
EACH = {"1.0.2": [Kind(MergeMode.COMMIT_TIME, 8)], "1.2.0": [Kind(MergeMode.EVENT_TIME, 9)]}


@pytest.mark.timeout(1500)
def test_a_killed_driver_costs_a_live_writer_no_row(tmp_path: Path) -> None:
    """Its log compaction is rolled back and repeated. Meanwhile the writer reads exactly what it has written."""
    with staged(tmp_path, EACH, seed=1) as stages, ThreadPoolExecutor(len(EACH)) as pool:
        assert list(pool.map(bundle_after_a_kill, stages)) == list(EACH)


def bundle_after_a_kill(stage: Stage) -> str:
    """Kill the driver that merges log blocks of the only table, until all is well again; return who merged them."""
    (location,) = stage.locations
    compactor = Compactor(stage.plane, stage.locations, Random(1))
    killer = Killer(stage.plane, stage.locations, Random(1), most=1, share=1.0, aims=[Moment.EXECUTING])
    # The first write makes base files, and each of the others one block at most of a file group.
    stage.writer.wait_written(5, timeout=THRESHOLD_SECONDS)
    with acting(killer):
        done = compactor.log(location)
    assert killer.kills == {Moment.EXECUTING: 1}
    (dead,) = killer.left
    assert (dead.action, dead.state) == ("logcompaction", INFLIGHT)
    # NB: the attempt that rolled it back need not be the last one, whose status is seen.
    assert dead.time not in {one.time for one in services(location)}
    assert compactor.tally[Work.LOG_COMPACTION] == 1
    figures = settle(stage, compactor)
    assert compactor.tally[Work.COMPACTION] == 1
    assert figures["reads by Spark"] == figures["reads by the native reader"] > 1
    assert done.status.hudi is not None
    return str(done.status.hudi.bundle)
