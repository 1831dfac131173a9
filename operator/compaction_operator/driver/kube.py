"""Adapters of the Kubernetes API with the driver's rights: journals, leases, and the progress of the own pod."""

import json
from functools import cached_property
from typing import Any

import kubernetes

from compaction_operator.api import cleanup as api
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.api.progress import ANNOTATION_PROGRESS
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.journal import JournalRefused

JOURNAL_TIMEOUT_SECONDS = 30
LEASE_TIMEOUT_SECONDS = 10
PROGRESS_TIMEOUT_SECONDS = (2.0, 3.0)
"""To connect and to read. NB: the driver waits for it, so it is shorter than the pause between two reports."""

REFUSED_CONTENT = frozenset({400, 413, 422})
"""Statuses by which an API server refuses what a resource says: it makes no sense, is too large, or is invalid."""


class KubernetesJournals:
    """Journals in the Kubernetes API, with the driver's rights: create and get."""

    def __init__(self) -> None:
        kubernetes.config.load_incluster_config()
        self._api = kubernetes.client.CustomObjectsApi()

    def create(self, namespace: str, body: dict[str, Any]) -> bool:
        """Create the resource; return False when one of its name exists already.

        Raises JournalRefused for what the resource says, and JobError for anything else.
        """
        try:
            self._api.create_namespaced_custom_object(
                GROUP, VERSION, namespace, api.PLURAL, body, _request_timeout=JOURNAL_TIMEOUT_SECONDS
            )
        except kubernetes.client.ApiException as error:
            if error.status == 409:
                return False
            # NB: the exception's own words are headers and a body, too long for a condition.
            why = f"{error.status} {error.reason}: {_message_of(error.body)}"
            message = f"journal {body['metadata']['name']} not created: {why}"
            if error.status in REFUSED_CONTENT:
                raise JournalRefused(message) from error
            raise JobError(Reason.DRIVER_FAILED, message) from error
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


class KubernetesLeases:
    """Leases in the Kubernetes API, with the driver's rights: create, get and update."""

    def __init__(self, namespace: str) -> None:
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_incluster_config(client_configuration=configuration)
        # A renewal that failed is asked for again in time; one that hangs is not waited for several times.
        configuration.retries = False
        self._api = kubernetes.client.CoordinationV1Api(kubernetes.client.ApiClient(configuration))
        self._namespace = namespace

    def read(self, name: str) -> Any:
        """Return the lease of that name, None when there is none."""
        try:
            return self._api.read_namespaced_lease(name, self._namespace, _request_timeout=LEASE_TIMEOUT_SECONDS)
        except kubernetes.client.ApiException as error:
            if error.status == 404:
                return None
            raise

    def create(self, body: Any) -> Any:
        """Create a lease."""
        return self._api.create_namespaced_lease(self._namespace, body, _request_timeout=LEASE_TIMEOUT_SECONDS)

    def replace(self, body: Any) -> Any:
        """Write a lease, at the version that was read."""
        name = body.metadata.name
        return self._api.replace_namespaced_lease(name, self._namespace, body, _request_timeout=LEASE_TIMEOUT_SECONDS)


class OwnPod:
    """The pod that this process runs in, with the driver's rights: patch."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace = namespace
        self._name = name

    def annotate(self, value: str) -> None:
        """Set the progress annotation. Raises whatever the Kubernetes client does when that does not work."""
        body = {"metadata": {"annotations": {ANNOTATION_PROGRESS: value}}}
        self._api.patch_namespaced_pod(self._name, self._namespace, body, _request_timeout=PROGRESS_TIMEOUT_SECONDS)

    @cached_property
    def _api(self) -> kubernetes.client.CoreV1Api:
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_incluster_config(client_configuration=configuration)
        # The next report is soon enough: a server that does not answer is not waited for several times.
        configuration.retries = False
        return kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))
