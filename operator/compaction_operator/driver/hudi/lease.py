"""The lease of one table: a Kubernetes Lease, so that of all drivers of a namespace one at a time works on it."""

import hashlib
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import kubernetes

from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError

log = logging.getLogger(__name__)

DURATION_SECONDS = 60
RENEWAL_SECONDS = 20

CLOCK_TOLERANCE = 5.0
"""By how many seconds this machine's clock may differ from the API server's, beside the time of the call."""


class Leases(Protocol):
    """Leases of one namespace; each method raises kubernetes.client.ApiException."""

    def read(self, name: str) -> Any:
        """Return the lease of that name, None when there is none."""
        ...

    def create(self, body: Any) -> Any:
        """Create a lease and return it as it is now; a conflict when there is one of its name."""
        ...

    def replace(self, body: Any) -> Any:
        """Write a lease and return it as it is now; a conflict when it has changed since it was read."""
        ...


class Lease:
    """A lease that is held from construction until `release`, and renewed by a thread meanwhile.

    NB: it counts as lost once it was not renewed for its whole duration: somebody else may have it then. That is how a
    process notices that it was stopped, or its machine was asleep, for too long.
    """

    def __init__(self, leases: Leases, held: Any) -> None:
        self.lost = threading.Event()
        self._leases = leases
        self._held = held
        self._name = held.metadata.name
        self._confirmed = _now()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lease-{self._name}", daemon=True)
        self._thread.start()

    def confirm(self) -> None:
        """Raise JobError (LockLost) unless the lease is still held."""
        silence = _now() - self._confirmed
        if self.lost.is_set() or silence >= DURATION_SECONDS:
            self.lost.set()
            raise JobError(Reason.LOCK_LOST, f"lease {self._name} is lost: it was last renewed {silence:.0f} s ago")

    def release(self) -> None:
        """End the thread and give the lease away, if it is still held."""
        self._stopped.set()
        self._thread.join()
        if self.lost.is_set():
            return
        self._held.spec.holder_identity = None
        try:
            self._leases.replace(self._held)
        except Exception as error:
            log.warning("lease %s is left to end by itself: %s", self._name, error)

    def _run(self) -> None:
        while not self._stopped.wait(RENEWAL_SECONDS) and not self.lost.is_set():
            self._renew()

    def _renew(self) -> None:
        asked = _now()
        self._held.spec.renew_time = _written_now()
        try:
            self._held = self._leases.replace(self._held)
            self._confirmed = asked
        except kubernetes.client.ApiException as error:
            if error.status in (404, 409):
                self._look_again(error.reason)
            else:
                log.warning("lease %s was not renewed: %s %s", self._name, error.status, error.reason)
        except Exception as error:
            log.warning("lease %s was not renewed: %s", self._name, error)

    def _look_again(self, reason: str) -> None:
        """Go on where it was this holder's own write that came in between: the server's answer to it had got lost."""
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

    Raises JobError: WaitingForLease naming who else does, DriverFailed where this machine's clock is wrong.
    """
    held = _taken(leases, lease_name(location), holder)
    lease = Lease(leases, held)
    try:
        _require_right_time(held)
        yield lease
    finally:
        lease.release()


def lease_name(location: str) -> str:
    """Return the name of the lease of the table at a location."""
    return f"hudi-{hashlib.sha256(location.encode()).hexdigest()[:16]}"


def _taken(leases: Leases, name: str, holder: str) -> Any:
    """Return the lease, written as this holder's."""
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
    """Raise JobError when this machine's clock is wrong: its instants would not be in the order of the writers'.

    The API server says when it wrote the lease (`managedFields`), in whole seconds.
    """
    served = max((entry.time for entry in lease.metadata.managed_fields or () if entry.time), default=None)
    if served is None:
        return
    ahead = (lease.spec.renew_time - served).total_seconds()
    behind = (served - datetime.now(UTC)).total_seconds()
    if (off := max(ahead - 1, behind)) > CLOCK_TOLERANCE:
        raise JobError(Reason.DRIVER_FAILED, f"this node's clock is {off:.0f} s off the API server's: set it right")


def _other_holder(lease: Any, holder: str, now: datetime) -> str | None:
    """Return who else holds a lease that has not run out."""
    spec = lease.spec
    if not spec.holder_identity or spec.holder_identity == holder or spec.renew_time is None:
        return None
    ends = spec.renew_time + timedelta(seconds=(spec.lease_duration_seconds or DURATION_SECONDS) + 2 * CLOCK_TOLERANCE)
    return str(spec.holder_identity) if ends > now else None


def _written_now() -> datetime:
    """Return this moment as a lease can have it: the API server wants six digits, and Python leaves out zeros."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond or 1)


def _now() -> float:
    # NB: unlike time.monotonic this goes on while the machine is suspended.
    return time.clock_gettime(time.CLOCK_BOOTTIME)
