"""The driver's last words: one JSON object whatever happens, and the exit code that goes with it."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from compaction_operator.api.compaction import AUTO, CompactionType, ExecutorResources, SparkOptions
from compaction_operator.api.request import FINAL_REASONS, REQUEST_VARIABLE, DriverResult, Reason
from compaction_operator.driver import main as driver
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.journal import JournalRefused
from compaction_operator.driver.kube import KubernetesJournals
from compaction_operator.driver.merge.placement import EXECUTOR_WAIT_SECONDS, Limits
from compaction_operator.driver.stages import Stages
from compaction_operator.metastore import MetastoreError, MetastoreUnavailable, Refused, Resolved, Table
from tests.support.metastore import FakeMetastore, serving

from .support import REQUEST

ENVIRONMENT = {REQUEST_VARIABLE: REQUEST.model_dump_json(by_alias=True), "POD_UID": "pod-1"}


@pytest.fixture
def message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the kubelet gives the container for its last words."""
    path = tmp_path / "termination-log"
    path.touch()
    monkeypatch.setattr(driver, "TERMINATION_MESSAGE_PATH", str(path))
    return path


@pytest.mark.parametrize(
    ("instances", "executors", "expected"),
    [(AUTO, 2, (EXECUTOR_WAIT_SECONDS, True)), (AUTO, 0, (None, True)), (2, 2, (1800.0, False)), (0, 0, (None, True))],
)
def test_only_executors_that_the_driver_chose_are_given_up(
    instances: object, executors: int, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction that asks for a number gets it, or waits for as long as the profile allows."""
    asked = SparkOptions(executors=ExecutorResources.model_validate({"instances": instances}))
    monkeypatch.setattr(driver, "SparkRunner", lambda *_, **said: (said["patience"], said["replaceable"]))
    limits = Limits(asked.executors, most=4)
    placed = driver._runner(REQUEST.model_copy(update={"spark": asked}), {}, limits, tell=lambda _: None)
    assert placed._start(executors) == expected


def ending(monkeypatch: pytest.MonkeyPatch, end: DriverResult | Exception) -> None:
    def compact(*_: Any, **__: Any) -> DriverResult:
        if isinstance(end, Exception):
            raise end
        return end

    monkeypatch.setattr(driver, "compact", compact)


@pytest.mark.parametrize(
    ("end", "reason", "code"),
    [
        (DriverResult(reason=Reason.COMPACTED, message="3 files into 1"), Reason.COMPACTED, 0),
        (DriverResult(reason=Reason.NOTHING_TO_COMPACT, message="nothing"), Reason.NOTHING_TO_COMPACT, 0),
        (JobError(Reason.LOCK_LOST, "lock 7 is gone"), Reason.LOCK_LOST, 1),
        (Refused(Reason.TABLE_NOT_FOUND, "no such table"), Reason.TABLE_NOT_FOUND, 1),
        (MetastoreUnavailable("no answer in 20 s"), Reason.METASTORE_UNAVAILABLE, 1),
        (MetastoreError("refused"), Reason.DRIVER_FAILED, 1),
        (RuntimeError("Spark broke"), Reason.DRIVER_FAILED, 1),
    ],
)
def test_every_end_leaves_its_reason_and_exit_code(
    end: DriverResult | Exception, reason: Reason, code: int, message: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending(monkeypatch, end)
    monkeypatch.setattr(Stages, "times", lambda _: {"plan": (1, 2, 1)})
    assert driver.main(ENVIRONMENT) == code
    assert DriverResult.model_validate_json(message.read_text()).stages == {"plan": (1, 2, 1)}
    assert DriverResult.model_validate_json(message.read_text()).reason is reason


def test_a_long_message_is_still_whole_json_within_the_kubelets_bound(
    message: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending(monkeypatch, JobError(Reason.UNREADABLE_FILE, "ü" * 100_000))
    driver.main(ENVIRONMENT)
    assert len(message.read_bytes()) <= 4096
    assert DriverResult.model_validate_json(message.read_text()).reason is Reason.UNREADABLE_FILE


def test_a_request_that_cannot_be_read_is_a_result_too(message: Path) -> None:
    assert driver.main({REQUEST_VARIABLE: "{}", "POD_UID": "pod-1"}) == 1
    assert DriverResult.model_validate_json(message.read_text()).reason is Reason.DRIVER_FAILED


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], None]:
    """Make the API server answer each creation with that status and body."""

    def answer(status: int, body: str) -> None:
        class Api:
            def create_namespaced_custom_object(self, *_: Any, **__: Any) -> None:
                error = kubernetes.client.ApiException(status=status, reason="Refused")
                error.body = body
                raise error

        monkeypatch.setattr(kubernetes.config, "load_incluster_config", lambda: None)
        monkeypatch.setattr(kubernetes.client, "CustomObjectsApi", Api)

    return answer


JOURNAL = {"metadata": {"name": "nightly-1-0"}}


@pytest.mark.parametrize("body", [json.dumps({"message": "cannot create resource"}), "cannot create resource"])
def test_a_journal_that_the_api_server_refuses_is_said_in_one_line(
    body: str, refusing: Callable[[int, str], None]
) -> None:
    refusing(403, body)
    with pytest.raises(JobError) as caught:
        KubernetesJournals().create("team", JOURNAL)
    assert str(caught.value) == "journal nightly-1-0 not created: 403 Refused: cannot create resource"
    assert not isinstance(caught.value, JournalRefused)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_fault_of_the_journal_itself_is_distinguished_from_other_errors(
    status: int, refusing: Callable[[int, str], None]
) -> None:
    """Such an answer is about what the journal says; any other could be about anything."""
    refusing(status, json.dumps({"message": 'name "delta_x" is invalid'}))
    with pytest.raises(JournalRefused, match='name "delta_x" is invalid'):
        KubernetesJournals().create("team", JOURNAL)


def test_a_journal_that_is_there_already_is_no_error(refusing: Callable[[int, str], None]) -> None:
    refusing(409, "{}")
    assert not KubernetesJournals().create("team", JOURNAL)


@pytest.mark.parametrize("allowed", [False, True])
def test_a_table_that_hive_compacts_by_itself_is_not_begun_unless_that_is_allowed(
    allowed: bool, message: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H23, on Hive 3.1."""
    metastore = FakeMetastore(settings={"hive.compactor.initiator.on": "true"})
    table = Table("sales", "orders", "file:/t", 1, "", "", ())
    monkeypatch.setattr(driver, "MetastoreClient", lambda _: nullcontext(metastore))
    monkeypatch.setattr(driver, "resolve", lambda *_: Resolved(table, ()))
    monkeypatch.setattr(driver, "misplaced", lambda *_: {})
    monkeypatch.setattr(driver, "KubernetesJournals", lambda: pytest.fail("it begins"))
    request = REQUEST.model_copy(update={"allow_auto_compaction": allowed}).model_dump_json(by_alias=True)
    if allowed:
        with pytest.raises(pytest.fail.Exception):
            driver.main({REQUEST_VARIABLE: request, "POD_UID": "pod-1"})
        return
    assert driver.main({REQUEST_VARIABLE: request, "POD_UID": "pod-1"}) == 1
    result = DriverResult.model_validate_json(message.read_text())
    assert (result.reason, result.reason in FINAL_REASONS) == (Reason.AUTO_COMPACTION_ON, True)


def test_a_hudi_table_by_name_lies_where_the_warehouse_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver asks again: the table may have moved since the controller did."""
    hudi = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
    metastore = serving(Table("sales", "orders", "file:/elsewhere/orders", 1, hudi, "", ()))
    monkeypatch.setattr(driver, "MetastoreClient", lambda _: nullcontext(metastore))
    warehouse = REQUEST.warehouse.model_copy(update={"locations": ("/warehouse",)})
    request = REQUEST.model_copy(update={"type": CompactionType.LOG_COMPACTION, "warehouse": warehouse})
    with pytest.raises(Refused, match="it lies at file:/elsewhere/orders") as refused:
        driver.compact(request, pod_uid="pod-1", environment={})
    assert refused.value.reason is Reason.NOT_ALLOWED
