"""Thin adapter over the synchronous Kubernetes client: raw objects in and out, few errors, request timeouts."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from compaction_operator.api import cleanup as cleanup_api
from compaction_operator.api import compaction as compaction_api
from compaction_operator.api import policy as policy_api
from compaction_operator.api.cleanup import LABEL_COMPACTION_UID
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.controller.kube.events import COMPONENT
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.errors import OperatorError
from compaction_operator.permit import Permit, always

Raw = dict[str, Any]

TIMEOUT = (5.0, 30.0)
"""Seconds to connect and to read."""
PAGE = 200
THREADS = 8
LABEL_JOB = "batch.kubernetes.io/job-name"
OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
EXECUTORS = "spark-role=executor"
PLURALS = {
    ResourceKind.COMPACTION: compaction_api.PLURAL,
    ResourceKind.CLEANUP: cleanup_api.PLURAL,
    ResourceKind.POLICY: policy_api.PLURAL,
}


class KubeError(OperatorError):
    """The API server could not be reached or refused the request; a retry may help."""


class ConflictError(KubeError):
    """Another client changed the object in the meantime."""


class ForbiddenError(KubeError):
    """The account that asks lacks a right."""


class GoneError(KubeError):
    """The object does not exist, or no longer exists."""


class ExpiredError(KubeError):
    """The API server no longer knows the changes after this version: list again."""


class CutError(KubeError):
    """The API server's answer was cut in its midst."""


class NotReadyError(KubeError):
    """The API server, or the service behind its proxy, says that it cannot answer now."""


class ResourceExistsError(KubeError):
    """An object of that name already exists."""


