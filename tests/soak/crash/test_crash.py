"""A handful of the crash test's runs, each at a step where something is half done; `make crash-test` does all of them.

Each run ends with the comparison of `verify.py`: rows, ROW__IDs, files, locks, transactions and queue entries.
"""

import pytest

from tests.soak.crash.plan import Action, Fault, Moment, Plan, Role, Step, Wake, choose
from tests.soak.crash.runner import Outcome, PlanRunner

PUBLISH = "rename _compaction_1/{0} to {0}"


def _step(role: Role, label: str, number: int = 1) -> Step:
    return Step(role=role, label=label, number=number)


def _fault(step: Step, moment: Moment, action: Action = Action.KILL, wake: Wake | None = None) -> Fault:
    return Fault(step=step, moment=moment, action=action, wake=wake)


JOURNAL = _step(Role.DRIVER, "POST compactioncleanups")
TRASH = "_compaction_trash_delta_0000002_0000002_0000"
BREAKS: dict[str, tuple[str, Fault]] = {
    "the controller dies between the attempt and its Job": (
        "minor",
        _fault(_step(Role.CONTROLLER, "POST jobs"), Moment.BEFORE),
    ),
    "the driver dies between the journal and the publication": ("partitions-major", _fault(JOURNAL, Moment.AFTER)),
    "the metastore dies at the journal": ("major", _fault(JOURNAL, Moment.AFTER, Action.METASTORE)),
    "a driver is paused at the journal, and wakes after the next attempt's cleanup": (
        "pair",
        _fault(JOURNAL, Moment.BEFORE, Action.PAUSE, Wake.CLEANED),
    ),
    "the controller dies within a deletion": (
        "minor",
        _fault(_step(Role.CONTROLLER, f"unlink {TRASH}/bucket_00000"), Moment.AFTER),
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_all_ends_as_if_nothing_had_broken(runner: PlanRunner, name: str) -> None:
    """Rows, ROW__IDs and directories are right, and nothing is left behind, when {name}."""
    scenario, fault = BREAKS[name]
    require_right(runner, Plan(scenario=scenario, faults=(fault,)))


def test_a_publication_that_is_half_done_is_completed(runner: PlanRunner) -> None:
    """Hive 3: between the renames of a minor's pair. Hive 4: between the commit and the entry's mark."""
    require_right(runner, _half_published(runner.plane.hive))


def _half_published(hive: str) -> Plan:
    label = PUBLISH.format("delta_0000001_0000005") if hive == "3.1.3" else "metastore commit_txn"
    return Plan(scenario="pair", faults=(_fault(_step(Role.DRIVER, label), Moment.AFTER),))


def test_a_driver_dies_and_another_is_late_on_hdfs(runner_on_hdfs: PlanRunner) -> None:
    """The one when half is published, the other when the next attempt's cleanup is done."""
    require_right(runner_on_hdfs, _half_published(runner_on_hdfs.plane.hive))
    late = _fault(JOURNAL, Moment.BEFORE, Action.PAUSE, Wake.CLEANED)
    require_right(runner_on_hdfs, Plan(scenario="pair", faults=(late,)))


def test_the_controller_dies_within_a_deletion_on_hdfs(runner_on_hdfs: PlanRunner) -> None:
    """After its first directory: HDFS deletes a tree at once."""
    step = _step(Role.CONTROLLER, "delete _compaction_trash_delta_0000001_0000001_0000")
    require_right(runner_on_hdfs, Plan(scenario="minor", faults=(_fault(step, Moment.AFTER),)))


def test_a_table_that_takes_the_name_is_not_compacted_by_the_files_of_the_old_one(runner: PlanRunner) -> None:
    """It comes after the driver has looked its table up, and before it locks the name."""
    step = _step(Role.DRIVER, "metastore lock")
    require_right(runner, Plan(scenario="renamed", faults=(_fault(step, Moment.BEFORE, Action.RENAME),)))


@pytest.mark.parametrize(
    ("begins", "attempts"),
    [
        (_fault(JOURNAL, Moment.AFTER, Action.WORKER), 2),
        (_fault(_step(Role.DRIVER, PUBLISH.format("base_0000003")), Moment.BEFORE, Action.WORKER), 1),
    ],
    ids=["after the journal", "right before the rename"],
)
def test_a_worker_of_hives_that_publishes_late_doubles_no_row_unsaid(
    runner: PlanRunner, begins: Fault, attempts: int
) -> None:
    """A real one. Where it begins before the driver asks for the last time it has its turn first.

    Where it begins after that the rows count twice, and the compaction ends with that.
    """
    if runner.plane.hive != "3.1.3":
        pytest.skip("Hive 4 keeps its Workers out by the queue")
    assert require_right(runner, Plan(scenario="worker", faults=(begins,))).attempts == attempts


def test_consecutive_seeds_break_every_step() -> None:
    """As many seeds as there are steps walk through all of them, each once as the first fault."""
    steps = {name: [_step(Role.DRIVER, f"{name} {number}") for number in range(7)] for name in ("a", "b")}
    chosen = [choose(seed, steps).faults[0].step for seed in range(20, 34)]
    assert sorted(map(str, chosen)) == sorted(str(step) for found in steps.values() for step in found)


def require_right(runner: PlanRunner, plan: Plan) -> Outcome:
    """Run a plan, which must come to its step and end right."""
    outcome = runner.run(plan, ideal=None)
    assert not outcome.problems, f"{plan}:\n" + "\n".join(outcome.problems)
    assert outcome.broken, f"{plan}: its step did not come"
    return outcome
