"""The Lease (coordination.k8s.io/v1) by which one controller of several leads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubernetes import client

from compaction_operator.controller.kube.client import GoneError, Raw, configuration, raw_answer

SECONDS = 15
"""How long a Lease lasts after each change, unless it says otherwise."""
TIMEOUT = (2.0, 3.0)
"""Seconds to connect and to read: a renewal that fails leaves time for another one."""


@dataclass(frozen=True)
class Lease:
    """A Lease as the API server has it."""

    raw: Raw

    @property
    def holder(self) -> str:
        """The identity of the process that holds it; empty if none does."""
        return self._spec.get("holderIdentity") or ""

    @property
    def seconds(self) -> float:
        """How long it lasts after each change."""
        return float(self._spec.get("leaseDurationSeconds") or SECONDS)

    @property
    def transitions(self) -> int:
        """How often it had a new holder."""
        return int(self._spec.get("leaseTransitions") or 0)

    @property
    def version(self) -> str:
        """What differs after each change."""
        return str(self.raw["metadata"]["resourceVersion"])

    @property
    def _spec(self) -> Mapping[str, Any]:
        return self.raw.get("spec") or {}


class LeaseStore:
    """One Lease on the API server. Methods raise KubeError if there is no answer within TIMEOUT."""

    def __init__(self, namespace: str, name: str) -> None:
        settings = configuration()
        settings.retries = 0  # NB: urllib3 repeats a call three times otherwise, each with the whole time-out
        self._api = client.CoordinationV1Api(client.ApiClient(settings))
        self._namespace = namespace
        self._name = name

    def read(self) -> Lease | None:
        """Return the Lease, None if it does not exist."""
        try:
            return Lease(raw_answer(self._api.read_namespaced_lease, self._name, self._namespace, timeout=TIMEOUT))
        except GoneError:
            return None

    def create(self, spec: Raw) -> Lease:
        """Create it. Raises ResourceExistsError if another process was faster."""
        body = {"metadata": {"name": self._name}, "spec": spec}
        return Lease(raw_answer(self._api.create_namespaced_lease, self._namespace, body, timeout=TIMEOUT))

    def replace(self, lease: Lease, spec: Raw) -> Lease:
        """Write its fields if it still has the version that was read. Raises ConflictError or GoneError otherwise."""
        body = {**lease.raw, "spec": {**(lease.raw.get("spec") or {}), **spec}}
        return Lease(raw_answer(self._api.replace_namespaced_lease, self._name, self._namespace, body, timeout=TIMEOUT))
