"""History: which ended compactions of a policy are no longer kept."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from compaction_operator.api.policy import CompactionPolicySpec
from compaction_operator.policy.choice import Outcome, Past


def expired(
    past: Iterable[Past],
    spec: CompactionPolicySpec,
    *,
    fruitless: Collection[str],
    budget_since: datetime,
    now: datetime,
) -> list[Past]:
    """Return the compactions to delete: those beyond the limits, the newest being kept.

    NB: decisions read the history. What ended within `min_interval` stays, and so does what counts for the budget. The
    last one of a table and type stays if it failed: it says when the next one may start. `fruitless` are the names of
    those that keep a partition back which they could not merge; they stay.
    """
    since = now - timedelta(seconds=spec.min_interval)
    newest = sorted(past, key=lambda one: (one.ended, one.name), reverse=True)
    failed = [one for one in newest if one.outcome is Outcome.FAILED]
    others = [one for one in newest if one.outcome is not Outcome.FAILED]
    last = {(one.table, one.type): one for one in reversed(newest)}
    needed = {*fruitless, *(one.name for one in last.values() if one.outcome is Outcome.FAILED)}
    beyond = [*others[spec.history.succeeded :], *failed[spec.history.failed :]]
    old = (one for one in beyond if one.ended < since and one.name not in needed)
    return [one for one in old if not _counts(one, spec, budget_since)]


def _counts(one: Past, spec: CompactionPolicySpec, budget_since: datetime) -> bool:
    has_budget = spec.bytes_per_window is not None or spec.core_hours_per_window is not None
    return has_budget and one.started >= budget_since
