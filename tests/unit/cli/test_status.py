"""The verbs `status` and `why KIND/NAME`: what a user and a script see."""

import json
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from compaction_operator.cli import status, why
from compaction_operator.cli.cluster import Known
from compaction_operator.cli.standing import Standing, standing
from compaction_operator.cli.status import Which
from tests.unit.cli.conftest import FakeApi, Raw
from tests.unit.cli.test_standing import ALICE, BASELINE, condition
from tests.unit.controller.sandbox import cleanup, cleanup_raw, compaction, compaction_raw
from tests.unit.controller.test_policies import policy_raw
from tests.unit.test_cli import verb

PAGE = (Path(__file__).parents[3] / "docs/command-line.md").read_text()
AFTERNOON = datetime(2026, 1, 1, 15, tzinfo=UTC)
PROGRESS = {"partitionsDone": 1, "partitionsTotal": 2, "bytesDone": 1, "bytesTotal": 2, "lastUpdateTime": "x"}


def running(name: str = "hourly", namespace: str = "default") -> Raw:
    progress = {**PROGRESS, "summary": "1/2 partitions, 50%"}
    stands = {"conditions": [condition("Running")], "phase": "Running", "attempt": 1, "progress": progress}
    return {**compaction_raw(name, namespace=namespace), "status": stands}


def failed() -> Raw:
    conditions = [condition("OOMKilled", "False", "the driver ran out of memory")]
    return {**compaction_raw("nightly"), "status": {"conditions": conditions, "completionTime": "2026-01-01T14:00:00Z"}}


def waiting() -> Raw:
    message = "waiting for lock 4 (transaction 7) of alice@etl-7"
    stands = {"conditions": [condition("ReadersFromBefore", message=message)], "phase": "WaitingForReaders"}
    return {**cleanup_raw(), "status": {**stands, "baseline": BASELINE, "blockers": [ALICE], "blockerCount": 2}}


def of_kc(resource: Known) -> Standing:
    return standing(resource, "kc")


def test_a_table_for_each_state_with_what_to_do() -> None:
    """As the page shows it."""
    resources: list[Known] = [
        compaction(status=running()["status"]),
        cleanup(status=waiting()["status"]),
        compaction(name="big", status=failed()["status"]),
        compaction(name="done", status={"conditions": [condition("Compacted", "True")]}),
    ]
    text = "\n".join(status.lines(map(of_kc, resources), AFTERNOON))
    assert click.unstyle(text).replace("default  ", "analytics") in PAGE
    assert "\x1b[31m" in text


def test_a_client_of_hive_cannot_write_to_the_terminal() -> None:
    """It chooses its own name, which may hold what clears a screen or looks like the program's own advice."""
    raw = waiting()["status"]
    raw["blockers"] = [{**ALICE, "host": "h\x1b[2J\n    next: approve ccl/other"}]
    raw["conditions"][0]["message"] = "waiting for alice@h\x1b[2J\nnext: approve ccl/other"
    stands = of_kc(cleanup(status=raw))
    for lines in (status.lines([stands], AFTERNOON), why.lines(stands, AFTERNOON)):
        shown = [click.unstyle(line) for line in lines]
        assert all(line.isprintable() for line in shown)
        assert not any(line.lstrip().startswith("next: approve") for line in shown)


def test_nothing_is_said_too() -> None:
    assert list(status.lines([], AFTERNOON)) == ["nothing to show"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), Which()),
        (("etl/", "bi/"), Which(("etl", "bi"))),
        (("sales.orders",), Which((), "sales.orders")),
        (("etl/", "sales.orders"), Which(("etl",), "sales.orders")),
        (("etl/sales.orders",), Which(("etl",), "sales.orders")),
        (("s3a://b/lake/t",), Which((), "s3a://b/lake/t")),
        (("/lake/t",), Which((), "/lake/t")),
    ],
)
def test_what_is_asked_for(arguments: tuple[str, ...], expected: Which) -> None:
    assert Which.parse(arguments) == expected


@pytest.mark.parametrize("arguments", [("orders",), ("a/b/c.d",), ("",), ("a.b", "c.d")])
def test_what_cannot_be_understood_is_one_line(arguments: tuple[str, ...], api: FakeApi) -> None:
    done = verb("status", *arguments)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)


def test_all_namespaces_or_some_are_shown(api: FakeApi) -> None:
    api.objects = [running(), running("weekly", "other"), failed(), waiting(), policy_raw()]
    everything = verb("status")
    assert (everything.returncode, everything.stderr) == (0, "")
    assert everything.stdout.splitlines()[-1] == "2 running, 1 waiting, 1 failed, 0 succeeded"
    one = verb("status", "other/")
    assert one.stdout.splitlines()[-1] == "1 running, 0 waiting, 0 failed, 0 succeeded"
    assert verb("status", "-n", "other").stdout == one.stdout
    assert "tcomp/weekly" in one.stdout
    assert verb("status", "sales.items").stdout == "nothing to show\n"
    assert "tcp/keep" in everything.stdout


