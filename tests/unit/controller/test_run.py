"""The configuration file, and how kopf is set up."""

import asyncio
import os
import threading
from pathlib import Path
from typing import NoReturn, cast

import kopf
import pytest

from compaction_operator.controller import app
from compaction_operator.controller.app import _watched, load_config, operator_settings, register, run
from compaction_operator.controller.election import Election
from compaction_operator.controller.kube.cluster import Pools
from compaction_operator.controller.kube.history import WentBackError
from compaction_operator.controller.loop import Controller
from tests.unit.controller.sandbox import FakeKube, Sandbox, compaction_raw, runs

GOOD = """
warehouses:
  - name: lake
    metastore: {uris: ["thrift://metastore:9083"], timeout: 5s}
    namespaces: [default]
profiles:
  - {name: default, image: "localhost/operator:1"}
cleanup: {interval: 500ms, threads: 3}
"""


POOL = GOOD.replace("[default]", "[default]\n    queue: {pool: k8s, namespace: default}")
LAKE = POOL.partition("warehouses:\n")[2].partition("profiles:")[0]
TWIN = POOL.replace("profiles:", LAKE.replace("lake", "pond") + "profiles:")
"""Two warehouses of one metastore with the same pool."""


def write(path: Path, text: str) -> Path:
    file = path / "config.yaml"
    file.write_text(text)
    return file


def test_configuration(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, GOOD))
    assert config.warehouses[0].metastore.timeout == 5.0
    assert (config.cleanup.interval, config.cleanup.threads, config.cleanup.suspend) == (0.5, 3, False)


@pytest.mark.parametrize("text", [POOL, TWIN.replace("pool: k8s", "pool: other", 1)])
def test_a_pool_of_each_warehouse(tmp_path: Path, text: str) -> None:
    queue = load_config(write(tmp_path, text)).warehouses[-1].queue
    assert queue is not None
    assert (queue.pool, queue.namespace, queue.interval, queue.ttl) == ("k8s", "default", 5.0, 86400.0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "the file"),
        ("{", "is not YAML"),
        ("[]", "the file"),
        (GOOD.replace("thrift://metastore:9083", "metastore"), "warehouses.0.metastore.uris.0"),
        (GOOD.replace("metastore:9083", "metastore"), "warehouses.0.metastore.uris.0"),
        (GOOD.replace('"]', '", "http://metastore:9083/hms"]'), "one scheme, not http and thrift"),
        (GOOD.replace("5s}", "5s, tokenFile: /token}"), "tokenFile is only for http and https URIs"),
        (GOOD.replace("timeout: 5s", "timeout: 0s"), "warehouses.0.metastore.timeout"),
        (GOOD.replace("timeout: 5s", "connections: 0"), "warehouses.0.metastore.connections"),
        (
            GOOD.replace("thrift:", "http:").replace(":9083", ":9083/hms").replace("5s}", "5s, tls: {}}"),
            "tls is only for",
        ),
        (GOOD.replace("threads: 3", "threads: 0"), "cleanup.threads"),
        (GOOD.replace("500ms", "soon"), "'soon' is not a duration"),
        (
            POOL.replace("namespace: default", "namespace: other"),
            "queue.namespace: other must be one of the warehouse's",
        ),
        (POOL.replace("k8s", "compaction/u/1/p"), "warehouses.0.queue.pool"),
        (POOL.replace("pool: k8s, ", ""), "warehouses.0.queue.pool"),
        (
            POOL.replace("pool: k8s, ", "pool: k8s, template: {cleanup: {mode: Never, quarantine: 1h}}, "),
            "template.cleanup: mode Never moves and deletes nothing",
        ),
        (TWIN, "queue.pool: warehouses lake and pond cannot both take entries of k8s"),
        (GOOD + "colour: blue\n", "colour"),
        (GOOD + "leaderElection: {}\n", "leaderElection.lease"),
        (GOOD.replace("name: lake", "title: lake"), "(and 1 more problems)"),
    ],
)
def test_a_bad_file_is_one_line_and_code_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, named: str
) -> None:
    """It names the file and the field, without a traceback."""
    path = write(tmp_path, text)
    with pytest.raises(SystemExit) as stopped:
        run(str(path))
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert said.count("\n") == 1
    assert str(path) in said
    assert named in said


