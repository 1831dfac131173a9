"""The API server's errors as ours, and a job manifest that is there already."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from compaction_operator.controller.kube.client import (
    ConflictError,
    GoneError,
    Kube,
    KubeError,
    NotReadyError,
    ResourceExistsError,
    call,
)
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.controller.kube.watching import Watching


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (404, "NotFound", GoneError),
        (409, "AlreadyExists", ResourceExistsError),
        (409, "Conflict", ConflictError),
        (422, "Invalid", KubeError),
        (503, "ServiceUnavailable", NotReadyError),
    ],
)
def test_errors(status: int, reason: str, expected: type[KubeError]) -> None:
    """A conflict and a name that is taken share a code; the reason tells them apart."""

    def refuse(**_: object) -> None:
        error = ApiException(status=status, reason=reason)
        error.body = json.dumps({"reason": reason, "message": "because"})
        raise error

    with pytest.raises(expected, match="because") as raised:
        call(refuse)
    assert type(raised.value) is expected


class Cutting(BaseHTTPRequestHandler):
    """An API server that stops in the middle of an answer."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b'{"items": [')

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    "ask",
    [
        lambda api: Kube(api).list_pods("n", "j"),
        lambda api: list(Watching(api).pages(ResourceKind.POD, "n")),
        lambda api: list(Watching(api).pages(ResourceKind.COMPACTION, "n")),
        lambda api: list(Watching(api).changes(ResourceKind.JOB, "n", "7")),
    ],
    ids=["list", "pages of pods", "pages of our own", "watch"],
)
def test_an_answer_that_is_cut_is_an_error_of_the_api_server(ask: Callable[[client.ApiClient], Any]) -> None:
    """The controller tries again; another error would end what it does."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Cutting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
        settings.retries = False
        with pytest.raises(KubeError, match=r"not reachable|was cut"):
            ask(client.ApiClient(settings))
        server.shutdown()


def test_every_call_has_a_timeout() -> None:
    seen = call(lambda **options: options)
    assert all(seconds > 0 for seconds in seen["_request_timeout"])


def test_a_cleanup_is_deleted_as_it_was_seen_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the same name that was made since, or that another client changed, stays."""
    api, sent = client.ApiClient(), []
    kube = Kube(api)
    monkeypatch.setattr(kube._custom, "delete_namespaced_custom_object", lambda *args, **options: sent.append(options))
    kube.delete_cleanup({"metadata": {"namespace": "n", "name": "c", "uid": "u", "resourceVersion": "7"}})
    (options,) = sent
    assert api.sanitize_for_serialization(options["body"]) == {"preconditions": {"uid": "u", "resourceVersion": "7"}}


def test_a_jobs_pods_go_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a policy the API server would leave them, but no pod of a lost driver may keep running."""
    kube, sent = Kube(client.ApiClient()), []

    def delete(name: str, namespace: str, **options: object) -> Any:
        sent.append((namespace, name, options["propagation_policy"]))
        return SimpleNamespace(data=b"{}")

    monkeypatch.setattr(kube._batch, "delete_namespaced_job", delete)
    kube.delete_job("n", "j")
    assert sent == [("n", "j", "Background")]


def test_the_newest_version_is_that_of_a_list_which_is_read_from_etcd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any version that it were asked for could be answered from a cache of before a restore."""
    kube, sent = Kube(client.ApiClient()), []

    def page(*args: str, **options: object) -> dict[str, Any]:
        sent.append((args[-1], set(options)))
        return {"metadata": {"resourceVersion": "71"}, "items": []}

    monkeypatch.setattr(kube._custom, "list_cluster_custom_object", page)
    assert kube.newest(ResourceKind.COMPACTION) == 71
    assert sent == [("tablecompactions", {"limit", "_request_timeout"})]
