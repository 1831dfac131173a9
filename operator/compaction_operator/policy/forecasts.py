"""Forecasts of partitions' compactions, as far as they are known: from files' footers, where a look only lists."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from compaction_operator.api.compaction import CompactionType, Forecast
from compaction_operator.policy.measure import Measure


@dataclass(frozen=True, slots=True)
class PartitionOutlook:
    """What a compaction of a partition with such a measure would do, by a forecast made at some time.

    `problem` is why there is no forecast. Without both, the compaction would write nothing.
    """

    measure: Measure
    made: datetime
    forecast: Forecast | None = None
    problem: str | None = None


Outlooks = Mapping[tuple[CompactionType, str], PartitionOutlook]
"""Those of one table, by the type of compaction and the partition's name."""


def outlook(known: Outlooks, type_: CompactionType, name: str, measure: object) -> PartitionOutlook | None:
    """Return what is known of a partition as it is now: one that has changed since then has to be forecast again."""
    found = known.get((type_, name))
    return found if found is not None and found.measure == measure else None


def together(found: Iterable[Forecast | None]) -> Forecast | None:
    """Return the sum of forecasts, None if one of them is not known."""
    known = list(found)
    return sum((one for one in known if one), Forecast()) if known and all(known) else None
