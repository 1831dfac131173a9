"""What is in the plane's namespace, kept up to date by watches, for waiting without asking again and again."""

import json
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

import kubernetes
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from compaction_operator.api import cleanup, compaction
from compaction_operator.api.model import GROUP, VERSION
from sandbox.harness.wait import WaitTimeoutError

Raw = dict[str, Any]
Answer = TypeVar("Answer")
Listener = Callable[[str, Raw], None]
"""Gets each event of a kind: its type (ADDED, MODIFIED, DELETED) and the object."""

PATHS = {
    compaction.PLURAL: f"/apis/{GROUP}/{VERSION}",
    cleanup.PLURAL: f"/apis/{GROUP}/{VERSION}",
    "jobs": "/apis/batch/v1",
    "pods": "/api/v1",
    "events": "/api/v1",
}
AGAIN_SECONDS = 0.2
RECHECK_SECONDS = 0.5
"""Predicates may look at more than what is watched, so they are asked now and then without an event."""


class Mirror:
    """The objects of one namespace by kind (its plural) and name; safe for many threads."""

    def __init__(self, api: kubernetes.client.ApiClient, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._objects: dict[str, dict[str, Raw]] = {kind: {} for kind in PATHS}
        self._listeners: dict[str, list[Listener]] = {kind: [] for kind in PATHS}
        self._changed = threading.Condition()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to watch."""
        for kind in PATHS:
            threading.Thread(target=self._run, args=(kind,), name=f"watch-{kind}", daemon=True).start()

    def stop(self) -> None:
        """Take no further events."""
        self._stopped.set()

    def listen(self, kind: str, listener: Listener) -> None:
        """Call something with each event of a kind, from the thread that watches it; to be said before `start`."""
        self._listeners[kind].append(listener)

    def get(self, kind: str, name: str) -> Raw | None:
        """Return an object as it was last seen, None when there is none of that name."""
        with self._changed:
            return self._objects[kind].get(name)

    def all(self, kind: str, **labels: str) -> list[Raw]:
        """Return all objects of a kind (with these labels), in the order of their names."""
        with self._changed:
            found = sorted(self._objects[kind].items())
        return [raw for _, raw in found if labels.items() <= (raw["metadata"].get("labels") or {}).items()]

    def delete(self, kind: str, name: str) -> None:
        """Delete an object; one that is gone already is fine. It is gone here when the watch says so."""
        try:
            self._request("DELETE", kind, name, propagationPolicy="Background", gracePeriodSeconds="0")
        except ApiException as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def poke(self) -> None:
        """Let everybody who waits ask again."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, predicate: Callable[[], Answer | None], *, timeout: float, what: str) -> Answer:
        """Return the first answer of `predicate` that is true; it is asked after each event.

        Raises WaitTimeoutError, naming `what`, after `timeout` seconds; what the predicate raises goes through.
        """
        deadline = time.monotonic() + timeout
        while not (answer := predicate()):
            left = deadline - time.monotonic()
            if left <= 0:
                raise WaitTimeoutError(f"waited {timeout:g} s for {what}; last answer: {answer!r}")
            with self._changed:
                self._changed.wait(min(left, RECHECK_SECONDS))
        return answer

    def _run(self, kind: str) -> None:
        while not self._stopped.is_set():
            try:
                self._watch(kind, self._list(kind))
            except (ApiException, HTTPError, OSError, ValueError):
                self._stopped.wait(AGAIN_SECONDS)

    def _list(self, kind: str) -> str:
        listing = json.loads(self._request("GET", kind).data)
        with self._changed:
            gone = dict(self._objects[kind])
        for raw in listing["items"]:
            gone.pop(raw["metadata"]["name"], None)
            self._take(kind, "ADDED", raw)
        for raw in gone.values():
            self._take(kind, "DELETED", raw)
        version: str = listing["metadata"]["resourceVersion"]
        return version

    def _watch(self, kind: str, version: str) -> None:
        response = self._request("GET", kind, watch="true", resourceVersion=version)
        rest = b""
        for chunk in response.stream(amt=None):
            *lines, rest = (rest + chunk).split(b"\n")
            for event in map(json.loads, lines):
                if self._stopped.is_set() or event["type"] == "ERROR":
                    return
                self._take(kind, event["type"], event["object"])

    def _take(self, kind: str, event: str, raw: Raw) -> None:
        name = raw["metadata"]["name"]
        with self._changed:
            if event == "DELETED":
                self._objects[kind].pop(name, None)
            else:
                self._objects[kind][name] = raw
        for listener in self._listeners[kind]:
            listener(event, raw)
        self.poke()

    def _request(self, method: str, kind: str, name: str = "", **query: str) -> Any:
        return self._api.call_api(
            f"{PATHS[kind]}/namespaces/{self._namespace}/{kind}/{name}".rstrip("/"),
            method,
            query_params=list(query.items()),
            auth_settings=["BearerToken"],
            _preload_content=False,
            _return_http_data_only=True,
        )
