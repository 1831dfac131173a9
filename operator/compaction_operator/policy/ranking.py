"""Ranking: what readers gain for what a compaction costs.

    benefit = files saved + MiB of delete events
    cost    = 1 + bytes / 256 MiB
    score   = benefit / cost * (1 + hours due)

A file that need not be opened and a MiB of delete events that need not be merged count the same: each is about one
request of a reader. The cost begins at 1 for the start of a Job. What readers open in vain grows with the time for
which they do it, so benefit and time are multiplied: as much is to be expected until the next compaction. Without the
time, large tables would wait too long (`make bench-policy` has figures).
"""

from datetime import datetime, timedelta

from compaction_operator.policy.candidates import Candidate

DELETE_UNIT = 1024**2
COST_UNIT = 256 * 1024**2
HOUR = timedelta(hours=1)
PRESSING = 0.75
"""Share of `max_delay` after which a table goes before all others, if the budget suffices for all such tables."""


def score(candidate: Candidate, *, waited: timedelta) -> float:
    """Return the score of a candidate that has been due for some time."""
    benefit = candidate.files_saved + candidate.delete_bytes / DELETE_UNIT
    cost = 1.0 + candidate.bytes / COST_UNIT
    return benefit / cost * (1.0 + waited / HOUR)


def overdue(due_since: datetime, *, max_delay: timedelta, now: datetime) -> bool:
    """Whether a table has waited so long that it may exceed the budget."""
    return now - due_since >= max_delay