@pytest.mark.parametrize(
    ("more", "ports"),
    [("", []), ("ui: {enabled: true, port: 9000, hosts: [localhost]}\n", [(9000, ("localhost",))])],
)
def test_the_web_page_is_served_only_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, ports: list[tuple[int, tuple[str, ...]]]
) -> None:
    served: list[tuple[int, tuple[str, ...]]] = []
    monkeypatch.setattr(app, "connect", lambda **_: FakeKube())
    monkeypatch.setattr(app, "serve", lambda *_, **__: None)
    monkeypatch.setattr(app, "serve_probes", lambda *_: None)
    monkeypatch.setattr(app, "serve_page", lambda port, _, hosts: served.append((port, hosts)))
    _, pools = app._controller(load_config(write(tmp_path, GOOD + more)), None)
    pools.shut_down()
    assert served == ports


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("metrics: {port: 8080}", "metrics.port: 8080 is the port of the probes, too"),
        ("ui: {enabled: true, port: 8080}", "ui.port: 8080 is the port of the probes, too"),
        ("ui: {enabled: true, port: 8081}", "ui.port: 8081 is the port of the metrics, too"),
    ],
)
def test_two_servers_at_one_port_are_refused(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        load_config(write(tmp_path, GOOD + more))


def test_a_lease_needs_a_namespace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(str(write(tmp_path, GOOD + "leaderElection: {lease: operator}\n")))
    assert stopped.value.code == 2
    assert "leaderElection: the lease lies in the pod's namespace, and this is no pod" in capsys.readouterr().err


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(str(tmp_path / "none.yaml"))
    assert stopped.value.code == 2
    assert "none.yaml" in capsys.readouterr().err


def test_kopf_leaves_no_trace() -> None:
    """Log lines never become events; whatever kopf might store carries our prefix."""
    settings = operator_settings()
    assert settings.posting.enabled is False
    assert settings.persistence.finalizer == "compaction.dev/finalizer"
    for storage in (settings.persistence.progress_storage, settings.persistence.diffbase_storage):
        assert vars(storage)["prefix"] == "compaction.dev"


def test_kopf_copies_no_object_to_compare_it() -> None:
    """That would be half the cost of each event, for differences that no handler reads."""
    assert (
        operator_settings().persistence.diffbase_storage.build(body=kopf.Body(cast(kopf.RawBody, compaction_raw())))
        == {}
    )


@runs
async def test_a_loop_that_fails_ends_the_process() -> None:
    """The kubelet starts a fresh one: the framework alone would go on, and answer the liveness probe."""

    class Failing:
        async def run(self) -> None:
            raise WentBackError("the API server is at resource version 7, and was at 9")

    with pytest.raises(SystemExit) as ended:
        await _watched(cast(Controller, Failing()))
    assert ended.value.code == 1


@pytest.mark.parametrize(("group", "plural"), [("batch", "jobs"), ("", "pods")])
def test_only_own_jobs_and_drivers_are_watched(group: str, plural: str) -> None:
    """The API server leaves all others out: a cluster may have a great many pods."""
    selectors = operator_settings().watching.label_selectors
    assert selectors[group, plural] == "compaction.dev/compaction-uid"


@runs
async def test_only_events_are_handled() -> None:
    """No change handler, timer or daemon: they would put finalizers and annotations on the resources."""
    registry = kopf.OperatorRegistry()
    box = Sandbox()
    await box.start()
    register(registry, box.controller, box.pools)
    assert len(registry._watching.get_all_handlers()) == 5
    for others in (registry._changing, registry._spawning, registry._indexing, registry._webhooks):
        assert not others.get_all_handlers()


class Left(SystemExit):
    """The process has ended."""


@pytest.mark.parametrize("hangs", [False, True])
def test_the_lease_is_given_back_once_no_call_runs(monkeypatch: pytest.MonkeyPatch, hangs: bool) -> None:
    """While one does, the lease must expire: the call may change something as long as the process lives."""

    def leave(code: int) -> NoReturn:
        raise Left(code)

    class Given:
        back = False

        def release(self) -> None:
            assert all(load.busy == 0 for _, _, load in pools.loads())
            self.back = True

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(app, "STOP_SECONDS", 0.01 if hangs else 30.0)
    pools, given = Pools.of(["lake"], kube=1, tables=1, preflights=1, polling=1, deletion=1), Given()
    begun, over = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        over.wait(30 if hangs else 0.2)

    pools.of_warehouse("lake").deletion.submit(call)
    assert begun.wait(30)
    with pytest.raises(Left) as left:
        app._leave(7, pools, cast(Election, given))
    over.set()
    assert (left.value.code, given.back) == (7, not hangs)


@pytest.mark.parametrize(
    ("ends", "code"), [(None, 0), (SystemExit(0), 0), (SystemExit(1), 1), (SystemExit("no"), 1), (OSError("no"), 1)]
)
def test_the_exit_code_is_that_of_the_loop(ends: BaseException | None, code: int) -> None:
    def work() -> None:
        if ends:
            raise ends

    assert app._exit_code(work) == code


@runs
async def test_no_task_goes_on_after_the_loop() -> None:
    """On SIGTERM a step that waits for a metastore takes no further step."""
    box = Sandbox()
    await box.start()
    waiting = asyncio.Event()

    async def step() -> None:
        waiting.set()
        await asyncio.sleep(3600)

    running = asyncio.create_task(box.controller.run())
    await asyncio.sleep(0)
    box.controller._start(step())
    await waiting.wait()
    (begun,) = [task for task in box.controller._tasks if not task.done()]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(asyncio.CancelledError):
        await begun
