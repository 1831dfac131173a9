"""A handful of the crash test's runs with the table on S3, each at a step where something is half done."""

import pytest

from tests.soak.crash.plan import Action, Fault, Moment, Plan, Role, Step, Wake
from tests.soak.crash.runner import PlanRunner
from tests.soak.crash.test_crash import require_right

FIRST = "CompleteMultipartUpload delta_0000001_0000005_v/_orc_acid_version"
LAST = "CompleteMultipartUpload delete_delta_0000001_0000005_v/bucket_00000"
BREAKS = {
    "the driver dies when a file of the pair is there": Fault(
        step=Step(role=Role.DRIVER, label=FIRST, number=1), moment=Moment.AFTER, action=Action.KILL
    ),
    "the driver is paused before a file of the pair, and wakes after the next attempt's cleanup": Fault(
        step=Step(role=Role.DRIVER, label=LAST, number=1),
        moment=Moment.BEFORE,
        action=Action.PAUSE,
        wake=Wake.CLEANED,
    ),
    "the store dies before a file of the pair": Fault(
        step=Step(role=Role.DRIVER, label=LAST, number=1), moment=Moment.BEFORE, action=Action.STORE
    ),
    "the controller dies within a deletion": Fault(
        step=Step(role=Role.CONTROLLER, label="DeleteObjects delta_0000002_0000002_0000/_orc_acid_version", number=1),
        moment=Moment.AFTER,
        action=Action.KILL,
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_all_ends_as_if_nothing_had_broken(runner_on_s3: PlanRunner, name: str) -> None:
    """Rows, ROW__IDs and directories are right, and nothing is left behind, when {name}."""
    require_right(runner_on_s3, Plan(scenario="pair", faults=(BREAKS[name],)))
