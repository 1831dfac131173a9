"""The compaction protocol of Hive 4.

Each partition has a queue entry and a COMPACTION transaction. The transaction's commit publishes the outputs.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from compaction_operator.acid.names import parse_directory
from compaction_operator.acid.plan import Layout
from compaction_operator.acid.snapshot import UnsupportedLayout
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.request import Reason
from compaction_operator.cleanup.staging import parse_staging
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.claim import Claim, Claims
from compaction_operator.driver.hive.protocol import Failed, Held, HiveProtocol, Staged, each, failed_at
from compaction_operator.driver.hive.publish import leave, move_outputs
from compaction_operator.driver.merge.partition import Basis, OpenTarget, Prepared, Request, found_in, listed, prepare
from compaction_operator.metastore import MetastoreError, MetastoreUnavailable
from compaction_operator.storage import Listed

log = logging.getLogger(__name__)

NO_TXN = 0
"""Placeholder for the outputs of a plan that is never executed. No transaction has this id."""

NOTHING_TO_DO = "nothing to compact"


class Hive4(HiveProtocol):
    """The protocol of Hive 4 for one table."""

    batch_partitions = 32
    """The maximum number of partitions claimed at a time.

    From claim to publication each partition has a heartbeat and a transaction, which every snapshot lists as open.
    NB: a journal cannot cover more partitions than a batch. It is written between claim and publication, and its
    entries name the transactions.
    """

    @contextmanager
    def batch(self) -> Iterator[Held]:
        """Hold SHARED_READ on the table until the first claim; raises JobError (WaitingForLock).

        If the batch fails, every claim that is still open is abandoned.
        """
        self.locks.share()
        held = Hive4Batch(self)
        try:
            yield held
        except BaseException as error:
            held.abandon_all(str(error) or type(error).__name__)
            raise


class Hive4Batch(Held):
    """One batch with a claim on each partition that has something to compact; see `Held`."""

    def __init__(self, hive: Hive4) -> None:
        self._hive = hive
        self._claims = Claims(hive.attempt, hive.locks)
        self._claimed: dict[str, Claim] = {}

    @property
    def lock_ids(self) -> Sequence[int]:
        """The lock ids of all transactions."""
        return [claim.lock_id for claim in self._claimed.values()]

    def prepare(self, targets: Sequence[OpenTarget]) -> Iterator[Prepared | Failed]:
        """Plan once without a claim, claim the partitions that have something to compact, and plan those again.

        So a partition with nothing to compact never enters the queue. NB: only the listing after the claim counts,
        because from the claim on no other client compacts the partition.
        """
        view, seen = self._view(), listed(targets)
        looked = yield from each(interruption.checked(targets), lambda target: _look(target, seen[target], *view))
        claimed = yield from each([one.target for one in looked if one.plan.outputs], self._claim)
        if claimed:
            view = self._view()
            claimed = yield from each(claimed, lambda target: self._begin(target, view[0].watermark))
            seen = listed(claimed)
        planned = yield from each(interruption.checked(claimed), lambda target: self._plan(target, seen[target], *view))
        again = {one.target: one for one in planned}
        every = (again.get(one.target) if one.plan.outputs else one for one in looked)
        yield from (one for one in every if one is not None)

    def _view(self) -> tuple[ValidWriteIdList, Request]:
        """Return the valid write ids, and the partitions' request with the transactions that are valid now.

        The batch's own transactions do not count as open.
        """
        attempt = self._hive.attempt
        txns = attempt.client.valid_txns(without=[claim.txn for claim in self._claimed.values()])
        write_ids = attempt.client.valid_write_ids(attempt.table.database, attempt.table.name, valid_txns=txns)
        return write_ids, replace(attempt.request(Layout.HIVE4), visibility_txn=NO_TXN, valid_txns=txns)

    def _claim(self, target: OpenTarget) -> OpenTarget:
        self._claimed[target.partition] = self._claims.take(target.partition or None)
        _abort_dead_uploads(target)
        return target

    def _begin(self, target: OpenTarget, watermark: int) -> OpenTarget:
        if not watermark:
            # NB: the driver had no lock on the name for a moment, and a table that takes it has no write ids at first.
            raise JobError(Reason.TABLE_CHANGED, f"{target.location}: another table has the name: it has no writes yet")
        self._claimed[target.partition].begin(highest_write_id=watermark)
        return target

    def _plan(self, target: OpenTarget, seen: Listed, write_ids: ValidWriteIdList, request: Request) -> Prepared:
        own = replace(request, visibility_txn=self._claimed[target.partition].txn)
        return prepare(target, seen, write_ids=write_ids, request=own)

    def confirm(self, staged: Sequence[Staged]) -> Iterator[Staged | Failed]:
        """Yield the partitions whose transaction is open, with its id and that of the queue entry.

        NB: without this check a late driver that lost its transaction would write a journal, and the controller would
        settle that journal beside its successor's.
        """
        for item in staged:
            claim = self._claimed.get(item.target.partition)
            try:
                if claim:
                    claim.guard()
            except JobError as error:
                yield failed_at(item.target, error)
            else:
                yield replace(item, txn_id=claim.txn, queue_id=claim.queue_id) if claim else item

    def publish(self, item: Staged) -> None:
        """Put the outputs into place, where they are invisible before the commit, then commit.

        An entry without outputs ends as Hive's Worker ends one: compacted if the partition has something to clean,
        else refused. The lock on the table is requested before the last claim ends, for the next batch.
        """
        self._hive.locks.stand_by()
        claim = self._claimed.get(item.target.partition)
        if claim is None:
            return
        if item.plan.outputs:
            move_outputs(item, uploads=item.uploads, guard=claim.guard)
        if item.matters:
            claim.commit()
        else:
            claim.refuse(NOTHING_TO_DO)
        leave(item)

    def release(self, failed: Failed) -> None:
        """Mark the partition's queue entry as failed and abort its transaction.

        NB: outputs that are already renamed stay in place. No snapshot includes them, but a reader that is listing
        fails when one vanishes (AcidUtils looks into each directory that it saw). The journal was written before any
        rename, so the controller settles them: it removes them while no reader begins.
        """
        try:
            self._hive.locks.stand_by()
            if claim := self._claimed.get(failed.target.partition):
                claim.abandon(str(failed.error))
        except MetastoreError as error:
            log.warning("%s: left to the controller: %s", failed.target.location, error)

    def abandon_all(self, why: str) -> None:
        """Abandon every open claim; outputs stay in place, as in `release`.

        NB: it stops at the first call that finds the metastore unavailable, to wait for its time-out only once. The
        controller settles the rest of the attempt.
        """
        for claim in self._claimed.values():
            claim.stop()
        for partition, claim in self._claimed.items():
            try:
                claim.abandon(why)
            except MetastoreUnavailable as error:
                log.warning("the remaining claims are left to the controller: %s", error)
                return
            except MetastoreError as error:
                log.warning("%s: left to the controller: %s", partition or "the table", error)


def _abort_dead_uploads(target: OpenTarget) -> None:
    """Abort the uploads of other compactions, to outputs and to staging.

    NB: only behind the claim, where no other compaction of this partition is alive, and before the listing that counts.
    Writers upload into directories without a transaction.
    """

    def is_dead(name: str) -> bool:
        top = name.partition("/")[0]
        if parse_staging(top):
            return top != target.staging_name
        parsed = parse_directory(top)
        return parsed is not None and parsed.visibility_txn is not None

    if (uploads := target.storage.uploads) and (dead := uploads.abort_below(target.location, is_dead)):
        log.info("%s: aborted %d uploads of dead compactions", target.location, dead)


def _look(target: OpenTarget, seen: Listed, write_ids: ValidWriteIdList, request: Request) -> Prepared:
    """Return the partition's plan without work. Raises UnsupportedLayout for outputs without any write.

    NB: the metastore's queue reads the highest write id 0 as unknown, which stands for all write ids.
    """
    basis = Basis(found_in(seen), write_ids, request)
    plan = basis.plan()
    if plan.outputs and plan.highest_write_id < 1:
        raise UnsupportedLayout("nothing was written since the table became transactional")
    return Prepared(target, plan, basis)
