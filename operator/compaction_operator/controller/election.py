"""Election: one controller of several leads, by a Lease. It acts only until a time on its own clock, then it is gone.

The package `kubernetes` (35.0) has an election, too. It does not serve here: it knows no Lease but only a ConfigMap's
annotation, gives nothing back at a graceful stop, compares times of a clock that may be set back, and a call without a
time-out may hold up its deadline.

The rules are those of client-go. A standby takes the Lease when it has seen no change of it for the Lease's own
duration, by the standby's clock: clocks of two machines are never compared. The leader may act for RENEW_SECONDS after
the last renewal *began*. That is less than the duration, so a leader that is cut off is gone before another may lead.
"""

import logging
import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn, Protocol

from compaction_operator.clock import boot_seconds
from compaction_operator.controller.kube.client import ConflictError, GoneError, KubeError, Raw, ResourceExistsError
from compaction_operator.controller.kube.lease import SECONDS, Lease

log = logging.getLogger(__name__)

RENEW_SECONDS = 10.0
RETRY_SECONDS = 2.0
"""The pause between two renewals, and between two looks of a standby."""
LEASE_LOST = 3
"""Exit code of a leader that may not act any more. The kubelet starts a fresh process, which stands by."""


class Leases(Protocol):
    """One Lease: see LeaseStore."""

    def read(self) -> Lease | None:
        """Return the Lease, None if it does not exist."""
        ...

    def create(self, spec: Raw) -> Lease:
        """Create it."""
        ...

    def replace(self, lease: Lease, spec: Raw) -> Lease:
        """Write it if it still has the version that was read."""
        ...


@dataclass(frozen=True)
class Sight:
    """The Lease as it was last read, and since when it has not changed by the reader's own clock."""

    lease: Lease | None
    since: float

    def then(self, lease: Lease | None, *, now: float) -> "Sight":
        """Return what is known after another look."""
        same = lease is not None and self.lease is not None and lease.version == self.lease.version
        return Sight(lease, self.since if same else now)

    def is_free(self, *, now: float) -> bool:
        """Whether another process than the holder may take it."""
        return self.lease is None or not self.lease.holder or now - self.since >= self.lease.seconds


def end_at_once(why: str) -> NoReturn:
    """End the process without another step: no handler, no `finally`, no thread that goes on."""
    log.critical("%s: this process ends now", why)
    os._exit(LEASE_LOST)


class Election:
    """This process's part. First it stands until it leads; then `lead` keeps the Lease in threads of its own.

    `end` ends the process at once. `heard` is when the API server last answered about the Lease, None if it never did.
    """

    def __init__(
        self,
        leases: Leases,
        *,
        identity: str,
        clock: Callable[[], float] = boot_seconds,
        end: Callable[[str], NoReturn] = end_at_once,
    ) -> None:
        self.heard: float | None = None
        self._leases = leases
        self._identity = identity
        self._clock = clock
        self._end = end
        self._sight = Sight(None, -math.inf)
        self._held: Lease | None = None
        self._until = -math.inf
        self._stopped = threading.Event()
        self._renewing = threading.Thread(target=self._renew_on, name="lease renewal", daemon=True)

    @property
    def leads(self) -> bool:
        """Whether this process took the Lease."""
        return self._held is not None

    @property
    def leader(self) -> str:
        """The pod that leads, as this process last saw it as a standby; '' if none was seen."""
        lease = self._sight.lease
        return lease.holder.rpartition("_")[0] if lease else ""

    def stand(self) -> bool:
        """Look at the Lease and take it if it is free; return whether this process leads. Errors count as no."""
        asked = self._clock()
        try:
            return self._stand(asked)
        except (ConflictError, ResourceExistsError):
            return False  # another one was faster
        except KubeError as error:
            log.warning("cannot stand for the lease: %s", error)
            return False

    def _stand(self, asked: float) -> bool:
        found = self._leases.read()
        self.heard = now = self._clock()
        before, self._sight = self._sight, self._sight.then(found, now=now)
        holder = found.holder if found else ""
        if holder and (before.lease is None or before.lease.holder != holder):
            log.info("standing by: %s leads", holder)
        if not self._sight.is_free(now=now):
            return False
        spec = self._spec(acquireTime=_now(), leaseTransitions=found.transitions + 1 if found else 0)
        self._held = self._leases.replace(found, spec) if found else self._leases.create(spec)
        self._until = asked + RENEW_SECONDS
        log.info("%s leads now%s", self._identity, f", after {holder}" if holder else "")
        return True

    def lead(self) -> None:
        """Keep the Lease from now on, and end the process as soon as it may not act any more."""
        self._renewing.start()
        threading.Thread(target=self._watch, name="lease watch", daemon=True).start()

    def require(self) -> None:
        """Return if this process may act now; else end it. This is the permit of all its changes. Thread-safe."""
        late = self._clock() - self._until
        if late >= 0:
            self._end(f"the lease was not renewed in time, by {late:.1f} s" if self.leads else "no lease was taken")

    def renew(self) -> None:
        """Renew the Lease once. Ends the process if another one holds it, or if it is gone."""
        assert self._held
        asked = self._clock()
        try:
            self._held = self._leases.replace(self._held, self._spec())
        except (ConflictError, GoneError):
            self._resolve()
        except KubeError as error:
            log.warning("the lease was not renewed: %s", error)
        else:
            self.heard = self._clock()
            self._until = asked + RENEW_SECONDS

    def _resolve(self) -> None:
        """Go on after a conflict with this process's own write, whose answer was lost. Only the next renewal counts."""
        try:
            found = self._leases.read()
        except KubeError as error:
            log.warning("the lease was not read: %s", error)
            return
        if found is None or found.holder != self._identity:
            self._end(f"the lease is lost: {found.holder or 'none'} holds it" if found else "the lease was deleted")
        self._held = found

    def release(self) -> None:
        """Give the Lease back, so that a standby need not wait. NB: only once nothing of this process acts any more."""
        self._stopped.set()
        if self._held is None:
            return
        if self._renewing.is_alive():
            self._renewing.join()
        self._until = -math.inf
        try:
            self._leases.replace(self._held, {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()})
        except KubeError as error:
            log.warning("the lease was not given back, and expires in %s s: %s", SECONDS, error)
        else:
            log.info("the lease is given back")

    def _spec(self, **more: object) -> Raw:
        held = {"holderIdentity": self._identity, "leaseDurationSeconds": SECONDS, "renewTime": _now()}
        return {**held, **more}

    def _renew_on(self) -> None:
        while not self._stopped.wait(RETRY_SECONDS):
            self.renew()

    def _watch(self) -> None:
        """End the process in time, also while a renewal hangs."""
        while not self._stopped.wait(max(0.0, self._until - self._clock())):
            self.require()


def _now() -> str:
    """Return the time for people who look at the Lease, with the six digits that the API server asks for."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
