"""The log as JSON: each line is one object, and says what it is about, whatever task or thread writes it."""

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from compaction_operator import logs
from compaction_operator.api.config import LogSettings, OperatorConfig
from compaction_operator.api.request import REQUEST_VARIABLE, JobRequest
from compaction_operator.controller import app
from compaction_operator.controller.kube.client import KubeError
from compaction_operator.controller.kube.cluster import Pools, WarehousePools, run_in
from compaction_operator.controller.kube.job import job_request
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.driver import main as driver
from compaction_operator.logs import LogFormat
from tests.unit.controller.sandbox import CONFIG, Inline, Sandbox, cleanup_raw, compaction, compaction_raw, runs
from tests.unit.controller.test_policies import memory, policy_raw, state

Lines = Callable[[], list[dict[str, Any]]]
log = logging.getLogger("a.test")
OF_COMPACTION = {
    "warehouse": "lake",
    "namespace": "default",
    "resource": "TableCompaction/nightly",
    "table": "sales.orders",
}


@pytest.fixture
def root() -> Iterator[logging.StreamHandler[io.StringIO]]:
    """Give the only handler of the root logger."""
    logger, handler = logging.getLogger(), logging.StreamHandler(io.StringIO())
    old, level = logger.handlers[:], logger.level
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    yield handler
    logger.handlers[:] = old
    logger.setLevel(level)


@pytest.fixture
def lines(root: logging.StreamHandler[io.StringIO]) -> Lines:
    """Write JSON, and give what was written so far."""
    logs.write_as(LogFormat.JSON)
    return lambda: [json.loads(line) for line in root.stream.getvalue().splitlines()]


def about(line: dict[str, Any]) -> dict[str, Any]:
    """Return the subject of a line."""
    return {name: value for name, value in line.items() if name not in {"time", "level", "logger", "message"}}


def subjects(lines: Lines, text: str) -> list[dict[str, Any]]:
    """Return the subjects of the lines whose message has a text."""
    return [about(line) for line in lines() if text in line["message"]]


def test_a_line_is_one_object_also_with_a_traceback(lines: Lines) -> None:
    log.error("a %s", "fault\nof ours", exc_info=ValueError("bad\nnews"))
    (line,) = lines()
    assert (line["level"], line["logger"], line["message"]) == ("ERROR", "a.test", "a fault\nof ours")
    assert line["exception"] == "ValueError: bad\nnews"
    assert line["time"].endswith("+00:00")


def test_text_is_left_as_it_was(root: logging.StreamHandler[io.StringIO]) -> None:
    root.setFormatter(logging.Formatter("%(message)s"))
    logs.write_as(LogFormat.TEXT)
    log.info("as before")
    assert root.stream.getvalue() == "as before\n"


@runs
async def test_a_thread_writes_about_what_its_caller_does_and_tasks_do_not_mix() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter({"warehouse": "of the process"}))
    threads = ThreadPoolExecutor(1)

    async def work(name: str) -> None:
        logs.set_subject({"resource": name})
        await run_in(threads, handler.handle, record(name))
        handler.handle(record(name))

    await asyncio.gather(*(asyncio.create_task(work(name)) for name in "abc"))
    handler.handle(record("of the process"))
    threads.shutdown()
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(found) == 7
    assert all(line["message"] == line.get("resource", line.get("warehouse")) for line in found)


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord("a", logging.INFO, "", 0, message, (), None)


def test_lines_of_a_compaction_name_it_its_table_and_its_attempt(lines: Lines) -> None:
    """As soon as the attempt is recorded: it is not the one with which the step began."""

    @runs
    async def scenario() -> None:
        box = Sandbox()
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
        await box.start()
        box.kube.end_job(box.kube.jobs()[0], ok=False)
        await box.run()
        await box.pass_time(10)

    scenario()
    assert subjects(lines, "Started") == [OF_COMPACTION | {"attempt": 1}, OF_COMPACTION | {"attempt": 2}]
    assert subjects(lines, "AttemptFailed") == [OF_COMPACTION | {"attempt": 1}]


