"""Upkeep of one Hudi table: its cleaner, which first finishes what dead drivers began, and its archival."""

import logging

from compaction_operator.api.request import JobRequest
from compaction_operator.driver.hudi.lease import HeldLease
from compaction_operator.hudi import Cleaned, Instant, State, WaitingForInstantError, is_own
from compaction_operator.hudi.jvm import HudiClient

log = logging.getLogger(__name__)


class Upkeep:
    """Cleans and archives a table. Each method raises HudiError, and JobError if the lease is lost."""

    def __init__(self, client: HudiClient, request: JobRequest, *, lease: HeldLease) -> None:
        self._client = client
        self._request = request
        self._lease = lease

    def clean(self) -> Cleaned | None:
        """Run Hudi's cleaner and return the last clean with the number of all deleted files; None: nothing to clean.

        A clean that a dead driver of this operator has begun is finished first, as files that it deleted must leave
        the metadata table. One that has not begun is planned again. Raises WaitingForInstantError for one of another
        client, unless the compaction may treat other clients' instants as its own.
        """
        left = self._client.cleans()
        self._require_own(left)
        self._client.roll_back_dead_writes(confirm=self._lease.confirm)
        begun = [clean for clean in map(self._put_in_order, left) if clean is not None]
        done = [self._run(clean) for clean in begun]
        owner = f"{self._request.namespace}/{self._request.uid}/{self._request.attempt}"
        if planned := self._client.plan_clean(owner=owner, confirm=self._confirm_alone):
            done.append(self._run(planned))
        return Cleaned(done[-1].instant, sum(one.files for one in done)) if done else None

    def archive(self) -> int:
        """Archive as Hudi's options say, and return how many instants left the active timeline."""
        self._lease.confirm()
        return self._client.archive(confirm=self._lease.confirm)

    def _put_in_order(self, clean: Instant) -> Instant | None:
        """Return a clean that is to be finished; None for one that had not begun, which is removed."""
        if clean.state is State.REQUESTED:
            self._client.remove_clean(clean, confirm=self._lease.confirm)
            return None
        if clean.state is State.COMPLETED:
            return self._client.reopen_clean(clean, confirm=self._lease.confirm)
        return clean

    def _run(self, clean: Instant) -> Cleaned:
        done = self._client.run_clean(clean, confirm=self._lease.confirm)
        log.info("clean %s is committed: %d files deleted", done.instant, done.files)
        return done

    def _confirm_alone(self) -> None:
        """Raise unless the lease is held and no clean is pending, under the lock that the new plan needs."""
        self._lease.confirm()
        if pending := self._client.cleans():
            raise WaitingForInstantError(f"{pending[0]} of another client is pending")

    def _require_own(self, cleans: tuple[Instant, ...]) -> None:
        for clean in cleans:
            if clean.owner is None:
                self._client.require_plan(clean)
            if not (self._request.hudi.all_instants or is_own(clean, self._request.namespace)):
                raise WaitingForInstantError(
                    f"{clean} of another client is pending; if that client is gone, `hudi.allInstants: true` lets "
                    "this one " + ("plan it again" if clean.state is State.REQUESTED else "finish it")
                )
