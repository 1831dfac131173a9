"""Answers of the controller's work with metastore and storage: values, or why there is none."""

from dataclasses import dataclass

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.conditions import ConditionStatus
from compaction_operator.api.request import Reason
from compaction_operator.metastore.auto_compaction import AutoCompaction

OVERDUE = "Overdue"
"""Condition of a cleanup that has passed its deadline."""
STILL_NEEDED = "StillNeeded"
"""Why a recorded name stays: it was not obsolete when its readers were counted."""

_OFF = {
    AutoCompaction.OFF_BY_TABLE: ("NoAutoCompactionSet", "NO_AUTO_COMPACTION is set on the table"),
    AutoCompaction.OFF_BY_DATABASE: ("NoAutoCompactionSet", "NO_AUTO_COMPACTION is set on the database"),
    AutoCompaction.INITIATOR_OFF: ("InitiatorOff", "the metastore's Initiator is off (hive.compactor.initiator.on)"),
}
_CLEANER = {
    None: "",
    True: "; its Cleaner is on, and may delete what is obsolete before a CompactionCleanup does, by Hive's rules",
    False: "; its Cleaner is off, and leaves what is obsolete to CompactionCleanups",
}


@dataclass(frozen=True)
class Automatic:
    """Whether Hive compacts a table by itself, and whether its Cleaner runs (None where that is not known).

    `overridden` says that the table has NO_AUTO_COMPACTION, and that its database says otherwise, which counts.
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

    def said(self, table: TableRef) -> tuple[str, str]:
        """Return the condition's reason and message; where Hive may compact the table, with what keeps it from that."""
        if self.found in _OFF:
            reason, why = _OFF[self.found]
            return reason, f"Hive does not compact the table by itself: {why}{_CLEANER[self.cleaner]}"
        statement = f"ALTER TABLE {table} SET TBLPROPERTIES ('NO_AUTO_COMPACTION'='true')"
        if self.overridden:
            statement = f"ALTER DATABASE {table.database.lower()} SET DBPROPERTIES ('NO_AUTO_COMPACTION'='true')"
        known = self.found is AutoCompaction.ON
        reason = "NoAutoCompactionMissing" if known else "InitiatorUnknown"
        may = "Hive's Initiator is on: it may compact" if known else "nobody knows whether Hive compacts"
        return reason, f"{may} {table} at the same time{_CLEANER[self.cleaner]}; to prevent that: {statement}"


@dataclass(frozen=True)
class Trouble:
    """Why something did not work this time."""

    reason: str
    message: str


@dataclass(frozen=True)
class Preflight:
    """What the metastore said of the table: nothing in the way (no reason), refused, or it could not be asked.

    `automatic` says what Hive's own compactor does to the table, None when it was not asked for. `location` is where
    a Hudi table lies.
    """

    reason: Reason | None = None
    message: str = ""
    automatic: Automatic | None = None
    location: str | None = None
