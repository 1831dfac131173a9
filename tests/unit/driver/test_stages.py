"""The times of a driver's stages."""

import pytest

from compaction_operator.api.request import Stage
from compaction_operator.driver.stages import Stages


def test_blocks_of_one_stage_add_up() -> None:
    """From the first begin to the last end, with what it took without the time in between."""
    stages = Stages(clock=iter((1.0, 2.0, 5.0, 5.5)).__next__)
    for _ in range(2):
        with stages.during(Stage.PLAN):
            pass
    assert stages.times() == {"plan": (1000, 5500, 1500)}


def test_no_stage_takes_longer_than_from_its_begin_to_its_end() -> None:
    """However its times are rounded: the controller takes no other for true."""
    stages = Stages(clock=iter((0.9996, 1.0004, 1.0004, 1.0014)).__next__)
    for _ in range(2):
        with stages.during(Stage.PLAN):
            pass
    assert stages.times() == {"plan": (1000, 1001, 1)}


def test_a_stage_that_fails_counts() -> None:
    stages = Stages(clock=iter((1.0, 2.0)).__next__)
    with pytest.raises(RuntimeError), stages.during(Stage.MERGE):
        raise RuntimeError
    assert stages.times() == {"merge": (1000, 2000, 1000)}
