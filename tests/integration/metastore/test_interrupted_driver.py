"""A driver that gets SIGTERM, as when its node is drained: a process of its own, with a real metastore."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sandbox.harness.wait import wait_until
from sandbox.metastore.server import MetastoreServer

from compaction_operator import orc
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.request import REQUEST_VARIABLE, WAITING_REASONS, DriverResult, JobRequest, Reason
from compaction_operator.driver import interruption
from compaction_operator.driver import main as driver
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.orc import Check
from compaction_operator.storage import LocalStorage
from tests.integration.metastore.fixture_table import FixtureTable
from tests.unit.driver.support import REQUEST, Store

MAJOR = CompactionType.MAJOR
FIRST_HALF = "delta_0000001_0000005"
GRACE_SECONDS = 60


def told(here: Path) -> None:
    """Say that the moment has come, and go on when the signal has."""
    here.touch()
    wait_until(lambda: interruption._Asked.yes, timeout=30, what="the signal")


def drive(request: str, message: Path, here: Path, moment: str) -> None:
    """Be a driver's process, without Kubernetes, to which the signal comes at that moment."""
    tasks, publish = LocalRunner.run, LocalStorage.publish

    def run(self: LocalRunner, *arguments: Any) -> Any:
        outcomes = tasks(self, *arguments)
        told(here)
        return outcomes

    def renamed(self: LocalStorage, source: str, target: str) -> None:
        publish(self, source, target)
        if "/_" not in target:
            with here.with_name("renamed").open("a") as file:
                file.write(f"{source}\n")
            if Path(target).name == FIRST_HALF:
                told(here)

    def merging(*arguments: Any, check: Check, **more: Any) -> None:
        here.touch()
        while True:
            check()
            time.sleep(0.05)

    if moment == "merging":
        orc.merge_bucket = merging  # type: ignore[assignment]
    if moment == "merged":
        LocalRunner.run = run  # type: ignore[method-assign, assignment]
    if moment == "between the renames":
        LocalStorage.publish = renamed  # type: ignore[method-assign]
    store = Store(on_create=lambda: told(here) if moment == "journal" else None)
    for name, stand_in in {
        "KubernetesJournals": lambda: store,
        "OwnPod": lambda *_: SimpleNamespace(annotate=lambda *_: None),
        "TERMINATION_MESSAGE_PATH": str(message),
    }.items():
        setattr(driver, name, stand_in)
    sys.exit(driver.main({REQUEST_VARIABLE: request, "POD_UID": "pod1", "POD_NAME": "pod1"}))


@contextmanager
def driving(table: FixtureTable, uri: str, folder: Path, moment: str, **changes: Any) -> Iterator[BaseProcess]:
    metastore = REQUEST.warehouse.metastore.model_copy(update={"uris": (uri,), "timeout": 20.0})
    request: JobRequest = REQUEST.model_copy(
        update={
            "warehouse": REQUEST.warehouse.model_copy(update={"metastore": metastore}),
            "table": TableRef(database=table.database, name=table.name),
            **changes,
        }
    )
    (folder / "message").touch()
    arguments = (request.model_dump_json(by_alias=True), folder / "message", folder / "here", moment)
    process = get_context("spawn").Process(target=drive, args=arguments)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def ended(process: BaseProcess, folder: Path) -> DriverResult:
    """Tell it to end, and return its last words."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    process.join(GRACE_SECONDS)
    assert process.exitcode == 1
    return DriverResult.model_validate_json((folder / "message").read_text())


def require_nothing_left(table: FixtureTable, *partitions: str) -> None:
    assert (table.locks(), table.own_transactions()) == ([], [])
    assert [entry for entry in table.queue() if not entry.is_ended and entry.committed is None] == []
    left = [name for partition in partitions or ("",) for name in table.names(partition)]
    assert [name for name in left if name.startswith("_compaction")] == []


@pytest.mark.parametrize("moment", ["merging", "merged", "journal"])
def test_an_interrupted_driver_leaves_nothing_and_is_not_counted(
    moment: str, three_inserts: FixtureTable, server: MetastoreServer, tmp_path: Path
) -> None:
    table = three_inserts
    with driving(table, server.uri, tmp_path, moment, type=MAJOR) as process:
        wait_until((tmp_path / "here").exists, timeout=60, what=moment)
        result = ended(process, tmp_path)
    assert (result.reason, result.reason in WAITING_REASONS) == (Reason.INTERRUPTED, True)
    assert not [name for name in table.names() if name.startswith("base")]
    require_nothing_left(table)
    assert table.run(MAJOR, attempt=3).reason is Reason.COMPACTED
