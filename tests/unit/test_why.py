"""The verb `why`, asked of a controller's own server: at its address, and through an API server's proxy."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote
from urllib.request import urlopen

import pytest
import yaml
from kubernetes import client

from compaction_operator.controller.kube import ask
from tests.unit.controller.sandbox import runs
from tests.unit.controller.test_policies import memory, started, state
from tests.unit.controller.test_web import served
from tests.unit.test_cli import verb

DUE = "sales.orders"
PROXY = "/api/v1/namespaces/compaction-system/services/compaction-operator:metrics/proxy/why?"
Answer = Callable[[str], tuple[int, bytes]]


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """A server that answers GET with what a function returns for its path; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(unquote(self.path))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let kubeconfig name the cluster at an address; the client's defaults are as before afterwards."""
    monkeypatch.setattr(client.Configuration, "_default", None)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def write(address: str) -> None:
        config = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "clusters": [{"name": "here", "cluster": {"server": address}}],
            "users": [{"name": "me", "user": {"token": "t"}}],
        }
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "kubeconfig"))

    return write


@runs
async def test_a_person_gets_the_verdict_and_the_numbers() -> None:
    box = await started(memory(state(DUE)), dryRun=True)
    with served(box.controller.why) as address:
        done = verb("why", DUE, "--url", address)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["default/keep (warehouse lake): due, but kept back (DryRun)", "  dryRun is set"]
    assert "deltas 11 of 10 exceeded" in done.stdout


@runs
async def test_a_program_gets_json() -> None:
    box = await started(memory(state(DUE)), dryRun=True)
    with served(box.controller.why) as address:
        done = verb("why", DUE, "-n", "default", "--policy", "keep", "--url", f"{address}/", "--output", "json")
        with urlopen(f"{address}/why?table={DUE}", timeout=10) as answer:
            assert json.loads(done.stdout) == json.load(answer)


@runs
async def test_what_the_controller_refuses_is_one_line() -> None:
    box = await started(memory(state(DUE)))
    with served(box.controller.why) as address:
        for arguments, says in (
            ((DUE, "-n", "x"), "there is no CompactionPolicy with namespace x"),
            ((DUE, "--warehouse", "x"), "there is no CompactionPolicy with warehouse x"),
            (("orders",), "write database.name, as in sales.orders"),
        ):
            done = verb("why", *arguments, "--url", address)
            assert (done.returncode, done.stdout) == (1, "")
            assert says in done.stderr
            assert len(done.stderr.splitlines()) == 1


def test_the_question_goes_through_the_api_server(kubeconfig: Callable[[str], None]) -> None:
    asked = list[str]()

    def answer(path: str) -> tuple[int, bytes]:
        asked.append(path)
        return 200, b"[]"

    with server(answer) as address:
        kubeconfig(address)
        assert verb("why", DUE, "-n", "analytics", "--output", "json").stdout == "[]\n"
        assert verb("why", DUE, "--operator", "here/op").returncode == 0
    assert asked == [
        f"{PROXY}table={DUE}&namespace=analytics",
        f"/api/v1/namespaces/here/services/op:metrics/proxy/why?table={DUE}",
    ]


@pytest.mark.parametrize(
    ("message", "ends"),
    [
        ('services "compaction-operator" not found', "give --operator NAMESPACE/SERVICE or set COMPACTION_OPERATOR"),
        ("no policy of that name", "no policy of that name"),
    ],
)
def test_an_operator_that_is_elsewhere_is_what_to_give(
    kubeconfig: Callable[[str], None], message: str, ends: str
) -> None:
    """A controller's own 404 is about policies."""
    missing = json.dumps({"kind": "Status", "message": message, "code": 404}).encode()
    with server(lambda _: (404, missing)) as address:
        kubeconfig(address)
        done = verb("why", DUE)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.rstrip().endswith(ends)


@pytest.mark.parametrize("way", ["service", "url"])
def test_a_standby_is_not_the_answer(kubeconfig: Callable[[str], None], way: str) -> None:
    """The Service leads to any replica, so the question is asked again until the leader has it."""
    asked = list[str]()

    def answer(path: str) -> tuple[int, bytes]:
        asked.append(path)
        standby = {"kind": "Status", "message": "it stands by", "code": 503}
        return (503, json.dumps(standby).encode()) if len(asked) < 4 else (200, b"[]")

    with server(answer) as address:
        kubeconfig(address)
        done = verb("why", DUE, *(("--url", address) if way == "url" else ()))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(asked) == 4


def test_only_standbys_are_an_error(kubeconfig: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "PAUSE", 0.0)
    standby = json.dumps({"kind": "Status", "message": "it stands by", "code": 503}).encode()
    with server(lambda _: (503, standby)) as address:
        kubeconfig(address)
        with pytest.raises(ask.AskError, match="it stands by"):
            ask.ask({"table": DUE}, operator="a/b", url=None)


def test_what_the_api_server_refuses_is_quoted(kubeconfig: Callable[[str], None]) -> None:
    """A right is missing, for example."""
    status = {"kind": "Status", "message": 'services "compaction-operator:metrics" is forbidden', "code": 403}
    with server(lambda _: (403, json.dumps(status).encode())) as address:
        kubeconfig(address)
        done = verb("why", DUE)
    assert done.returncode == 1
    assert done.stderr == (
        "compaction-operator: Service compaction-system/compaction-operator: 403 Forbidden: "
        'services "compaction-operator:metrics" is forbidden\n'
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--url", "file:///etc/passwd"), "write an address such as http://localhost:8081"),
        (("--url", "http://127.0.0.1:1"), "http://127.0.0.1:1: "),
        (("--operator", "compaction-operator"), "write NAMESPACE/SERVICE"),
        (("--operator", "a/b/c"), "write NAMESPACE/SERVICE"),
    ],
)
def test_what_cannot_be_asked_is_one_line(arguments: tuple[str, ...], says: str) -> None:
    done = verb("why", DUE, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_another_server_is_not_taken_for_a_controller() -> None:
    for body in (b"<html>", b"{}", b'[{"verdict": "Odd"}]'):
        with server(lambda _, body=body: (200, body)) as address:  # type: ignore[misc]
            done = verb("why", DUE, "--url", address)
        assert done.returncode == 1
        assert "does not answer as a controller of this version does" in done.stderr
