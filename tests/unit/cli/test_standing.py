"""How a resource stands, from its conditions and status; and advice for every reason that there is."""

import re
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.compaction import ANNOTATION_OPERATOR
from compaction_operator.api.request import SUCCESS_REASONS, Reason
from compaction_operator.cli import advice
from compaction_operator.cli.standing import Standing, State, standing, worth_a_line
from compaction_operator.controller.kube.resources import read_policy
from compaction_operator.controller.ownership import UNCLAIM
from tests.unit.controller.sandbox import cleanup, compaction
from tests.unit.controller.test_policies import policy_raw

FREE_IT = ", or: kubectl annotate tcomp nightly -n default compaction.dev/operator-"
DOCS = Path(__file__).parents[3] / "docs"
NOON, LATER = "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"
ALICE = {"kind": "Lock", "id": 4, "txnId": 7, "user": "alice", "host": "etl-7", "since": LATER}
BASELINE = {"time": LATER, "txnHighWaterMark": 40, "lockIds": [4]}


def condition(
    reason: str, status: str = "Unknown", message: str = "so it is", type_: str = "Succeeded"
) -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOON}


def of_compaction(reason: str, status: str = "Unknown", **fields: Any) -> Standing:
    return standing(compaction(status={"conditions": [condition(reason, status)], **fields}), "kc")


def of_cleanup(reason: str, status: str = "Unknown", spec: dict[str, Any] | None = None, **fields: Any) -> Standing:
    return standing(cleanup(**(spec or {}), status={"conditions": [condition(reason, status)], **fields}), "kc")


def of_policy(*conditions: dict[str, str], **spec: Any) -> Standing:
    return standing(read_policy({**policy_raw(**spec), "status": {"conditions": list(conditions)}}), "kc")


def test_a_compaction_that_runs_says_how_far_it_is_and_since_when() -> None:
    progress = {
        "partitionsDone": 1, "partitionsTotal": 12, "bytesDone": 4, "bytesTotal": 9,
        "summary": "1/12 partitions, 45%", "lastUpdateTime": LATER,
    }  # fmt: skip
    found = of_compaction("Running", phase="Running", attempt=2, attemptStartTime=LATER, progress=progress)
    assert (found.state, found.since, found.progress, found.attempt) == (
        State.RUNNING, LATER, "1/12 partitions, 45%", 2,
    )  # fmt: skip


def test_a_compaction_that_waits_says_what_for_and_when_it_is_tried_again() -> None:
    found = of_compaction("StorageUnavailable", phase="Waiting", nextAttemptTime=LATER)
    assert (found.state, found.reason, found.message) == (State.WAITING, "StorageUnavailable", "so it is")
    assert (found.since, found.next_attempt) == (NOON, LATER)
    assert found.steps == ("nothing if the store is back soon; else repair it, or make space",)


def test_an_obstacle_before_the_pods_counts_from_its_own_time() -> None:
    trouble = {"reason": "Unschedulable", "message": "0/3 nodes", "since": LATER}
    assert of_compaction("Unschedulable", phase="Waiting", attemptStartTime=NOON, podTrouble=trouble).since == LATER


def test_a_compaction_that_failed_says_what_to_do() -> None:
    found = of_compaction("OOMKilled", "False", phase="Failed", completionTime=LATER)
    assert (found.state, found.since) == (State.FAILED, LATER)
    assert "spark.driver.memory" in found.steps[0]


def test_a_compaction_that_is_done_leads_to_the_cleanup_that_is_not() -> None:
    done = {"phase": "Succeeded", "completionTime": LATER, "cleanups": ["nightly-1-0"]}
    found = of_compaction("Compacted", "True", cleanupPhase="WaitingForReaders", **done)
    assert (found.state, found.steps) == (State.SUCCEEDED, ("kc why ccl/nightly-1-0 -n default",))
    assert of_compaction("Compacted", "True", cleanupPhase="Succeeded", **done).steps == ()


