"""The context of one driver pod's attempt: its metastore client, its request, and the names it uses."""

from collections.abc import Sequence
from dataclasses import dataclass

from compaction_operator.acid.plan import Layout
from compaction_operator.api.cleanup import TableIdentity
from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import JobRequest, agent_info, queue_pool
from compaction_operator.cleanup import staging
from compaction_operator.driver.merge.partition import OpenTarget, Request
from compaction_operator.metastore import MetastoreClient, QueueEntry, Taken, Target


@dataclass(frozen=True)
class DriverContext:
    """One attempt. `identity` is the table that it was started for.

    `row_type` is the table's row type in the metastore, or None if it cannot be derived.
    """

    client: MetastoreClient
    job: JobRequest
    pod_uid: str
    identity: TableIdentity
    row_type: str | None = None

    @property
    def table(self) -> TableRef:
        """The table to compact."""
        return self.job.table

    @property
    def staging_name(self) -> str:
        """The name of the folder in each partition that only this pod writes to."""
        return staging.staging_name(uid=self.job.uid, attempt=self.job.attempt, pod_uid=self.pod_uid)

    @property
    def agent(self) -> str:
        """The agent name of this pod's locks, transactions and queue entries."""
        return agent_info(uid=self.job.uid, attempt=self.job.attempt, pod_uid=self.pod_uid)

    @property
    def pool(self) -> str:
        """The compaction pool that belongs to this pod alone."""
        return queue_pool(uid=self.job.uid, attempt=self.job.attempt, pod_uid=self.pod_uid)

    @property
    def taken(self) -> Taken | None:
        """The queue entry that the controller took for this compaction, None if the driver makes its own ones."""
        return Taken.of(self.job.warehouse.name, self.job.queue_id)

    def open(self, target: Target) -> OpenTarget:
        """Return a target with its storage and the staging folder of this pod."""
        return OpenTarget(target.partition, target.location, target.create_time, self.staging_name)

    def queue(self) -> Sequence[QueueEntry]:
        """Return the table's entries in the compaction queue; raises MetastoreError."""
        return self.client.compactions(self.table.database, self.table.name)

    def queue_of_others(self) -> Sequence[QueueEntry]:
        """Return `queue` without the entry that the controller took for this compaction."""
        taken = self.taken
        return [entry for entry in self.queue() if taken is None or not taken.is_held(entry)]

    def request(self, layout: Layout) -> Request:
        """Return the request that applies to each partition."""
        return Request(
            type=self.job.type, layout=layout, row_type=self.row_type, task_memory=self.job.profile.task_memory
        )
