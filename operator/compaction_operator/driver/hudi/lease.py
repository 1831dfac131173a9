"""The lease of one table: a Kubernetes Lease that admits one driver of a namespace at a time."""

import hashlib
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import kubernetes

from compaction_operator.api.request import Reason
from compaction_operator.clock import boot_seconds
from compaction_operator.driver.errors import JobError
from compaction_operator.storage import place_of

log = logging.getLogger(__name__)

DURATION_SECONDS = 60
RENEWAL_SECONDS = 20

CLOCK_TOLERANCE = 5.0
"""The accepted difference in seconds between this machine's clock and the API server's, plus the call's duration."""


class HeldLease(Protocol):
    """A lease that is held."""

    def confirm(self) -> None:
        """Raise JobError when the lease is lost."""
        ...


class Leases(Protocol):
    """Leases of one namespace; each method raises kubernetes.client.ApiException."""

    def read(self, name: str) -> Any:
        """Return the lease of that name, None if it does not exist."""
        ...

    def create(self, body: Any) -> Any:
        """Create a lease and return it as stored; a conflict when one with its name exists."""
        ...

    def replace(self, body: Any) -> Any:
        """Write a lease and return it as stored; a conflict when it has changed since it was read."""
        ...


class Lease:
    """A lease that is held from construction until `release`. A thread renews it meanwhile.

    NB: a lease that was not renewed for its whole duration counts as lost, because another driver may hold it by then.
    This is how a process notices that it was stopped, or that its machine was asleep, for too long.
    """

    def __init__(self, leases: Leases, held: Any) -> None:
        self.lost = threading.Event()
        self._leases = leases
        self._held = held
        self._name = held.metadata.name
        self._confirmed = boot_seconds()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lease-{self._name}", daemon=True)
        self._thread.start()

    def confirm(self) -> None:
        """Raise JobError (LockLost) unless the lease is still held."""
        silence = boot_seconds() - self._confirmed
        if self.lost.is_set() or silence >= DURATION_SECONDS:
            self.lost.set()
            raise JobError(Reason.LOCK_LOST, f"lease {self._name} is lost: it was last renewed {silence:.0f} s ago")

    def release(self) -> None:
        """End the thread, and give up the lease if it is still held."""
        self._stopped.set()
        self._thread.join()
        if self.lost.is_set():
            return
        self._held.spec.holder_identity = None
        try:
            self._leases.replace(self._held)
        except Exception as error:
            log.warning("lease %s was not given up and will expire: %s", self._name, error)

    def _run(self) -> None:
        while not self._stopped.wait(RENEWAL_SECONDS) and not self.lost.is_set():
            self._renew()

    def _renew(self) -> None:
        asked = boot_seconds()
        self._held.spec.renew_time = _written_now()
        try:
            self._held = self._leases.replace(self._held)
            self._confirmed = asked
        except kubernetes.client.ApiException as error:
            if error.status in (404, 409):
                self._resolve_conflict(error.reason)
            else:
                log.warning("lease %s was not renewed: %s %s", self._name, error.status, error.reason)
        except Exception as error:
            log.warning("lease %s was not renewed: %s", self._name, error)

    def _resolve_conflict(self, reason: str) -> None:
        """Keep the lease if the conflicting write is this holder's own, whose answer from the server was lost."""
        try:
            found = self._leases.read(self._name)
        except Exception as error:
            log.warning("lease %s was not read: %s", self._name, error)
            return
        if found is not None and found.spec.holder_identity == self._held.spec.holder_identity:
            self._held = found
            return
        log.warning("lease %s is lost: %s", self._name, reason)
        self.lost.set()


@contextmanager
def table_lease(leases: Leases, location: str, *, holder: str) -> Iterator[Lease]:
    """Hold the lease of the table at a location.

    Raises JobError: WaitingForLease naming the other holder, DriverFailed when this machine's clock is wrong.
    """
    held = _take(leases, lease_name(location), holder)
    lease = Lease(leases, held)
    try:
        _require_right_time(held)
        yield lease
    finally:
        lease.release()


def lease_name(location: str) -> str:
    """Return the name of the lease of the table at a location, the same for all spellings and names of its place."""
    return f"hudi-{hashlib.sha256(place_of(location).encode()).hexdigest()[:16]}"


def _take(leases: Leases, name: str, holder: str) -> Any:
    """Write the lease as this holder's and return it."""
    now = _written_now()
    found = leases.read(name)
    if found is not None and (other := _other_holder(found, holder, now)):
        raise JobError(Reason.WAITING_FOR_LEASE, f"lease {name} of the table is held by {other}")
    spec = kubernetes.client.V1LeaseSpec(
        holder_identity=holder, lease_duration_seconds=DURATION_SECONDS, acquire_time=now, renew_time=now
    )
    metadata = kubernetes.client.V1ObjectMeta(name=name) if found is None else found.metadata
    body = kubernetes.client.V1Lease(metadata=metadata, spec=spec)
    try:
        return leases.create(body) if found is None else leases.replace(body)
    except kubernetes.client.ApiException as error:
        if error.status == 409:
            raise JobError(Reason.WAITING_FOR_LEASE, f"lease {name} of the table was just taken") from error
        raise JobError(Reason.DRIVER_FAILED, f"lease {name}: {error.status} {error.reason}") from error


def _require_right_time(lease: Any) -> None:
    """Raise JobError when this machine's clock is wrong: its instants would not fit the order of the writers'.

    The API server records in whole seconds when it wrote the lease (`managedFields`).
    """
    served = max((entry.time for entry in lease.metadata.managed_fields or () if entry.time), default=None)
    if served is None:
        return
    ahead = (lease.spec.renew_time - served).total_seconds()
    behind = (served - datetime.now(UTC)).total_seconds()
    if (off := max(ahead - 1, behind)) > CLOCK_TOLERANCE:
        raise JobError(Reason.DRIVER_FAILED, f"this node's clock is {off:.0f} s off the API server's: set it right")


def _other_holder(lease: Any, holder: str, now: datetime) -> str | None:
    """Return the other holder of a lease that has not expired, None if there is none."""
    spec = lease.spec
    if not spec.holder_identity or spec.holder_identity == holder or spec.renew_time is None:
        return None
    ends = spec.renew_time + timedelta(seconds=(spec.lease_duration_seconds or DURATION_SECONDS) + 2 * CLOCK_TOLERANCE)
    return str(spec.holder_identity) if ends > now else None


def _written_now() -> datetime:
    """Return the current time with microseconds: the API server needs six digits, and Python omits them when zero."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond or 1)
