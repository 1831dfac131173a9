"""Forecasts of partitions' compactions, as far as they are known: from files' footers, where a look only lists."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from compaction_operator.api.compaction import CompactionType, Forecast
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.timeline import TimelineMeasure

MOST = 20_000
"""Outlooks that are kept, the newest ones: a partition that a forecast has put behind others must not come back."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a compaction of a partition with such a measure would do, by a forecast made at some time.

    `problem` is why there is none.
    """

    measure: Measure
    made: datetime
    forecast: Forecast | None = None
    problem: str | None = None


Outlooks = Mapping[tuple[str, CompactionType, str], Outlook]
"""By table, type of compaction, and the partition's name."""


def outlook(
    known: Outlooks, table: str, type_: CompactionType, name: str, measure: Measure | TimelineMeasure
) -> Outlook | None:
    """Return what is known of a partition as it is now: one that has changed since then has to be forecast again."""
    found = known.get((table, type_, name))
    return found if found is not None and found.measure == measure else None


def with_new(known: Outlooks, new: Outlooks) -> Outlooks:
    """Return the outlooks with new ones. Of very many, those are left out that were made longest ago."""
    found = {**known, **new}
    if len(found) <= MOST:
        return found
    return dict(sorted(found.items(), key=lambda item: item[1].made)[-MOST:])


def together(found: Iterable[Forecast | None]) -> Forecast | None:
    """Return the sum of forecasts, None if one of them is not known."""
    known = list(found)
    return sum((one for one in known if one), Forecast()) if known and all(known) else None