def test_lines_about_what_the_api_server_refuses(lines: Lines) -> None:
    """Before anything is written, and of the thread that posts events."""

    @runs
    async def scenario() -> None:
        box = Sandbox()
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
        write = box.kube.replace_status

        def refuse(*_: Any) -> Any:
            raise KubeError("500 of a test")

        box.kube.create_event = refuse  # type: ignore[assignment]
        box.kube.replace_status = refuse  # type: ignore[assignment]
        with ThreadPoolExecutor(1) as threads:
            box.pools = Pools(threads, {}, WarehousePools(Inline(), Inline(), Inline(), Inline(), Inline()))
            await box.start()
            box.kube.replace_status = write  # type: ignore[method-assign]
            await box.pass_time(1)

    scenario()
    refused = [about(line) for line in lines() if line["message"].startswith("TableCompaction default/nightly: 500")]
    assert refused == [OF_COMPACTION]
    assert subjects(lines, "not posted: 500") == [OF_COMPACTION | {"attempt": 1}]


def test_lines_of_a_cleanup_and_of_its_worker_threads(lines: Lines) -> None:
    @runs
    async def scenario() -> None:
        box = Sandbox()
        box.kube.apply(ResourceKind.CLEANUP, cleanup_raw())
        settle = box.work.settle

        def talkative(*args: Any, **options: Any) -> Any:
            log.warning("from a thread")
            return settle(*args, **options)

        box.work.settle = talkative  # type: ignore[method-assign]
        with ThreadPoolExecutor(1) as threads:
            pools = WarehousePools(threads, Inline(), Inline(), Inline(), Inline())
            box.pools = Pools(Inline(), {"lake": pools}, pools)
            await box.start()

    scenario()
    expected = OF_COMPACTION | {"resource": "CompactionCleanup/nightly-1-0", "attempt": 1}
    assert subjects(lines, "from a thread") == subjects(lines, "Deleted") == [expected]


def test_lines_of_a_policy_and_of_a_warehouse(lines: Lines) -> None:
    @runs
    async def scenario() -> None:
        box = Sandbox()
        box.work.memory = memory(state("sales.orders"))
        box.kube.apply(ResourceKind.POLICY, policy_raw())
        await box.start()
        box.work.metastore_down = True
        await box.pass_time(30)

    scenario()
    of_policy = {"warehouse": "lake", "namespace": "default", "resource": "CompactionPolicy/keep"}
    assert subjects(lines, "policy default/keep: compaction") == [of_policy]
    assert subjects(lines, "its metastore does not answer") == [{"warehouse": "lake"}]


def test_the_configuration_reaches_the_driver(lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its lines says what it works on, also those of threads that it starts itself."""
    config = CONFIG.model_copy(update={"log": LogSettings(format=LogFormat.JSON)})
    request = JobRequest.model_validate_json(
        json.dumps(job_request(compaction(status={"attempt": 2}), config).to_json())
    )
    monkeypatch.setattr(logging.getLogger().handlers[0], "formatter", None)

    def fail(*_: Any, **__: Any) -> Any:
        with ThreadPoolExecutor(1) as threads:
            threads.submit(log.warning, "from a thread").result()
        raise ValueError("over")

    monkeypatch.setattr(driver, "compact", fail)
    assert driver.main({REQUEST_VARIABLE: request.model_dump_json(by_alias=True), "POD_UID": "pod"}) == 1
    assert [line["message"] for line in lines()] == [
        "from a thread",
        "the driver failed",
        "DriverFailed: ValueError: over",
    ]
    for line in lines():
        assert about(line).items() >= (OF_COMPACTION | {"attempt": 2}).items()


def test_the_controller_writes_as_its_configuration_says(
    root: logging.StreamHandler[io.StringIO], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("{warehouses: [], profiles: [], log: {format: Json}}")
    monkeypatch.setattr(app, "_controller", lambda *_: (None, None))
    monkeypatch.setattr(app, "_lead", lambda *_: log.info("ready"))
    monkeypatch.setattr(app, "_leave", lambda *_: None)
    app.run(str(path))
    assert json.loads(root.stream.getvalue())["message"] == "ready"


def test_without_a_setting_the_log_is_text() -> None:
    assert OperatorConfig(warehouses=(), profiles=()).log.format is LogFormat.TEXT
