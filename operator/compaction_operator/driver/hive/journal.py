"""The journal: `CompactionCleanup` resources created before publication.

A driver that created one may publish the partitions in it.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from compaction_operator.api import cleanup as api
from compaction_operator.api.cleanup import CompactionCleanupSpec, CompactionRef, PartitionEntry
from compaction_operator.api.compaction import Forecast, Totals
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.api.request import JobRequest, Reason
from compaction_operator.driver.errors import JobError, at_location
from compaction_operator.driver.hive.context import DriverContext

ENTRY_BYTES = api.MAX_BYTES - 4096
"""The space for the partitions of one journal; the rest is for its other fields."""


class JournalRefused(JobError):  # noqa: N818 - a verdict on what the journal says
    """The API server refuses a journal with that content; none was created."""


class JournalStore(Protocol):
    """The store of journals: the Kubernetes API, or a substitute for it."""

    def create(self, namespace: str, body: dict[str, Any]) -> bool:
        """Create the resource; return False when a resource of that name already exists.

        Raises JournalRefused when the API server refuses the content, and JobError for any other failure.
        """
        ...

    def get(self, namespace: str, name: str) -> dict[str, Any]:
        """Return the resource of that name."""
        ...


class Journal:
    """The journals of one attempt, numbered in the order of creation."""

    def __init__(self, store: JournalStore, attempt: DriverContext) -> None:
        self._store = store
        self._attempt = attempt
        self._shards = 0

    def record(self, entries: Sequence[PartitionEntry], *, lock_ids: Sequence[int]) -> dict[str, JobError]:
        """Create as many journals as the entries need, each within the size limits.

        Return the partitions that the API server refuses to record, each with its error; they must not be published.
        Raises JobError (Superseded) when another pod wrote the journal of this attempt: then only that pod may publish.
        """
        refused: dict[str, JobError] = {}
        for shard in shards(entries):
            refused |= self._record(shard, lock_ids)
        return refused

    def _record(self, entries: Sequence[PartitionEntry], lock_ids: Sequence[int]) -> dict[str, JobError]:
        """Record a shard. If the API server refuses it, halve it until only the refused entries are left out."""
        try:
            self._create(entries, lock_ids)
        except JournalRefused as error:
            if len(entries) == 1:
                return {entries[0].partition: at_location(error, entries[0].location)}
            middle = len(entries) // 2
            return self._record(entries[:middle], lock_ids) | self._record(entries[middle:], lock_ids)
        return {}

    def _create(self, entries: Sequence[PartitionEntry], lock_ids: Sequence[int]) -> None:
        """Create the next journal.

        NB: only a journal that exists uses up a number. So the driver that may publish owns number 0, however its
        entries were split, and a second driver of the attempt always finds number 0 taken.
        """
        request = self._attempt.job
        name = journal_name(request, self._shards)
        if not self._store.create(request.namespace, self._body(name, entries, lock_ids)):
            found = CompactionCleanupSpec.model_validate(self._store.get(request.namespace, name)["spec"])
            if found.compaction.pod_uid != self._attempt.pod_uid:
                raise JobError(Reason.SUPERSEDED, f"another driver of attempt {request.attempt} wrote {name}")
        self._shards += 1

    def _body(self, name: str, entries: Sequence[PartitionEntry], lock_ids: Sequence[int]) -> dict[str, Any]:
        attempt, request = self._attempt, self._attempt.job
        spec = CompactionCleanupSpec(
            warehouse=request.warehouse.name,
            operator=request.operator,
            table=attempt.identity,
            compaction=CompactionRef(
                name=request.name, uid=request.uid, attempt=request.attempt, job=request.job, pod_uid=attempt.pod_uid
            ),
            partitions=tuple(entries),
            lock_ids=tuple(lock_ids),
            **dict(request.cleanup),
        )
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": api.KIND,
            "metadata": {
                "name": name,
                "namespace": request.namespace,
                "labels": {api.LABEL_COMPACTION_UID: request.uid, api.LABEL_ATTEMPT: str(request.attempt)},
            },
            "spec": spec.to_json(),
        }


def journal_name(request: JobRequest, shard: int) -> str:
    """Return the deterministic name of an attempt's n-th journal."""
    digest = hashlib.sha256(request.uid.encode()).hexdigest()[:8]
    return f"{request.name[:200].rstrip('-.')}-{digest}-{request.attempt}-{shard}"


def shards(entries: Sequence[PartitionEntry]) -> Iterator[list[PartitionEntry]]:
    """Yield the entries in groups of at most MAX_PARTITIONS and about MAX_BYTES.

    An entry that is too large by itself is split by its obsolete names and uploads. Each part repeats the outputs, and
    only the first has the totals. Each part goes into a separate group, because a journal has one entry per partition.
    """
    group: list[PartitionEntry] = []
    size = 0
    for part in (part for entry in entries for part in _split(entry)):
        part_size = _size(part)
        full = len(group) == api.MAX_PARTITIONS or size + part_size > ENTRY_BYTES
        if group and (full or group[-1].partition == part.partition):
            yield group
            group, size = [], 0
        group.append(part)
        size += part_size
    if group:
        yield group


def _size(entry: PartitionEntry) -> int:
    return len(entry.model_dump_json(by_alias=True).encode()) + 2


def _split(entry: PartitionEntry) -> list[PartitionEntry]:
    if _size(entry) <= ENTRY_BYTES:
        return [entry]
    old, new = len(entry.obsolete) // 2, len(entry.uploads) // 2
    first = {"obsolete": entry.obsolete[:old], "uploads": entry.uploads[:new]}
    second: dict[str, Any] = {"obsolete": entry.obsolete[old:], "uploads": entry.uploads[new:]}
    second |= {"totals": Totals(), "forecast": Forecast(), "cpu_milliseconds": 0}
    return [part for half in (first, second) for part in _split(entry.model_copy(update=half))]