def test_advised_commands_are_about_the_operator_and_context_that_the_user_gave() -> None:
    """Else they would ask another cluster, or another operator."""
    done = {"phase": "Succeeded", "completionTime": LATER, "cleanups": ["nightly-1-0"], "cleanupPhase": "Pending"}
    ended = compaction(status={"conditions": [condition("Compacted", "True")], **done})
    held = cleanup(suspend=True, status={"conditions": [condition("Suspended")]})
    for asked, context, options in (
        ("ops/op", None, " --operator ops/op"),
        ("ops/op", "the other", " --operator ops/op --context 'the other'"),
        (advice.OPERATOR, "there", " --context there"),
        (advice.OPERATOR, None, ""),
    ):
        found = standing(ended, "kc", asked=asked, context=context)
        assert found.steps == (f"kc why ccl/nightly-1-0 -n default{options}",)
        _, _, where = standing(held, "kc", asked=asked, context=context).steps[0].partition("-n default")
        assert where == options.removeprefix(" --operator ops/op")


def test_a_resource_that_nobody_has_written_to_waits_for_an_operator() -> None:
    for found in (standing(compaction(), "kc"), standing(cleanup(), "kc"), of_policy()):
        assert (found.state, found.reason, found.steps) == (State.WAITING, "NotSeenYet", (advice.UNSEEN,))


def test_what_another_operator_handles_names_it_and_the_way_around() -> None:
    """The event of it is gone after an hour. Who asks that operator itself needs no such word."""
    waits = {"operator": "two", "conditions": [condition("Queued")]}
    compactions = compaction(status=waits), compaction(status={"conditions": []})
    compactions[1].raw["metadata"]["annotations"] = {ANNOTATION_OPERATOR: "two"}
    for one in (*compactions, cleanup(operator="two"), read_policy({**policy_raw(), "status": waits})):
        found = standing(one, "kc", asked="one/op")
        assert (found.operator, found.state) == ("two", State.WAITING)
        assert found.steps[0].startswith(
            "the operator of namespace two handles this: ask there, by --operator two/SERVICE"
        )
        assert "list two under takeOver" in found.steps[0]
        assert found.steps[0].endswith(FREE_IT) is (one is compactions[1])
        assert len(found.steps) > 1
        for asked in ("two/op", None):
            assert standing(one, "kc", asked=asked).steps == found.steps[1:]
    done = compaction(status={"operator": "two", "conditions": [condition("Compacted", "True")]})
    assert standing(done, "kc", asked="one/op").steps == ()


def test_an_annotation_names_no_operator_once_there_was_an_attempt() -> None:
    """As the controller has it: an older one attempted without a name in the status, and goes on."""
    one = compaction(status={"attempt": 1, "conditions": [condition("Running")]})
    one.raw["metadata"]["annotations"] = {ANNOTATION_OPERATOR: "two"}
    found = standing(one, "kc", asked="one/op")
    assert (found.operator, found.steps) == (None, (advice.COMPACTION["Running"],))


def test_a_cleanup_names_each_reader_and_what_may_be_done_about_it() -> None:
    bob = {"kind": "Transaction", "id": 9, "user": "bob", "host": "nb", "health": "LikelyLeaked"}
    carol = {"kind": "Lock", "id": 5, "user": "carol", "host": "bi"}
    found = of_cleanup(
        "ReadersFromBefore",
        phase="WaitingForReaders",
        baseline=BASELINE,
        blockers=[ALICE, bob, carol],
        blockerCount=24,
    )
    assert (found.state, found.since, found.waits_for_count) == (State.WAITING, LATER, 24)
    assert found.waits_for[0] == f"lock 4 (transaction 7) of alice@etl-7 since {LATER}"
    alive, leaked, lock = found.steps
    assert alive.startswith("nothing while alice@etl-7 works")
    assert alive.endswith("if its result is not needed, ABORT TRANSACTIONS 7 in Hive")
    assert leaked.startswith("bob@nb seems to be gone: check that the metastore's housekeeping runs")
    assert "ABORT TRANSACTIONS 9" in leaked
    assert "ABORT" not in lock
    assert "SHOW LOCKS EXTENDED" in lock


def test_a_reader_that_is_gone_is_not_waited_for() -> None:
    """The list stays in the status of a cleanup that was suspended meanwhile."""
    found = of_cleanup("Suspended", spec={"suspend": True}, phase="Suspended", blockers=[ALICE], blockerCount=1)
    assert (found.waits_for, found.waits_for_count) == ((), 0)


def test_a_cleanup_that_waits_for_approval_says_how_to_approve() -> None:
    found = of_cleanup("WaitingForApproval", phase="WaitingForApproval", baseline=BASELINE, listedTime=NOON)
    assert found.since == NOON
    assert found.steps[0].endswith("kc approve ccl/nightly-1-0 -n default")


