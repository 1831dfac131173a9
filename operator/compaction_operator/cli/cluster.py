"""A user's own access to the operator's resources, with the rights of kubeconfig or of the pod that this runs in."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kubernetes import client

from compaction_operator.api import cleanup as cleanup_api
from compaction_operator.api import compaction as compaction_api
from compaction_operator.api import policy as policy_api
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.controller.kube.client import (
    ConflictError,
    ForbiddenError,
    GoneError,
    KubeError,
    Raw,
    configuration,
    current_namespace,
    in_pages,
    own_namespace,
    raw_answer,
)
from compaction_operator.controller.kube.resources import (
    Cleanup,
    Compaction,
    Policy,
    read_cleanup,
    read_compaction,
    read_policy,
)

MANAGER = "kubectl-compaction"
"""What the API server notes as the writer of a field."""
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""What the API server is asked for to get nothing else of an object."""
Known = Compaction | Cleanup | Policy
READERS: Mapping[str, Callable[[Mapping[str, Any]], Known]] = {
    compaction_api.KIND: read_compaction,
    cleanup_api.KIND: read_cleanup,
    policy_api.KIND: read_policy,
}
PLURALS = {module.KIND: module.PLURAL for module in (compaction_api, cleanup_api, policy_api)}


class Cluster:
    """The API server of a context of kubeconfig, by default the current one. Methods raise KubeError."""

    def __init__(self, context: str | None = None) -> None:
        self._api = api = client.ApiClient(configuration(context))
        self._custom = client.CustomObjectsApi(api)
        self._reviews = client.AuthorizationV1Api(api)
        self.namespace = current_namespace(context)
        self.in_pod = context is None and own_namespace() != ""
        self.account = "this pod's account" if self.in_pod else "kubeconfig's account"

    def find(self, kind: str, namespace: str | None) -> list[Raw]:
        """Return the objects of a kind in a namespace, or in all of them, in pages."""
        in_one = self._custom.list_namespaced_custom_object
        call = self._custom.list_cluster_custom_object if namespace is None else in_one
        where = () if namespace is None else (namespace,)
        return in_pages(partial(raw_answer, call), GROUP, VERSION, *where, PLURALS[kind])

    def get(self, kind: str, namespace: str, name: str) -> Raw:
        """Return one object. Raises GoneError."""
        return raw_answer(self._custom.get_namespaced_custom_object, GROUP, VERSION, namespace, PLURALS[kind], name)

    def change(self, kind: str, raw: Mapping[str, Any], spec: Mapping[str, Any]) -> Raw:
        """Set fields of the spec of the very object that was read.

        Raises ConflictError if another one has its name by now: the API server lets no patch change a uid.
        """
        metadata = raw["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        body = {"metadata": {"uid": metadata["uid"]}, "spec": spec}
        patch = self._custom.patch_namespaced_custom_object
        try:
            return raw_answer(patch, GROUP, VERSION, namespace, PLURALS[kind], name, body, field_manager=MANAGER)
        except KubeError as error:
            if "metadata.uid" not in str(error):
                raise
            raise ConflictError(f"{namespace}/{name} is another object than was read: look at it again") from error

    def may(self, right: Mapping[str, str]) -> bool:
        """Whether the user has a right, given as the `resourceAttributes` of a SelfSubjectAccessReview."""
        asked = {"spec": {"resourceAttributes": dict(right)}}
        return bool(raw_answer(self._reviews.create_self_subject_access_review, asked)["status"]["allowed"])

    def look_up(self, plural: str, namespace: str, name: str) -> Raw | None:
        """Return an object of core/v1, None if there is none. NB: of a secret its metadata only, never its content."""
        try:
            return raw_answer(
                self._api.call_api,
                "/api/v1/namespaces/{namespace}/{plural}/{name}",
                "GET",
                path_params={"namespace": namespace, "plural": plural, "name": name},
                header_params={"Accept": METADATA_ONLY if plural == "secrets" else "application/json"},
                auth_settings=["BearerToken"],
                _return_http_data_only=True,
            )
        except GoneError:
            return None


@dataclass(frozen=True)
class Found:
    """Resources; the only namespace that was looked into, if not all were; and what could not be read."""

    resources: tuple[Known, ...]
    only: str | None = None
    unreadable: tuple[str, ...] = ()

    @property
    def notes(self) -> Iterator[str]:
        """Yield what is missing."""
        if self.only is not None:
            yield f"you may not list all namespaces; this is {self.only} alone"
        yield from self.unreadable


def read_all(cluster: Cluster, namespaces: Iterable[str]) -> Found:
    """Return all resources of some namespaces. Raises KubeError.

    Without namespaces these are all, or the user's current one where only that may be listed.
    """
    chosen: tuple[str | None, ...] = tuple(namespaces)
    if chosen:
        return _read(_raws(cluster, chosen))
    try:
        return _read(_raws(cluster, (None,)))
    except ForbiddenError:
        return _read(_raws(cluster, (cluster.namespace,)), only=cluster.namespace)


def read_one(cluster: Cluster, kind: str, *, namespace: str | None, name: str) -> tuple[Known, Raw]:
    """Return a resource, as a value and as it came. Raises KubeError, and ValueError if it cannot be read."""
    raw = cluster.get(kind, namespace or cluster.namespace, name)
    return READERS[kind](raw), raw


def _raws(cluster: Cluster, namespaces: Iterable[str | None]) -> list[tuple[str, Raw]]:
    wanted = tuple(namespaces)
    return [(kind, raw) for kind in READERS for namespace in wanted for raw in cluster.find(kind, namespace)]


def _read(raws: Iterable[tuple[str, Raw]], *, only: str | None = None) -> Found:
    found, unreadable = [], []
    for kind, raw in raws:
        try:
            found.append(READERS[kind](raw))
        except ValueError as error:
            place = "{namespace}/{name}".format(**raw["metadata"])
            unreadable.append(f"{kind} {place} cannot be read by this version: {' '.join(str(error).split())}")
    return Found(tuple(found), only, tuple(unreadable))
