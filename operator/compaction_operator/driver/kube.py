"""Kubernetes API adapters with the driver's rights: journals, leases, and the progress annotation of its own pod."""

import json
from functools import cached_property
from typing import Any

from compaction_operator.api import cleanup as api
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.api.progress import ANNOTATION_PROGRESS
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.journal import JournalRefused

JOURNAL_TIMEOUT_SECONDS = 30
LEASE_TIMEOUT_SECONDS = 10
PROGRESS_TIMEOUT_SECONDS = (2.0, 3.0)
"""Connect and read timeouts. NB: the driver blocks on the call, so they are shorter than the report interval."""

REFUSED_CONTENT = frozenset({400, 413, 422})
"""Statuses with which an API server refuses a resource's content: malformed, too large, or invalid."""


def _kubernetes() -> Any:
    """Return the module of the client. NB: its models take 0.2 s and 40 MB to import, so not before it is used."""
    import kubernetes  # noqa: PLC0415 - see above

    return kubernetes


class KubernetesJournals:
    """Journals in the Kubernetes API. The driver's rights: create and get."""

    def __init__(self) -> None:
        _kubernetes().config.load_incluster_config()
        self._api = _kubernetes().client.CustomObjectsApi()

    def create(self, namespace: str, body: dict[str, Any]) -> bool:
        """Create the resource; return False when a resource of that name already exists.

        Raises JournalRefused when the API server refuses the content, and JobError for any other failure.
        """
        try:
            self._api.create_namespaced_custom_object(
                GROUP,
                VERSION,
                namespace,
                api.PLURAL,
                body,
                # NB: an older CRD would drop fields without a word, and what a journal lacks is not undone or deleted.
                field_validation="Strict",
                _request_timeout=JOURNAL_TIMEOUT_SECONDS,
            )
        except _kubernetes().client.ApiException as error:
            if error.status == 409:
                return False
            # NB: the exception's own text includes headers and the body: too long for a condition.
            why = f"{error.status} {error.reason}: {_message_of(error.body)}"
            message = f"journal {body['metadata']['name']} not created: {why}"
            kind = JournalRefused if error.status in REFUSED_CONTENT else JobError
            raise kind(Reason.DRIVER_FAILED, message) from error
        return True

    def get(self, namespace: str, name: str) -> dict[str, Any]:
        """Return the resource of that name."""
        found: dict[str, Any] = self._api.get_namespaced_custom_object(
            GROUP, VERSION, namespace, api.PLURAL, name, _request_timeout=JOURNAL_TIMEOUT_SECONDS
        )
        return found


def _message_of(body: Any) -> str:
    try:
        return str(json.loads(body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(body)


def _client_without_retries() -> Any:
    """Return an API client for calls that the caller repeats: retries would multiply the wait for a hanging server."""
    configuration = _kubernetes().client.Configuration()
    _kubernetes().config.load_incluster_config(client_configuration=configuration)
    configuration.retries = False
    return _kubernetes().client.ApiClient(configuration)


class KubernetesLeases:
    """Leases in the Kubernetes API. The driver's rights: create, get and update."""

    def __init__(self, namespace: str) -> None:
        self._api = _kubernetes().client.CoordinationV1Api(_client_without_retries())
        self._namespace = namespace

    def read(self, name: str) -> Any:
        """Return the lease of that name, or None when it does not exist."""
        try:
            return self._api.read_namespaced_lease(name, self._namespace, _request_timeout=LEASE_TIMEOUT_SECONDS)
        except _kubernetes().client.ApiException as error:
            if error.status == 404:
                return None
            raise

    def create(self, body: Any) -> Any:
        """Create a lease."""
        return self._api.create_namespaced_lease(self._namespace, body, _request_timeout=LEASE_TIMEOUT_SECONDS)

    def replace(self, body: Any) -> Any:
        """Replace a lease at the resource version that was read."""
        name = body.metadata.name
        return self._api.replace_namespaced_lease(name, self._namespace, body, _request_timeout=LEASE_TIMEOUT_SECONDS)


class OwnPod:
    """The pod that this process runs in. The driver's rights: patch."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace = namespace
        self._name = name

    def annotate(self, value: str) -> None:
        """Set the progress annotation. Errors of the Kubernetes client pass through."""
        body = {"metadata": {"annotations": {ANNOTATION_PROGRESS: value}}}
        self._api.patch_namespaced_pod(self._name, self._namespace, body, _request_timeout=PROGRESS_TIMEOUT_SECONDS)

    @cached_property
    def _api(self) -> Any:
        return _kubernetes().client.CoreV1Api(_client_without_retries())