class Kube:
    """The API server, accessed with the `kubernetes` package. Thread-safe; every method raises KubeError on failure."""

    def __init__(self, api: client.ApiClient) -> None:
        self._custom = client.CustomObjectsApi(api)
        self._batch = client.BatchV1Api(api)
        self._core = client.CoreV1Api(api)
        self._api = api

    def list_all(self, kind: ResourceKind, namespace: str = "") -> list[Raw]:
        """Return every object of a kind of ours, in a namespace or in the cluster, fetched in pages.

        Raises GoneError without the kind's CRD.
        """
        return in_pages(*self._lister(kind, namespace))

    def newest(self, kind: ResourceKind, namespace: str = "") -> int:
        """Return the current resource version of one of our kinds' list; those of all namespaces are counted together.

        NB: a request without a version is served from etcd.
        """
        ask, *arguments = self._lister(kind, namespace)
        return int(ask(*arguments, limit=1)["metadata"]["resourceVersion"])

    def _lister(self, kind: ResourceKind, namespace: str) -> tuple[Callable[..., Raw], *tuple[str, ...]]:
        """Return the call that lists a kind, with its arguments."""
        if namespace:
            ask = partial(call, self._custom.list_namespaced_custom_object)
            return ask, GROUP, VERSION, namespace, PLURALS[kind]
        return partial(call, self._custom.list_cluster_custom_object), GROUP, VERSION, PLURALS[kind]

    def list_cleanups(self, namespace: str, compaction_uid: str) -> list[Raw]:
        """Return the cleanups written by a compaction's attempts."""
        page = call(
            self._custom.list_namespaced_custom_object,
            GROUP,
            VERSION,
            namespace,
            cleanup_api.PLURAL,
            label_selector=f"{LABEL_COMPACTION_UID}={compaction_uid}",
        )
        items: list[Raw] = page["items"]
        return items

    def replace_status(self, kind: ResourceKind, raw: Mapping[str, Any], status: Raw) -> Raw:
        """Write a status if the object still has `raw`'s version; return the updated object.

        Raises ConflictError or GoneError otherwise.
        """
        metadata = raw["metadata"]
        replaced: Raw = call(
            self._custom.replace_namespaced_custom_object_status,
            GROUP,
            VERSION,
            metadata["namespace"],
            PLURALS[kind],
            metadata["name"],
            {**raw, "status": status},
            field_manager=COMPONENT,
        )
        return replaced

    def delete_cleanup(self, raw: Mapping[str, Any]) -> None:
        """Delete a cleanup if it still has `raw`'s uid and version. Raises ConflictError or GoneError otherwise."""
        self._delete(ResourceKind.CLEANUP, raw)

    def delete_compaction(self, raw: Mapping[str, Any]) -> None:
        """Delete a TableCompaction if it still has `raw`'s uid and version. Raises as `delete_cleanup` does."""
        self._delete(ResourceKind.COMPACTION, raw)

    def create_compaction(self, manifest: Raw) -> Raw:
        """Create a TableCompaction and return it. Raises ResourceExistsError."""
        namespace = manifest["metadata"]["namespace"]
        created: Raw = call(
            self._custom.create_namespaced_custom_object,
            GROUP,
            VERSION,
            namespace,
            compaction_api.PLURAL,
            manifest,
            field_manager=COMPONENT,
        )
        return created

    def find_compactions(self, namespace: str, name: str) -> list[Raw]:
        """Return the TableCompaction of that name in a list, or an empty list: the controller may list, but not get."""
        page = call(
            self._custom.list_namespaced_custom_object,
            GROUP,
            VERSION,
            namespace,
            compaction_api.PLURAL,
            field_selector=f"metadata.name={name}",
        )
        items: list[Raw] = page["items"]
        return items

    def _delete(self, kind: ResourceKind, raw: Mapping[str, Any]) -> None:
        metadata = raw["metadata"]
        only = client.V1Preconditions(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
        call(
            self._custom.delete_namespaced_custom_object,
            GROUP,
            VERSION,
            metadata["namespace"],
            PLURALS[kind],
            metadata["name"],
            body=client.V1DeleteOptions(preconditions=only),
        )

    def create_job(self, manifest: Raw) -> Raw:
        """Create a Job and return it. Raises ResourceExistsError."""
        return raw_answer(self._batch.create_namespaced_job, manifest["metadata"]["namespace"], manifest)

    def delete_job(self, namespace: str, name: str) -> None:
        """Delete a Job; its pods are deleted in the background. Raises GoneError.

        NB: without a propagation policy, batch/v1 would orphan its pods.
        """
        raw_answer(self._batch.delete_namespaced_job, name, namespace, propagation_policy="Background")

    def get_job(self, namespace: str, name: str) -> Raw | None:
        """Return a Job, or None if none has that name."""
        try:
            return raw_answer(self._batch.read_namespaced_job, name, namespace)
        except GoneError:
            return None

    def list_pods(self, namespace: str, job: str) -> list[Raw]:
        """Return the pods of a Job."""
        return self._pods(namespace, f"{LABEL_JOB}={job}")

    def list_executors(self, namespace: str) -> list[Raw]:
        """Return the pods of Spark executors in a namespace."""
        return self._pods(namespace, EXECUTORS)

    def _pods(self, namespace: str, selector: str) -> list[Raw]:
        items: list[Raw] = raw_answer(self._core.list_namespaced_pod, namespace, label_selector=selector)["items"]
        return items

    def list_refusals(self, namespace: str, job: str) -> list[Raw]:
        """Return the events that say why a Job could not create its pod."""
        about = f"involvedObject.kind=Job,involvedObject.name={job},reason=FailedCreate"
        items: list[Raw] = raw_answer(self._core.list_namespaced_event, namespace, field_selector=about)["items"]
        return items

    def create_event(self, event: Raw) -> None:
        """Create a core/v1 Event."""
        raw_answer(self._core.create_namespaced_event, event["metadata"]["namespace"], event)

    def ask_service(self, namespace: str, service: str, path: str, query: Mapping[str, str]) -> bytes:
        """Return what a service answers, through the API server; `service` is its name and port, as `name:port`.

        What the service itself says to a bad request has the form of the API server's errors, or is quoted.
        """
        return _body(
            self._api.call_api,
            "/api/v1/namespaces/{namespace}/services/{service}/proxy" + path,
            "GET",
            path_params={"namespace": namespace, "service": service},
            query_params=list(query.items()),
            auth_settings=["BearerToken"],
            _return_http_data_only=True,
        )


def connect(*, permit: Permit = always, context: str | None = None) -> Kube:
    """Connect as `configuration` says. `permit` is asked before each request that changes something.

    NB: urllib3 would send such a request up to four times after one question.
    """
    settings = configuration(context)
    settings.retries = Retry(3, connect=0, allowed_methods=("GET",))
    settings.connection_pool_maxsize = THREADS
    return Kube(_permitted(client.ApiClient(settings), permit))


def _permitted(api: client.ApiClient, permit: Permit) -> client.ApiClient:
    request = api.request

    def permitted(method: str, *args: Any, **options: Any) -> Any:
        if method != "GET":
            permit()
        return request(method, *args, **options)

    api.request = permitted
    return api


def configuration(context: str | None = None) -> client.Configuration:
    """Return how to reach the cluster that this process runs in, or else the one that kubeconfig names.

    With a `context` it is that of kubeconfig. Raises KubeError if there is neither.
    """
    try:
        if context is None and _in_cluster():
            return client.Configuration.get_default_copy()
        config.load_kube_config(context=context)
    except config.ConfigException as error:
        raise KubeError(f"no cluster is configured: {error}") from error
    return client.Configuration.get_default_copy()


def _in_cluster() -> bool:
    try:
        config.load_incluster_config()
    except config.ConfigException:
        return False
    return True


def current_namespace(context: str | None = None) -> str:
    """Return the namespace that is meant where none is named: that of kubeconfig's context, or of this process's pod.

    Raises KubeError if kubeconfig has no such context.
    """
    if context is None and (own := own_namespace()):
        return own
    try:
        contexts, current = config.list_kube_config_contexts()
    except config.ConfigException as error:
        raise KubeError(f"no cluster is configured: {error}") from error
    found = current if context is None else next((one for one in contexts if one["name"] == context), None)
    return str((found or {}).get("context", {}).get("namespace") or "default")


def own_namespace() -> str:
    """Return the namespace of the pod that this process runs in, empty outside of a cluster."""
    return OWN_NAMESPACE.read_text().strip() if OWN_NAMESPACE.exists() else ""


def in_pages(ask: Callable[..., Raw], *arguments: str) -> list[Raw]:
    """Return all items that a call lists, page by page."""
    return [item for page in pages(ask, *arguments) for item in page["items"]]


def pages(ask: Callable[..., Raw], *arguments: str) -> Iterator[Raw]:
    """Yield what a call lists, page by page."""
    more = ""
    while True:
        page = ask(*arguments, limit=PAGE, _continue=more)
        yield page
        more = page["metadata"].get("continue", "")
        if not more:
            return


def raw_answer(method: Callable[..., Any], *args: Any, **options: Any) -> Raw:
    """Return the object that a method of the package answers, as it came. Raises KubeError."""
    body = _body(method, *args, **options)
    try:
        found: Raw = json.loads(body)
    except ValueError as error:
        raise KubeError(f"the API server's answer is not JSON: {error}") from error
    return found


def _body(method: Callable[..., Any], *args: Any, **options: Any) -> bytes:
    """Return the body of an answer. NB: it is read within the call, as it can be cut in its middle."""
    body: bytes = call(lambda **asked: method(*args, _preload_content=False, **asked).data, **options)
    return body


def call(method: Callable[..., Any], *args: Any, timeout: tuple[float, float] = TIMEOUT, **options: Any) -> Any:
    """Return what a method of the package returns; `timeout`: seconds to connect and to read. Raises KubeError."""
    try:
        return method(*args, _request_timeout=timeout, **options)
    except ApiException as error:
        raise _translated(error) from error
    except HTTPError as error:
        raise KubeError(f"API server not reachable: {error}") from error


def _translated(error: ApiException) -> KubeError:
    message = f"{error.status} {error.reason}: {message_of(error.body)}"
    if error.status == 403:
        return ForbiddenError(message)
    if error.status == 404:
        return GoneError(message)
    if error.status == 410:
        return ExpiredError(message)
    if error.status == 503:
        return NotReadyError(message)
    if error.status == 409:
        return ResourceExistsError(message) if "AlreadyExists" in str(error.body) else ConflictError(message)
    return KubeError(message)


def message_of(body: Any) -> str:
    """Return the message in the body of an error, or the beginning of a body that has none."""
    try:
        return str(json.loads(body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(body)[:200]
