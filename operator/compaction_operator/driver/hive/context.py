"""One driver pod's attempt: whom it talks to, what it is asked for, and the names that it goes by."""

from dataclasses import dataclass

from compaction_operator.acid.plan import Layout
from compaction_operator.api.cleanup import TableIdentity
from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import JobRequest, agent_info, queue_pool
from compaction_operator.cleanup import staging
from compaction_operator.driver.merge.partition import Request
from compaction_operator.metastore.client import MetastoreClient


@dataclass(frozen=True)
class DriverContext:
    """An attempt. `identity` is the table that it was started for.

    `row_type` is the table's row as the metastore has it, None where it cannot be told.
    """

    client: MetastoreClient
    job: JobRequest
    pod_uid: str
    identity: TableIdentity
    row_type: str | None = None

    @property
    def table(self) -> TableRef:
        """The table that is compacted."""
        return self.job.table

    @property
    def staging_name(self) -> str:
        """The folder, in each partition, into which this pod alone writes."""
        return staging.staging_name(uid=self.job.uid, attempt=self.job.attempt, pod_uid=self.pod_uid)

    @property
    def agent(self) -> str:
        """Who holds the locks and transactions, and works on the queue's entries."""
        return agent_info(uid=self.job.uid, attempt=self.job.attempt, pod_uid=self.pod_uid)

    @property
    def pool(self) -> str:
        """The pool of the queue that is this pod's own."""
        return queue_pool(uid=self.job.uid, attempt=self.job.attempt, pod_uid=self.pod_uid)

    def request(self, layout: Layout) -> Request:
        """Return what is asked of each partition."""
        return Request(
            type=self.job.type, layout=layout, row_type=self.row_type, task_memory=self.job.profile.task_memory
        )
