"""Ranking: what readers gain for what a compaction costs.

    benefit = files saved + max(MiB of delete events, rows removed / 2^20)
    cost    = (1 + bytes / 4 MiB) * 2 ^ failures, or (1 + CPU time / 200 ms) * 2 ^ failures
    urgency = 1 + 3 s u / (1 - u)
    score   = weight * benefit * hours * urgency / cost

A file that need not be opened and a MiB of delete events that need not be merged count the same: each is about one
request of a reader. The rows removed count where a forecast knows them. The cost begins at 1 for the start of a Job,
and doubles with each failure in a row: what has failed will probably fail again. It counts the CPU time, and not the
bytes, if the policy limits it.

`hours` are those since the last compaction of the type, and those to come: three, and three for each hour without a
write. What readers have opened in vain grows with the benefit and with the time for which they pay it. To compact when
that has grown to a price, the same for all tables, is the best that a budget allows if writes come evenly (the rule of
the economic order quantity). Where writes have stopped, readers will gain for longer than until the next one. The
budget makes the price: the highest score starts first.

What is due has to start within `max_delay` whatever its score. The urgency spreads these starts: they would else come
together at the end. `u` is the share of `max_delay` for which a partition has been due, at most 0.9, and `s` is 1 up to
a 48th of the budget and falls with the size of larger ones: these keep all others waiting, so few should go early.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from compaction_operator.policy.candidates import PRESSING, Candidate
from compaction_operator.policy.thresholds import ThresholdError

WEIGHT = "compaction.dev/policy.weight"
"""Table property: how often the table is read, compared with others. Without it, 1."""
LIGHTEST, HEAVIEST = 0.01, 1000.0
"""NB: owners of tables set weights. Without a limit one of them could put all other tables of the policy last."""


@dataclass(frozen=True, slots=True)
class Score:
    """A score with its terms; `hours` is the mean of the partitions by their benefit, `urgency` by both."""

    weight: float
    benefit: float
    hours: float
    urgency: float
    cost: float

    @property
    def value(self) -> float:
        """The score."""
        return self.weight * self.benefit * self.hours * self.urgency / self.cost

    def __str__(self) -> str:
        gain = f"{self.weight:.4g} weight * {self.benefit:.4g} benefit * {self.hours:.4g} hours"
        return f"{gain} * {self.urgency:.4g} urgency / {self.cost:.4g} cost"


def score(candidate: Candidate) -> Score:
    """Return the score of a candidate."""
    benefit = sum(part.benefit for part in candidate.parts)
    opened = sum(part.benefit * part.hours for part in candidate.parts)
    urgent = sum(part.benefit * part.hours * part.urgency for part in candidate.parts)
    hours, urgency = (opened / benefit, urgent / opened) if benefit else (0.0, 1.0)
    return Score(candidate.weight, benefit, hours, urgency, candidate.cost)


def pressing(due_since: datetime, *, max_delay: timedelta, now: datetime) -> bool:
    """Whether a table is so near to being overdue that it goes before those with a higher score."""
    return now - due_since >= PRESSING * max_delay


def weight_of(parameters: Mapping[str, str]) -> float:
    """Return the weight that a table's owner has set, 1 without one. Raises ThresholdError."""
    text = parameters.get(WEIGHT, "1")
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not LIGHTEST <= weight <= HEAVIEST:
        raise ThresholdError(f"table property {WEIGHT} is {text!r}; write a number from {LIGHTEST:g} to {HEAVIEST:g}")
    return weight