def test_who_suspended_a_cleanup_decides_who_can_resume_it() -> None:
    own = of_cleanup("Suspended", spec={"suspend": True}, phase="Suspended")
    assert own.steps == ("let it go on: kc resume ccl/nightly-1-0 -n default",)
    assert of_cleanup("Suspended", phase="Suspended").steps == (advice.BY_THE_OPERATOR,)


def test_a_deletion_that_is_retried_waits() -> None:
    assert of_cleanup("Deleting", phase="Deleting").state is State.RUNNING
    assert of_cleanup("ReadersBusy", phase="Deleting", deletionStartTime=LATER).state is State.WAITING


def test_an_overdue_cleanup_says_so_while_it_is() -> None:
    waiting, overdue = condition("ReadersFromBefore"), condition("DeadlinePassed", "True", "late", "Overdue")
    found = standing(cleanup(status={"conditions": [waiting, overdue]}), "kc")
    assert found.overdue == "late"
    over = {**overdue, "status": "False"}
    assert standing(cleanup(status={"conditions": [waiting, over]}), "kc").overdue is None


def test_a_policy_fails_waits_or_works() -> None:
    ready = condition("Looked", "True", type_="Ready")
    closed = condition("WindowClosed", "False", type_="Active")
    works = of_policy(ready, closed)
    assert (works.state, works.steps, works.message) == (State.RUNNING, (), "so it is; so it is")
    opens = of_policy(ready, condition("Open", "True", type_="Active"))
    assert (opens.state, opens.message) == (State.RUNNING, "so it is")
    fails = of_policy(condition("NothingMatches", "False", type_="Ready"))
    assert (fails.state, fails.steps) == (State.FAILED, (advice.POLICY["NothingMatches"],))
    just_now = of_policy(ready, condition("Open", "True", type_="Active"), suspend=True)
    assert (just_now.state, just_now.reason) == (State.WAITING, "NotSeenYet")
    away = of_policy(condition("MetastoreUnavailable", "Unknown", type_="Ready"))
    assert (away.state, away.steps) == (State.WAITING, (advice.POLICY["MetastoreUnavailable"],))
    held = of_policy(ready, condition("Suspended", "False", type_="Active"), suspend=True)
    assert (held.state, held.steps) == (State.WAITING, ("let it go on: kc resume tcp/keep -n default",))


def test_what_is_done_is_worth_no_line() -> None:
    works = of_policy(condition("Looked", "True", type_="Ready"))
    done, failed = of_compaction("Compacted", "True"), of_compaction("OOMKilled", "False")
    assert list(worth_a_line([works, done, failed])) == [failed]


def test_every_reason_of_a_compaction_has_advice() -> None:
    assert set(Reason) - SUCCESS_REASONS - advice.COMPACTION.keys() == set()


@pytest.mark.parametrize(
    ("heading", "known"), [("## TableCompaction", advice.COMPACTION), ("## CompactionCleanup", advice.CLEANUP)]
)
def test_every_documented_reason_has_advice(heading: str, known: dict[str, str]) -> None:
    """Those of what waits or has failed."""
    text = (DOCS / "resources.md").read_text()
    section = next(part for part in re.split(r"(?m)^(?=## )", text) if part.startswith(heading))
    rows = [line.split("|")[2] for line in section.splitlines() if re.match(r"\| (Unknown|False) \| [A-Z]", line)]
    found = {word for row in rows for word in re.findall(r"\b[A-Z]\w+\b", row)} - {"Hive"}
    assert len(found) > 15
    assert found - known.keys() - {"NoAutoCompactionMissing", "InitiatorUnknown"} == set()


def test_the_way_around_an_operator_that_is_gone_is_documented() -> None:
    for page in "operate.md", "install.md":
        assert UNCLAIM.format(name="NAME", namespace="NAMESPACE") in (DOCS / page).read_text()


def test_every_documented_reason_of_a_policy_has_advice() -> None:
    text = (DOCS / "policies.md").read_text()
    table = text[text.index("`READY` says what is wrong") :].split("\n\n")[1]
    found = {word for line in table.splitlines()[2:] for word in re.findall(r"\b[A-Z]\w+\b", line.split("|")[1])}
    assert found - advice.POLICY.keys() == {"Looked"}
