"""The storm's short form: one table, one kill, while the log compaction executes."""

from pathlib import Path
from random import Random

from tests.hudi_storm.compactor import Compactor
from tests.hudi_storm.killer import Killer, Moment
from tests.hudi_storm.model import MergeMode
from tests.hudi_storm.season import acting, settle, staged

ENOUGH_BLOCKS_SECONDS = 120.0


def test_a_killed_driver_costs_a_live_writer_no_row(tmp_path: Path) -> None:
    """Its log compaction is rolled back and made anew, beside the writer, which reads exactly what it has written."""
    with staged(tmp_path, version="1.2.0", seed=1, modes=[MergeMode.EVENT_TIME]) as stage:
        (location,) = stage.locations
        compactor = Compactor(stage.plane, stage.locations, Random(1))
        killer = Killer(stage.plane, stage.locations, Random(1), most=1, share=1.0, aims=[Moment.INFLIGHT], later=0.0)
        stage.writer.wait_written(5, timeout=ENOUGH_BLOCKS_SECONDS)
        with acting(killer):
            done = compactor.log(location)
        found = done.status.hudi
        assert found is not None
        assert (killer.kills, len(found.rolled_back)) == ({Moment.INFLIGHT: 1}, 1)
        assert (found.action, found.state) == ("logcompaction", "Completed")
        figures = settle(stage, compactor)
        assert compactor.tally["cleans"] == 1
        assert figures["reads by Spark"] == figures["reads by the native reader"] > 1
