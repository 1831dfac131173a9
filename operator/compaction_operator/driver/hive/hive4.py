"""The compaction protocol of Hive 4.

Each partition has a queue entry and a COMPACTION transaction. The transaction's commit publishes the outputs.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from compaction_operator.acid.plan import CompactionPlan, Layout
from compaction_operator.acid.snapshot import UnsupportedLayout
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import PARTITION_ERRORS, JobError, at_location
from compaction_operator.driver.hive.claim import Claim, Claims
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.protocol import GiveUp, Staged
from compaction_operator.driver.hive.publish import leave, move_outputs
from compaction_operator.driver.merge.partition import Prepared, Request, prepare
from compaction_operator.metastore import MetastoreError, MetastoreUnavailable, Target
from compaction_operator.storage import join, open_storage

log = logging.getLogger(__name__)

BATCH_PARTITIONS = 32
"""The maximum number of partitions claimed at a time.

From claim to publication each partition has a heartbeat and a transaction, which every snapshot lists as open.
NB: a journal cannot cover more partitions than a batch. It is written between claim and publication, and its entries
name the transactions.
"""

NO_TXN = 0
"""Placeholder for the outputs of a plan that is never executed. No transaction has this id."""

NOTHING_TO_DO = "nothing to compact"


class Hive4:
    """The protocol of Hive 4 for one table."""

    layout = Layout.HIVE4

    def __init__(self, attempt: DriverContext, claims: Claims) -> None:
        self.attempt = attempt
        self.claims = claims

    @property
    def batch_partitions(self) -> int:
        """The number of partitions that may have an open transaction at a time."""
        return BATCH_PARTITIONS

    @contextmanager
    def batch(self, give_up: GiveUp) -> Iterator["Hive4Batch"]:
        """Hold SHARED_READ on the table until the first claim; raises JobError (WaitingForLock).

        If the batch fails, every claim that is still open is abandoned.
        """
        self.claims.locks.share()
        held = Hive4Batch(self, give_up=give_up)
        try:
            yield held
        except BaseException as error:
            held.abandon_all(str(error) or type(error).__name__)
            raise

    def close(self) -> None:
        """Release the lock on the table if it is held."""
        self.claims.locks.release()

    def view(self, *, without: Collection[int]) -> tuple[ValidWriteIdList, Request]:
        """Return the valid write ids, and the partitions' request with the transactions that are valid now.

        `without` has this driver's own transactions; they do not count as open.
        """
        client, table = self.attempt.client, self.attempt.table
        txns = client.valid_txns(without=without)
        write_ids = client.valid_write_ids(table.database, table.name, valid_txns=txns)
        return write_ids, replace(self.attempt.request(Layout.HIVE4), visibility_txn=NO_TXN, valid_txns=txns)

    def prepare(self, target: Target, write_ids: ValidWriteIdList, request: Request) -> Prepared:
        """List, plan and cut one partition; raises one of the PARTITION_ERRORS."""
        storage = open_storage(target.location)
        return prepare(
            storage, target.location, staging_name=self.attempt.staging_name, write_ids=write_ids, request=request
        )

    def without_outputs(self, target: Target, plan: CompactionPlan) -> Prepared:
        """Return the prepared partition for a plan without outputs."""
        staging = join(target.location, self.attempt.staging_name)
        return Prepared(location=target.location, staging=staging, plan=plan, outputs={}, inputs={})


class Hive4Batch:
    """One batch with a claim on each partition that has something to compact; see `Held`."""

    def __init__(self, hive: Hive4, *, give_up: GiveUp) -> None:
        self._hive = hive
        self._give_up = give_up
        self._claims: dict[str, Claim] = {}

    @property
    def lock_ids(self) -> Sequence[int]:
        """The lock ids of all transactions."""
        return [claim.lock_id for claim in self._claims.values()]

    def prepare(self, opened: Sequence[Target]) -> list[tuple[Target, Prepared]]:
        """Plan once without a claim, claim the partitions that have something to compact, and plan those again.

        So a partition with nothing to compact never enters the queue. NB: only the listing after the claim counts,
        because from the claim on no other client compacts the partition.
        """
        found = self._look(opened)
        claimed = [target for target, prepared in found if prepared is None and self._claim(target)]
        planned = dict(self._plan(claimed))
        every = [(target, prepared or planned.get(target)) for target, prepared in found]
        return [(target, prepared) for target, prepared in every if prepared is not None]

    def _look(self, opened: Sequence[Target]) -> list[tuple[Target, Prepared | None]]:
        """Return each partition, with a Prepared if it has nothing to compact, else with None."""
        write_ids, request = self._hive.view(without=())
        found: list[tuple[Target, Prepared | None]] = []
        for target in opened:
            interruption.check()
            try:
                plan = request.plan(open_storage(target.location).list_partition(target.location), write_ids)
                _require_writes(plan)
            except PARTITION_ERRORS as error:
                self.give_up(target, at_location(error, target.location))
            else:
                found.append((target, None if plan.outputs else self._hive.without_outputs(target, plan)))
        return found

    def _claim(self, target: Target) -> bool:
        try:
            claim = self._hive.claims.take(target.partition or None)
        except JobError as error:
            self.give_up(target, at_location(error, target.location))
            return False
        self._claims[target.partition] = claim
        return True

    def _plan(self, claimed: Sequence[Target]) -> Iterator[tuple[Target, Prepared]]:
        if not claimed:
            return
        write_ids, request = self._hive.view(without=[claim.txn for claim in self._claims.values()])
        for target in claimed:
            claim = self._claims[target.partition]
            interruption.check()
            try:
                claim.begin(highest_write_id=write_ids.watermark)
                yield target, self._hive.prepare(target, write_ids, replace(request, visibility_txn=claim.txn))
            except (JobError, *PARTITION_ERRORS) as error:
                self.give_up(target, at_location(error, target.location))

    def ready(self, staged: Sequence[Staged]) -> list[Staged]:
        """Return all partitions with their transaction and queue ids.

        No wait is necessary, because existing snapshots do not see what a later commit publishes.
        """
        return [self._with_ids(item) for item in staged]

    def _with_ids(self, item: Staged) -> Staged:
        claim = self._claims.get(item.target.partition)
        return replace(item, txn_id=claim.txn, queue_id=claim.queue_id) if claim else item

    def confirm(self, staged: Sequence[Staged]) -> list[Staged]:
        """Return the partitions whose transaction is open.

        NB: without this check a late driver that lost its transaction would write a journal, and the controller would
        settle that journal beside its successor's.
        """
        return [item for item in staged if self._is_held(item.target)]

    def _is_held(self, target: Target) -> bool:
        claim = self._claims.get(target.partition)
        try:
            if claim:
                claim.guard()
        except JobError as error:
            self.give_up(target, at_location(error, target.location))
            return False
        return True

    def publish(self, item: Staged) -> None:
        """Rename the outputs, which are invisible before the commit, then commit.

        An entry without outputs ends as Hive's Worker ends one: compacted if the partition has something to clean,
        else refused. The lock on the table is requested before the last claim ends, for the next batch.
        """
        self._hive.claims.locks.stand_by()
        claim = self._claims.get(item.target.partition)
        if claim is None:
            return
        storage = open_storage(item.target.location)
        if item.prepared.plan.outputs:
            move_outputs(storage, item.prepared, guard=claim.guard)
        if item.matters:
            claim.commit()
        else:
            claim.refuse(NOTHING_TO_DO)
        leave(storage, item.prepared)

    def look_again(self, published: Sequence[Staged]) -> None:
        """Do nothing: while the queue entry is open, no other client compacts the partition."""

    def give_up(self, target: Target, error: JobError) -> None:
        """Mark a partition's queue entry as failed, abort its transaction, then remove its staging."""
        try:
            self._hive.claims.locks.stand_by()
            self._abandon(target.partition, str(error))
        except MetastoreError as failure:
            log.warning("%s: left to the controller: %s", target.location, failure)
        self._give_up(target, error)

    def abandon_all(self, why: str) -> None:
        """Abandon every open claim.

        NB: it stops at the first call that finds the metastore unavailable, to wait for its time-out only once. The
        controller settles the rest of the attempt.
        """
        for claim in self._claims.values():
            claim.stop()
        for partition in list(self._claims):
            try:
                self._abandon(partition, why)
            except MetastoreUnavailable as error:
                log.warning("the remaining claims are left to the controller: %s", error)
                return
            except MetastoreError as error:
                log.warning("%s: left to the controller: %s", partition or "the table", error)

    def _abandon(self, partition: str, why: str) -> None:
        """Abandon a partition's claim, if it has one.

        NB: outputs that are already renamed stay in place. No snapshot includes them, but a reader that is listing
        fails when one vanishes (AcidUtils looks into each directory that it saw). The journal was written before any
        rename, so the controller settles them: it removes them while no reader begins.
        """
        claim = self._claims.get(partition)
        if claim is not None:
            claim.abandon(why)


def _require_writes(plan: CompactionPlan) -> None:
    """Raise UnsupportedLayout for outputs without any write.

    NB: the metastore's queue reads the highest write id 0 as unknown, which stands for all write ids.
    """
    if plan.outputs and plan.highest_write_id < 1:
        raise UnsupportedLayout("nothing was written since the table became transactional")
