"""The answer to "why was this table picked, or not?", as the controller gives it and the command line reads it."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import PlainSerializer

from compaction_operator.api.compaction import CompactionType, Forecast, Phase
from compaction_operator.api.conditions import ConditionStatus
from compaction_operator.api.model import ReadModel

PATH = "/why"
"""Where the controller answers, beside its metrics."""


def _plain(number: float) -> str:
    return f"{int(number)}" if number == int(number) else f"{number:.1f}"


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Moment = Annotated[datetime, PlainSerializer(_text, return_type=str, when_used="json")]
"""A time; in JSON it is RFC 3339 in UTC, without the fraction of its second."""


class Verdict(StrEnum):
    """What a policy's last look decided about a table."""

    PICKED = "Picked"
    KEPT_BACK = "KeptBack"
    NOT_DUE = "NotDue"
    LEFT_ALONE = "LeftAlone"
    NOT_SELECTED = "NotSelected"
    NOT_FOUND = "NotFound"
    NOT_LOOKED = "NotLooked"


class Terms(ReadModel):
    """The terms of a score: weight * benefit * hours * urgency / cost.

    Benefit and cost follow from the numbers before them.
    """

    files_saved: int
    delete_bytes: int
    bytes: int
    benefit: float
    cost: float
    hours: float
    urgency: float = 1.0
    weight: float


class DueCompaction(ReadModel):
    """A compaction that would help the table.

    - `due` is whether a partition exceeds a threshold; a policy by gain also starts others.
    - `place` is its place among all that would help, from 1.
    - `partitions` would gain, `partitions_due` of them exceed a threshold, and `partitions_taken` of them start, or
      would: the budget may limit them.
    - `kept_back_by` is None if it was to start. `may_start` is when that no longer keeps it back, if that is known.
    - `forecast` is what the partitions' compaction will do, if it is known, and `forecast_problem` why it is not.
    - From `first_at` on it goes before all others, and from `overdue_at` on whatever the budget.
    """

    type: CompactionType
    due: bool = True
    kept_back_by: str | None = None
    may_start: Moment | None = None
    place: int
    score: float
    terms: Terms
    forecast: Forecast | None = None
    forecast_problem: str | None = None
    due_since: Moment
    first_at: Moment
    overdue_at: Moment
    partitions: int
    partitions_due: int
    partitions_taken: int


class Number(ReadModel):
    """A threshold of the policy, and what a partition has of it. Times are in seconds.

    `value` is None where the threshold does not apply. `from_table` says that a table property sets the limit.
    """

    threshold: str
    value: int | float | None = None
    limit: int | float
    exceeded: bool
    from_table: bool = False

    @property
    def text(self) -> str:
        """Such as `deltas 4 of 10`."""
        value = "none" if self.value is None else _plain(self.value)
        return f"{self.threshold} {value} of {_plain(self.limit)}"


class PartitionNumbers(ReadModel):
    """One partition ('' for an unpartitioned table) with something to merge.

    `due` is the compaction that it needs, and `unselected_by` the filter or age that keeps the policy away from it.
    """

    partition: str
    due: CompactionType | None = None
    reason: str | None = None
    unselected_by: str | None = None
    numbers: tuple[Number, ...]


class PartitionsSeen(ReadModel):
    """A table's partitions at the last look.

    - `mergeable` counts those with deltas or aborted writes, `selected` those of them that the policy is about.
    - `left_alone` counts those that could not be decided on; `left_alone_example` says why for one.
    - `nearest` are the due ones first, then those nearest to a threshold.
    """

    mergeable: int
    selected: int
    due: int
    left_alone: int = 0
    left_alone_example: str | None = None
    nearest: tuple[PartitionNumbers, ...] = ()


class Unfinished(ReadModel):
    """A TableCompaction of the table that has not ended. `policy` created it, if one did."""

    namespace: str
    name: str
    phase: Phase
    policy: str | None = None


class PolicyReady(ReadModel):
    """The policy's condition Ready at this moment."""

    status: ConditionStatus
    reason: str
    message: str


class Subject(ReadModel):
    """A table in lower case, and a policy that might pick it."""

    namespace: str
    policy: str
    warehouse: str
    table: str


class Explanation(Subject):
    """Why a policy's last look did or did not pick a table.

    `read_at` is when the table was listed last. Times that are not known are absent.
    """

    looked_at: Moment | None = None
    next_look_at: Moment | None = None
    verdict: Verdict
    reason: str
    message: str
    may_start: Moment | None = None
    unfinished: tuple[Unfinished, ...] = ()
    due: tuple[DueCompaction, ...] = ()
    partitions: PartitionsSeen | None = None
    read_at: Moment | None = None
    policy_ready: PolicyReady | None = None
