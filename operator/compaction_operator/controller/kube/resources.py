"""The watched objects as values: identity and resource version, with the parsed spec and status."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from compaction_operator import logs
from compaction_operator.api.cleanup import CompactionCleanupSpec, CompactionCleanupStatus
from compaction_operator.api.compaction import (
    ANNOTATION_OPERATOR,
    Format,
    TableCompactionSpec,
    TableCompactionStatus,
)
from compaction_operator.api.policy import CompactionPolicySpec, CompactionPolicyStatus
from compaction_operator.api.request import Reason
from compaction_operator.controller.kube.times import parse_time
from compaction_operator.storage import StorageError, place_of


class ResourceKind(StrEnum):
    """The watched kinds."""

    COMPACTION = "TableCompaction"
    CLEANUP = "CompactionCleanup"
    POLICY = "CompactionPolicy"
    JOB = "Job"
    POD = "Pod"


@dataclass(frozen=True, slots=True)
class Key:
    """The identity of an object in the cluster."""

    kind: ResourceKind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class TableKey:
    """A table of a warehouse in lower case, or a Hudi table by its location: the unit of locks and attempts."""

    warehouse: str
    database: str
    table: str

    @classmethod
    def of(cls, warehouse: str, database: str, table: str) -> "TableKey":
        """Return the key of a table whose names may be in any case."""
        return cls(warehouse, database.lower(), table.lower())

    @classmethod
    def of_location(cls, location: str) -> "TableKey":
        """Return the key of a table by its location in any spelling. All warehouses share one key for each place."""
        try:
            return cls("", "", place_of(location))
        except StorageError:
            return cls("", "", location)

    def __str__(self) -> str:
        return f"{self.database}.{self.table} of warehouse {self.warehouse}" if self.warehouse else self.table


@dataclass(frozen=True, slots=True)
class Meta:
    """The metadata that decisions need."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int
    created: datetime


SpecT = TypeVar("SpecT", TableCompactionSpec, CompactionCleanupSpec, CompactionPolicySpec)
StatusT = TypeVar("StatusT", TableCompactionStatus, CompactionCleanupStatus, CompactionPolicyStatus)
TableSpecT = TypeVar("TableSpecT", TableCompactionSpec, CompactionCleanupSpec)
TableStatusT = TypeVar("TableStatusT", TableCompactionStatus, CompactionCleanupStatus)


@dataclass(frozen=True)
class Resource(Generic[SpecT, StatusT]):
    """One of our resources; `raw` is the original object, kept for writing its status back."""

    kind: ClassVar[ResourceKind]
    meta: Meta
    spec: SpecT
    status: StatusT
    raw: Mapping[str, Any]

    @property
    def key(self) -> Key:
        """The object's key in the cluster."""
        return Key(self.kind, self.meta.namespace, self.meta.name)

    @property
    def operator(self) -> str | None:
        """The namespace of the operator that handles it, the first that wrote to it, if the resource says so."""
        return self.status.operator

    @property
    def subject(self) -> logs.Subject:
        """What log lines about it are about."""
        return self._subject()

    def _subject(self, table: object = "", attempt: int = 0) -> logs.Subject:
        resource = f"{self.kind}/{self.meta.name}"
        return logs.subject(
            warehouse=self.spec.warehouse,
            namespace=self.meta.namespace,
            resource=resource,
            table=table,
            attempt=attempt,
        )


class TableResource(Resource[TableSpecT, TableStatusT]):
    """One that is about a table, and ends."""

    @property
    def table(self) -> TableKey:
        """The table that it is about."""
        return TableKey.of(self.spec.warehouse, self.spec.table.database, self.spec.table.name)

    @property
    def ended(self) -> bool:
        """Whether its Succeeded condition is final."""
        return self.status.completion_time is not None


