"""An API server that has objects of ours, and notes each change, behind a kubeconfig."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes import client

from compaction_operator.cli.cluster import PLURALS

Raw = dict[str, Any]
HERE = {"current-context": "here", "contexts": [], "clusters": [], "users": [{"name": "me", "user": {"token": "t"}}]}


@dataclass
class FakeApi:
    """Objects, the namespaces that may be listed (None: all), the rights that are missing, and what was sent."""

    objects: list[Raw] = field(default_factory=list)
    only: str | None = None
    refused: Callable[[Raw], bool] = lambda _: False
    sent: list[tuple[str, Any]] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)
    """The core/v1 objects that are not there, as `namespace/plural/name`; all others are."""
    phases: dict[str, str] = field(default_factory=dict)
    """Of these, those that are not Bound."""
    accepted: dict[str, str] = field(default_factory=dict)
    """In which form each path was asked for."""

    def get(self, path: str, accept: str = "") -> tuple[int, Raw]:
        """Answer a list or one object."""
        self.accepted[path] = accept
        if path.startswith("/api/v1/namespaces/"):
            return self._core(path.removeprefix("/api/v1/namespaces/"))
        *_, last = parts = path.strip("/").split("/")[3:]
        namespace = parts[1] if parts[0] == "namespaces" else None
        if namespace is None and self.only is not None:
            return 403, {"kind": "Status", "message": f"{last} is forbidden"}
        plural = parts[2] if namespace else parts[0]
        found = [
            one
            for one in self.objects
            if PLURALS[one["kind"]] == plural and namespace in (None, one["metadata"]["namespace"])
        ]
        if last == plural:
            return 200, {"items": found, "metadata": {}}
        named = [one for one in found if one["metadata"]["name"] == last]
        return (200, named[0]) if named else (404, {"kind": "Status", "message": f"{last} not found"})

    def _core(self, place: str) -> tuple[int, Raw]:
        if place in self.absent:
            return 404, {"kind": "Status", "message": f"{place} not found"}
        return 200, {"metadata": {}, "status": {"phase": self.phases.get(place, "Bound")}}

    def change(self, path: str, body: Raw) -> tuple[int, Raw]:
        """Note a change, or answer whether the user has a right."""
        if path.endswith("selfsubjectaccessreviews"):
            return 201, {"status": {"allowed": not self.refused(body["spec"]["resourceAttributes"])}}
        self.sent.append((path, body))
        return 200, body


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """Give an API server to which kubeconfig leads; the current namespace is `default`."""
    fake = FakeApi()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(*fake.get(urlsplit(self.path).path, self.headers.get("Accept", "")))

        def do_POST(self) -> None:
            self._answer(*fake.change(urlsplit(self.path).path, self._body()))

        def do_PATCH(self) -> None:
            self.do_POST()

        def _body(self) -> Raw:
            body: Raw = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            return body

        def _answer(self, status: int, body: Raw) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            pass

    monkeypatch.setattr(client.Configuration, "_default", None)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        write_kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{running.server_port}")
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "kubeconfig"))
        yield fake
        running.shutdown()


def write_kubeconfig(path: Path, address: str) -> None:
    """Write a kubeconfig with two contexts: `here` is the current one, `there` has another namespace."""
    contexts = [
        {"name": "here", "context": {"cluster": "it", "user": "me", "namespace": "default"}},
        {"name": "there", "context": {"cluster": "it", "user": "me", "namespace": "other"}},
    ]
    clusters = [{"name": "it", "cluster": {"server": address}}]
    path.write_text(yaml.safe_dump({**HERE, "contexts": contexts, "clusters": clusters}))
