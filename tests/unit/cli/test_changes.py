"""The verbs `approve`, `suspend` and `resume`: what they send, and what they refuse because it has no effect."""

from typing import Any

import pytest

from tests.unit.cli.conftest import FakeApi, Raw
from tests.unit.cli.test_standing import condition
from tests.unit.controller.sandbox import cleanup_raw, compaction_raw
from tests.unit.controller.test_policies import policy_raw
from tests.unit.test_cli import verb

LISTED = {"partition": "day=1", "state": "Published", "planned": ["delta_1", "delta_2"]}
ASKS = {"conditions": [condition("WaitingForApproval")], "phase": "WaitingForApproval", "partitions": [LISTED]}
NOON = "2026-01-01T12:00:00Z"


def asking(**fields: Any) -> Raw:
    return {**cleanup_raw(mode="Plan", **fields), "status": {**ASKS, "listedTime": NOON}}


def sent(plural: str, name: str, spec: dict[str, bool], uid: str) -> tuple[str, Any]:
    path = f"/apis/compaction.dev/v1alpha1/namespaces/default/{plural}/{name}"
    return path, {"metadata": {"uid": uid}, "spec": spec}


def test_approval_is_one_field_of_the_very_object_that_was_read(api: FakeApi) -> None:
    api.objects = [asking()]
    done = verb("approve", "ccl/nightly-1-0")
    assert (done.returncode, done.stderr) == (0, "")
    assert api.sent == [sent("compactioncleanups", "nightly-1-0", {"approved": True}, "uid-nightly-1-0")]
    assert done.stdout.splitlines() == [
        "default/nightly-1-0 approved",
        "  day=1: delta_1",
        "  day=1: delta_2",
        "of 2 names it deletes those that are obsolete at that moment",
    ]


def test_approval_in_advance_says_that_nothing_is_listed_yet(api: FakeApi) -> None:
    api.objects = [cleanup_raw(mode="Plan")]
    done = verb("approve", "ccl/nightly-1-0", "-n", "default")
    assert "it has listed nothing yet" in done.stdout
    assert len(api.sent) == 1


@pytest.mark.parametrize(
    ("arguments", "objects", "says"),
    [
        (("approve", "ccl/nightly-1-0"), [cleanup_raw()], "its mode is Auto: only a cleanup with mode Plan waits"),
        (("approve", "ccl/nightly-1-0"), [cleanup_raw(mode="Never")], "its mode is Never"),
        (("approve", "ccl/nightly-1-0"), [asking(approved=True)], "it is approved already"),
        (
            ("approve", "ccl/nightly-1-0"),
            [{**asking(), "status": {**ASKS, "phase": "Succeeded", "completionTime": NOON}}],
            "it has ended (Succeeded)",
        ),
        (("suspend", "ccl/nightly-1-0"), [cleanup_raw(suspend=True)], "it is suspended already"),
        (("suspend", "tcomp/nightly"), [compaction_raw(suspend=True)], "it is suspended already"),
        (
            ("suspend", "tcomp/nightly"),
            [{**compaction_raw(), "status": {"phase": "Failed", "completionTime": NOON}}],
            "it has ended (Failed)",
        ),
        (("suspend", "tcp/keep"), [policy_raw(suspend=True)], "it is suspended already"),
        (("resume", "tcomp/nightly"), [compaction_raw()], "it is not suspended"),
        (("resume", "tcp/keep"), [policy_raw()], "it is not suspended"),
    ],
)
def test_what_has_no_effect_is_refused_and_nothing_is_sent(
    arguments: tuple[str, ...], objects: list[Raw], says: str, api: FakeApi
) -> None:
    api.objects = objects
    done = verb(*arguments)
    assert (done.returncode, done.stdout, api.sent) == (1, "", [])
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "plural", "raw", "held"),
    [
        ("tcomp/nightly", "tablecompactions", compaction_raw(), "no attempt is started"),
        ("tcp/keep", "compactionpolicies", policy_raw(), "no look is made and nothing is created"),
        ("ccl/nightly-1-0", "compactioncleanups", cleanup_raw(), "nothing is deleted"),
    ],
)
def test_each_kind_is_suspended_and_resumed(name: str, plural: str, raw: Raw, held: str, api: FakeApi) -> None:
    metadata = raw["metadata"]
    api.objects = [raw]
    assert held in verb("suspend", name).stdout
    api.objects = [{**raw, "spec": {**raw["spec"], "suspend": True}}]
    assert verb("resume", name).stdout == f"default/{metadata['name']} goes on\n"
    assert api.sent == [sent(plural, metadata["name"], {"suspend": value}, metadata["uid"]) for value in (True, False)]


@pytest.mark.parametrize("arguments", [("approve", "tcomp/x"), ("approve", "x"), ("suspend", "job/x"), ("resume",)])
def test_another_kind_is_a_wrong_command_line(arguments: tuple[str, ...], api: FakeApi) -> None:
    done = verb(*arguments)
    assert (done.returncode, done.stdout, api.sent) == (2, "", [])
    assert len(done.stderr.splitlines()) == 1