class Compaction(TableResource[TableCompactionSpec, TableCompactionStatus]):
    """A TableCompaction."""

    kind = ResourceKind.COMPACTION

    @property
    def table(self) -> TableKey:
        """The table that it is about, by location once that is known: a Hudi table may have several names."""
        location = self.status.location or self.spec.table.location
        return super().table if location is None else TableKey.of_location(location)

    @property
    def subject(self) -> logs.Subject:
        """What log lines about it are about: also its attempt, once there is one."""
        return self._subject(self.spec.table, self.status.attempt)

    @property
    def created_by(self) -> str | None:
        """The namespace of the operator that created it, for a policy or a pool, as the annotation says.

        None after an attempt. NB: users can write annotations, and one must take no attempt from its operator.
        """
        if self.status.attempt:
            return None
        return (self.raw["metadata"].get("annotations") or {}).get(ANNOTATION_OPERATOR) or None

    @property
    def is_hudi(self) -> bool:
        """Whether it is about a Hudi table, whose own timeline records the result of an attempt."""
        return self.spec.type.table_format is Format.HUDI

    @property
    def attempt_running(self) -> bool:
        """Whether a recorded attempt has not been judged yet (its Job may not exist yet)."""
        return self.status.attempt > 0 and not self.ended and self.status.next_attempt_time is None

    @cached_property
    def next_attempt(self) -> datetime | None:
        """The time before which no attempt starts. A text that cannot be read is a time that has passed.

        NB: the API server's dates include some that Python cannot read, such as leap seconds.
        """
        try:
            return None if self.status.next_attempt_time is None else parse_time(self.status.next_attempt_time)
        except ValueError:
            return datetime.min.replace(tzinfo=UTC)

    @property
    def since(self) -> datetime:
        """Since when it could start: it was created then, or its pause was over."""
        return max(self.meta.created, self.next_attempt or self.meta.created)

    @property
    def preflight_failed(self) -> bool:
        """Whether its last preflight had no answer, from the metastore or the storage."""
        held = self.status.back_off
        answers = (Reason.IN_COMPACTION_QUEUE, Reason.WAITING_FOR_LOCK)
        return held is not None and held.waits > 0 and held.reason not in answers

    @property
    def may_hold_table(self) -> bool:
        """Whether other compactions of its table may wait for it: its attempt runs, or it will start by itself.

        One that backs off does not hold the table, but does so again once its pause is over.
        """
        return self.attempt_running or not (self.ended or self.spec.suspend)

    @property
    def kept_out(self) -> bool:
        """Whether an attempt was made, and entries in the metastore's compaction queue have blocked it since then."""
        held = self.status.back_off
        blocked = held is not None and (held.kept_out or held.reason == Reason.IN_COMPACTION_QUEUE)
        return self.status.attempt > 0 and blocked


class Cleanup(TableResource[CompactionCleanupSpec, CompactionCleanupStatus]):
    """A CompactionCleanup."""

    kind = ResourceKind.CLEANUP

    @property
    def subject(self) -> logs.Subject:
        """What log lines about it are about: also the attempt that it is the journal of."""
        return self._subject(self.spec.table.ref(), self.spec.compaction.attempt)

    @property
    def operator(self) -> str | None:
        """The operator that handles it: also before that operator's first look, whose driver wrote it."""
        return self.spec.operator if self.status.operator is None else self.status.operator

    @property
    def settled(self) -> bool:
        """Whether the published state has been computed, and the reader baseline stored with it."""
        return self.status.baseline is not None

    def is_of_attempt(self, other: "Cleanup") -> bool:
        """Whether another cleanup is a journal of the same attempt."""
        own, its = self.spec.compaction, other.spec.compaction
        return (self.meta.namespace, own.uid, own.attempt) == (other.meta.namespace, its.uid, its.attempt)


class Policy(Resource[CompactionPolicySpec, CompactionPolicyStatus]):
    """A CompactionPolicy."""

    kind = ResourceKind.POLICY


ResourceT = TypeVar("ResourceT", Compaction, Cleanup)


def read_meta(raw: Mapping[str, Any]) -> Meta:
    """Return the metadata of an object in its API form."""
    metadata = raw["metadata"]
    return Meta(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        generation=metadata.get("generation", 1),
        created=parse_time(metadata["creationTimestamp"]),
    )


def read_compaction(raw: Mapping[str, Any]) -> Compaction:
    """Parse a TableCompaction. Raises pydantic's ValidationError (a ValueError) if it is invalid."""
    lean = _lean(raw)
    spec = TableCompactionSpec.model_validate(lean["spec"])
    status = TableCompactionStatus.model_validate(lean.get("status") or {})
    return Compaction(read_meta(lean), spec, status, lean)


def read_cleanup(raw: Mapping[str, Any]) -> Cleanup:
    """Parse a CompactionCleanup. Raises pydantic's ValidationError (a ValueError) if it is invalid."""
    lean = _lean(raw)
    spec = CompactionCleanupSpec.model_validate(lean["spec"])
    status = CompactionCleanupStatus.model_validate(lean.get("status") or {})
    return Cleanup(read_meta(lean), spec, status, lean)


def read_policy(raw: Mapping[str, Any]) -> Policy:
    """Parse a CompactionPolicy. Raises pydantic's ValidationError (a ValueError) if it is invalid."""
    lean = _lean(raw)
    spec = CompactionPolicySpec.model_validate(lean["spec"])
    status = CompactionPolicyStatus.model_validate(lean.get("status") or {})
    return Policy(read_meta(lean), spec, status, lean)


def _lean(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object without its field managers, with its texts shared: thousands of them have the same ones.

    A write of its status need not send what only the server keeps.
    """
    metadata = {name: value for name, value in raw["metadata"].items() if name != "managedFields"}
    lean: Mapping[str, Any] = _shared({**raw, "metadata": metadata})
    return lean


def _shared(value: Any) -> Any:
    # NB: Python 3.11 frees interned texts that are not used any more; the first releases of 3.12 never did.
    if isinstance(value, dict):
        return {sys.intern(name): _shared(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_shared(part) for part in value]
    return sys.intern(value) if type(value) is str else value
