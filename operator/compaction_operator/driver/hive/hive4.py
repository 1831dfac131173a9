"""A compaction on Hive 4: a queue entry and a COMPACTION transaction per partition, whose commit publishes."""

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
from compaction_operator.metastore.errors import MetastoreError, MetastoreUnavailable
from compaction_operator.metastore.resolve import Target
from compaction_operator.storage import join, open_storage

log = logging.getLogger(__name__)

BATCH_PARTITIONS = 32
"""Each has a transaction, which every snapshot lists as open, and a heartbeat, from its claim to its publication.

NB: a journal, which is written in between, cannot cover more: its entries name the transactions.
"""

NO_TXN = 0
"""No transaction has this id: it names the outputs of a plan that is only looked at."""

NOTHING_TO_DO = "nothing to compact"


class Hive4:
    """The protocol of Hive 4 for one table."""

    layout = Layout.HIVE4

    def __init__(self, attempt: DriverContext, claims: Claims) -> None:
        self.attempt = attempt
        self.claims = claims

    @property
    def batch_partitions(self) -> int:
        """As many as may have an open transaction at a time."""
        return BATCH_PARTITIONS

    @contextmanager
    def batch(self, give_up: GiveUp) -> Iterator["Hive4Batch"]:
        """Hold SHARED_READ on the table until the first claim; what the partitions came to hold ends with the batch.

        Raises JobError (WaitingForLock).
        """
        self.claims.locks.share()
        held = Hive4Batch(self, give_up=give_up)
        try:
            yield held
        except BaseException as error:
            held.abandon_all(str(error) or type(error).__name__)
            raise

    def close(self) -> None:
        """Give the table's lock back, where it is held."""
        self.claims.locks.release()

    def view(self, *, without: Collection[int]) -> tuple[ValidWriteIdList, Request]:
        """Return the valid write ids, and what is asked of partitions with the transactions that are valid now."""
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

    def nothing(self, target: Target, plan: CompactionPlan) -> Prepared:
        """Return what is known of a partition whose plan has no outputs."""
        staging = join(target.location, self.attempt.staging_name)
        return Prepared(location=target.location, staging=staging, plan=plan, outputs={}, inputs={})


class Hive4Batch:
    """One batch, with a claim on each partition that has anything to compact; see `Held`."""

    def __init__(self, hive: Hive4, *, give_up: GiveUp) -> None:
        self._hive = hive
        self._give_up = give_up
        self._claims: dict[str, Claim] = {}

    @property
    def lock_ids(self) -> Sequence[int]:
        """The locks of all transactions."""
        return [claim.lock_id for claim in self._claims.values()]

    def prepare(self, opened: Sequence[Target]) -> list[tuple[Target, Prepared]]:
        """Look first, so that what has nothing to do never enters the queue; claim the others, and look again.

        NB: only what is listed after the claim counts: nobody else compacts then.
        """
        found = self._look(opened)
        claimed = [target for target, prepared in found if prepared is None and self._claim(target)]
        planned = dict(self._plan(claimed))
        every = [(target, prepared or planned.get(target)) for target, prepared in found]
        return [(target, prepared) for target, prepared in every if prepared is not None]

    def _look(self, opened: Sequence[Target]) -> list[tuple[Target, Prepared | None]]:
        """Return the partitions, those that have nothing to compact with what is known of them."""
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
                found.append((target, None if plan.outputs else self._hive.nothing(target, plan)))
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
        """Return them all, with what is held for each: nobody who is there already sees what a commit publishes."""
        return [self._with_ids(item) for item in staged]

    def _with_ids(self, item: Staged) -> Staged:
        claim = self._claims.get(item.target.partition)
        return replace(item, txn_id=claim.txn, queue_id=claim.queue_id) if claim else item

    def confirm(self, staged: Sequence[Staged]) -> list[Staged]:
        """Return those whose transaction is open.

        NB: a journal of a driver that lost its transaction, and was late, would be settled beside its successor's.
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
        """Rename the outputs, which nobody sees before the commit, then commit.

        An entry without outputs ends as Hive's Worker ends one: compacted where there is something to be cleaned,
        refused where there is not. The table's lock is asked for before the last claim ends, for the next batch.
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
        """Nothing: while an entry of the queue is open nobody else compacts its partition."""

    def give_up(self, target: Target, error: JobError) -> None:
        """End a partition's queue entry as failed, abort its transaction, then give up the rest of it."""
        try:
            self._hive.claims.locks.stand_by()
            self._abandon(target.partition, str(error))
        except MetastoreError as left:
            log.warning("%s: left to the controller: %s", target.location, left)
        self._give_up(target, error)

    def abandon_all(self, why: str) -> None:
        """End what is still held for any partition.

        NB: a metastore that is gone is not waited for once more for each of them: the controller settles the attempt.
        """
        for claim in self._claims.values():
            claim.stop()
        for partition in list(self._claims):
            try:
                self._abandon(partition, why)
            except MetastoreUnavailable as error:
                log.warning("what is held is left to the controller: %s", error)
                return
            except MetastoreError as error:
                log.warning("%s: left to the controller: %s", partition or "the table", error)

    def _abandon(self, partition: str, why: str) -> None:
        """End what is held for a partition.

        NB: outputs that were renamed already stay where they are. Nobody's snapshot has them, but whoever is listing
        fails when one vanishes (AcidUtils looks into each directory that it saw). The journal, which was written before
        any rename, has them settled: that takes them away while no reader begins.
        """
        claim = self._claims.get(partition)
        if claim is not None:
            claim.abandon(why)


def _require_writes(plan: CompactionPlan) -> None:
    """NB: for the metastore's queue 0 stands for a highest write id that is not known, and then for all of them."""
    if plan.outputs and plan.highest_write_id < 1:
        raise UnsupportedLayout("nothing was written since the table became transactional")
