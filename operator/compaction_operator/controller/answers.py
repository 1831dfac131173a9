"""Answers of the controller's metastore and storage calls: a value, or why there is none."""

from dataclasses import dataclass

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.conditions import ConditionStatus
from compaction_operator.api.request import Reason
from compaction_operator.metastore import AutoCompaction

STILL_NEEDED = "StillNeeded"
"""Reason for keeping a recorded name: it was not obsolete when its readers were counted."""

_OFF = {
    AutoCompaction.OFF_BY_TABLE: ("NoAutoCompactionSet", "NO_AUTO_COMPACTION is set on the table"),
    AutoCompaction.OFF_BY_DATABASE: ("NoAutoCompactionSet", "NO_AUTO_COMPACTION is set on the database"),
    AutoCompaction.INITIATOR_OFF: ("InitiatorOff", "the metastore's Initiator is off (hive.compactor.initiator.on)"),
}
_CLEANER = {
    None: "",
    True: "; its Cleaner is on and may delete obsolete directories before a CompactionCleanup does, by Hive's rules",
    False: "; its Cleaner is off and leaves obsolete directories to CompactionCleanups",
}


@dataclass(frozen=True)
class Automatic:
    """Whether Hive compacts a table by itself, and whether Hive's Cleaner runs (None if unknown).

    `overridden` means that the table sets NO_AUTO_COMPACTION, but its database sets the opposite, which takes
    precedence.
    """

    found: AutoCompaction
    cleaner: bool | None = None
    overridden: bool = False

    @property
    def outcome(self) -> ConditionStatus:
        """The condition's status."""
        if self.found is AutoCompaction.UNKNOWN:
            return ConditionStatus.UNKNOWN
        return ConditionStatus.FALSE if self.found.may_happen else ConditionStatus.TRUE

    def explain(self, table: TableRef) -> tuple[str, str]:
        """Return the condition's reason and message, with the statement that prevents Hive from compacting."""
        if self.found in _OFF:
            reason, why = _OFF[self.found]
            return reason, f"Hive does not compact the table by itself: {why}{_CLEANER[self.cleaner]}"
        statement = f"ALTER TABLE {table} SET TBLPROPERTIES ('NO_AUTO_COMPACTION'='true')"
        if self.overridden:
            statement = f"ALTER DATABASE {table.database.lower()} SET DBPROPERTIES ('NO_AUTO_COMPACTION'='true')"
        known = self.found is AutoCompaction.ON
        reason = "NoAutoCompactionMissing" if known else "InitiatorUnknown"
        may = "Hive's Initiator is on and may compact" if known else "it is unknown whether Hive compacts"
        return reason, f"{may} {table} concurrently{_CLEANER[self.cleaner]}; to prevent that: {statement}"


@dataclass(frozen=True)
class Trouble:
    """Why an operation did not succeed this time."""

    reason: str
    message: str


@dataclass(frozen=True)
class Preflight:
    """The metastore's verdict on the table: no obstacle (no reason), a refusal, or a failed query.

    `automatic` is what Hive's own compactor does to the table, None if that was not queried. `location` is where a Hudi
    table lies.
    """

    reason: Reason | None = None
    message: str = ""
    automatic: Automatic | None = None
    location: str | None = None
