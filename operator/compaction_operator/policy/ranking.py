"""Ranking: what readers gain for what a compaction costs.

    benefit = files saved + MiB of delete events
    cost    = 1 + bytes / 256 MiB
    score   = benefit / cost * (1 + time due / maxDelay)

A file that need not be opened and a MiB of delete events that need not be merged count the same: each is about one
request of a reader. The cost begins at 1 for the start of a Job. The last factor lets what waits overtake what is new.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from compaction_operator.policy.candidates import Candidate

DELETE_UNIT = 1024**2
COST_UNIT = 256 * 1024**2


@dataclass(frozen=True, slots=True)
class Score:
    """A score with its terms; `wait` is the last factor."""

    benefit: float
    cost: float
    wait: float

    @property
    def value(self) -> float:
        """The score."""
        return self.benefit / self.cost * self.wait


def score(candidate: Candidate, *, waited: timedelta, max_delay: timedelta) -> Score:
    """Return the score of a candidate that has been due for some time."""
    return Score(
        benefit=candidate.files_saved + candidate.delete_bytes / DELETE_UNIT,
        cost=1.0 + candidate.bytes / COST_UNIT,
        wait=1.0 + waited / max_delay,
    )


def overdue(due_since: datetime, *, max_delay: timedelta, now: datetime) -> bool:
    """Whether a table has waited so long that it goes first."""
    return now - due_since >= max_delay