def test_no_escape_sequences_where_no_terminal_reads(api: FakeApi) -> None:
    api.objects = [failed()]
    assert "\x1b" not in verb("status").stdout


def test_a_script_gets_json_with_everything(api: FakeApi) -> None:
    api.objects = [waiting()]
    (found,) = json.loads(verb("status", "--json").stdout)
    assert found == json.loads(verb("status", "-o", "json").stdout)[0]
    assert (found["kind"], found["state"], found["waitsForCount"]) == ("CompactionCleanup", "Waiting", 2)
    assert found == json.loads(verb("why", "ccl/nightly-1-0", "--json").stdout)


def test_who_may_list_one_namespace_only_gets_that_and_is_told(api: FakeApi) -> None:
    api.objects, api.only = [running(), running("weekly", "other")], "default"
    done = verb("status")
    assert "tcomp/hourly" in done.stdout
    assert "weekly" not in done.stdout
    assert done.stderr == "you may not list all namespaces; this is default alone\n"
    assert "tcomp/weekly" in verb("status", "--context", "there").stdout


def test_what_cannot_be_read_is_named_beside_the_rest(api: FakeApi) -> None:
    newer = {**compaction_raw("newer"), "status": {"phase": "Unheard"}}
    api.objects = [newer, failed()]
    done = verb("status")
    assert "tcomp/nightly" in done.stdout
    assert done.stderr.startswith("TableCompaction default/newer cannot be read by this version: ")


def test_a_context_that_does_not_exist_is_one_line(api: FakeApi) -> None:
    done = verb("status", "--context", "nowhere")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert "nowhere" in done.stderr


def test_why_a_cleanup_waits(api: FakeApi) -> None:
    """As the page shows it."""
    raw = waiting()
    text = "\n".join(why.lines(of_kc(cleanup(status=raw["status"])), AFTERNOON))
    assert text.replace("default/", "analytics/") in PAGE
    api.objects = [raw]
    done = verb("why", "ccl/nightly-1-0")
    assert (done.returncode, done.stderr) == (0, "")
    without_age = [line.partition("Z, ")[0] for line in done.stdout.splitlines()]
    assert without_age == [line.partition("Z, ")[0] for line in text.splitlines()]


def test_why_a_compaction_failed() -> None:
    found = standing(compaction(status=failed()["status"]), "kc")
    assert list(why.lines(found, AFTERNOON)) == [
        "default/tcomp/nightly of sales.orders (warehouse lake): failed (OOMKilled)",
        "  the driver ran out of memory",
        "  since       2026-01-01T14:00:00Z, 1h ago",
        "  what to do  give a new compaction more spark.driver.memory, or let it ask for executors",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("job/x",), "write tcomp/NAME, ccl/NAME, tcp/NAME"),
        (("ccl/",), "write tcomp/NAME"),
        (("ccl/x", "--policy", "p"), "--policy is for a table"),
        (("ccl/x", "--url", "http://x"), "--url is for a table"),
    ],
)
def test_a_question_that_cannot_be_is_a_wrong_command_line(arguments: tuple[str, ...], says: str) -> None:
    done = verb("why", *arguments)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert says in done.stderr


def test_a_resource_that_does_not_exist_is_one_line(api: FakeApi) -> None:
    done = verb("why", "tcomp/x", "-n", "other")
    assert (done.returncode, done.stdout) == (1, "")
    assert "404 Not Found: x not found" in done.stderr


def test_next_steps_repeat_the_operator_and_the_context_that_were_given(api: FakeApi) -> None:
    ended = {"conditions": [condition("Compacted", "True")], "cleanups": ["nightly-1-0"], "cleanupPhase": "Pending"}
    api.objects = [{**compaction_raw("nightly"), "status": {**ended, "completionTime": "2026-01-01T14:00:00Z"}}]
    given = ("--operator", "ops/op", "--context", "here")
    found = json.loads(verb("why", "tcomp/nightly", "-n", "default", *given, "--json").stdout)
    assert found["steps"] == [f"compaction-operator why ccl/nightly-1-0 -n default {' '.join(given)}"]
    (shown,) = json.loads(verb("status", "--context", "here", "--json").stdout)
    assert shown["steps"] == ["compaction-operator why ccl/nightly-1-0 -n default --context here"]
