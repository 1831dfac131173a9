"""A handful of the crash test's runs with the table on S3, each at a step where something is half done."""

from collections.abc import Iterator

import pytest

from tests.integration.oracle.hive import HiveOracle
from tests.soak.crash.conftest import SECONDS
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


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlanRunner]:
    """A runner of plans on Hive 4 and S3."""
    folder = tmp_path_factory.mktemp("crash") / "s3"
    with (
        HiveOracle(4) as oracle,
        PlanRunner(folder, hive="4.0.1", oracle=oracle, storage="s3", seconds=SECONDS) as runner,
    ):
        yield runner


@pytest.mark.parametrize("name", BREAKS)
def test_all_ends_as_if_nothing_had_broken(runner: PlanRunner, name: str) -> None:
    """Rows, ROW__IDs and directories are right, and nothing is left behind, when {name}."""
    require_right(runner, Plan(scenario="pair", faults=(BREAKS[name],)))
