"""The calls of watches: raw objects of one kind in one namespace, and their changes as they come."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kubernetes import client
from urllib3 import HTTPResponse
from urllib3.exceptions import HTTPError

from compaction_operator.api.cleanup import LABEL_COMPACTION_UID
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.controller.kube.client import (
    PLURALS,
    TIMEOUT,
    CutError,
    ExpiredError,
    KubeError,
    Raw,
    call,
    configuration,
    pages,
    raw_answer,
)
from compaction_operator.controller.kube.resources import ResourceKind

WATCH_SECONDS = 60


class Watching:
    """The API server as watches use it. Thread-safe; every method raises KubeError on failure.

    NB: no request is repeated by itself: a call that hangs ends after its own timeout, and not after four of them.
    """

    def __init__(self, api: client.ApiClient) -> None:
        self._custom = client.CustomObjectsApi(api)
        self._batch = client.BatchV1Api(api)
        self._core = client.CoreV1Api(api)

    def pages(self, kind: ResourceKind, namespace: str) -> Iterator[Raw]:
        """Yield all watched objects of a kind in a namespace, page by page. NB: they are served as etcd has them."""
        ask, arguments, own = self._watched(kind, namespace)
        return pages(partial(raw_answer, ask, **own), *arguments)

    def changes(self, kind: ResourceKind, namespace: str, since: str) -> Iterator[Raw]:
        """Begin to watch those objects; return the changes after a version, which end after a minute.

        The API server judges the rights at the beginning of a watch, so a lost one shows soon. This and the changes
        raise ExpiredError; the changes also raise CutError, after which those since the last one are still to come.
        """
        ask, arguments, own = self._watched(kind, namespace)
        until: dict[str, Any] = {"timeout_seconds": WATCH_SECONDS, "timeout": (TIMEOUT[0], WATCH_SECONDS + TIMEOUT[1])}
        asked = partial(call, ask, *arguments, _preload_content=False, **own)
        return changes_in(asked(watch=True, resource_version=since, allow_watch_bookmarks=True, **until))

    def _watched(
        self, kind: ResourceKind, namespace: str
    ) -> tuple[Callable[..., Any], tuple[str, ...], dict[str, Any]]:
        """Return what lists or watches a kind, its arguments and options; of Jobs and pods only those of attempts."""
        own = {"label_selector": LABEL_COMPACTION_UID}
        if kind is ResourceKind.POD:
            return self._core.list_namespaced_pod, (namespace,), own
        if kind is ResourceKind.JOB:
            return self._batch.list_namespaced_job, (namespace,), own
        return self._custom.list_namespaced_custom_object, (GROUP, VERSION, namespace, PLURALS[kind]), {}


def connect_watches(number: int) -> Watching:
    """Connect as `configuration` says, with as many connections as there are watches."""
    settings = configuration()
    settings.retries = False
    settings.connection_pool_maxsize = number
    return Watching(client.ApiClient(settings))


def changes_in(response: HTTPResponse) -> Iterator[Raw]:
    """Yield the changes that a watch's answer brings. Raises KubeError for an error in their place."""
    try:
        for change in map(json.loads, response):
            if change["type"] == "ERROR":
                status = change["object"]
                message = f"{status.get('code')} {status.get('reason')}: {status.get('message')}"
                raise ExpiredError(message) if status.get("code") == 410 else KubeError(message)
            yield change
    except (HTTPError, ValueError) as error:
        raise CutError(f"the watch was cut: {error}") from error
    finally:
        response.close()
