"""The next step for an entry of the compaction queue that the controller took. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from compaction_operator.api.conditions import SUCCEEDED, ConditionStatus, find_condition
from compaction_operator.api.request import FINAL_REASONS
from compaction_operator.controller.kube.resources import Compaction
from compaction_operator.metastore import QueueEntry


class QueueAction(StrEnum):
    """What to do with an entry."""

    NONE = "none"
    CREATE = "create its TableCompaction"
    NAME = "record its TableCompaction in it"
    REFUSE = "mark it as refused"
    FAIL = "mark it as failed"


@dataclass(frozen=True)
class QueueDecision:
    """An action, and the entry's error message if the action ends it."""

    action: QueueAction
    message: str = ""


def decide(entry: QueueEntry, compaction: Compaction | None, *, name: str) -> QueueDecision:
    """Return the next step for an entry that is worked on in the controller's name.

    `name` is that of its TableCompaction, and `compaction` the one of that name, None if there certainly is none. The
    entry names it once it was created: if it is gone then, a person has deleted it.
    """
    if entry.type is None:
        supported = "the compaction operator compacts MINOR and MAJOR; use a pool of Hive's own Workers"
        return QueueDecision(QueueAction.REFUSE, f"{entry.type_name} is not supported: {supported}")
    if compaction is None:
        if entry.job != name:
            return QueueDecision(QueueAction.CREATE)
        return QueueDecision(QueueAction.FAIL, f"TableCompaction {name} was deleted")
    if compaction.spec.queue_id != entry.queue_id:
        return QueueDecision(QueueAction.FAIL, f"TableCompaction {name} is not that of entry {entry.queue_id}")
    if compaction.ended:
        return _end(compaction)
    return QueueDecision(QueueAction.NONE if entry.job == name else QueueAction.NAME)


def _end(compaction: Compaction) -> QueueDecision:
    """Return how an entry ends that the compaction's driver did not end.

    As with Hive's Worker, an entry is refused if there was nothing to compact or the table cannot be compacted. Only
    failures count for hive.compactor.initiator.failed.compacts.threshold, after which Hive's Initiator stops.
    """
    condition = find_condition(compaction.status.conditions, SUCCEEDED)
    if condition is None:
        return QueueDecision(QueueAction.FAIL, "its TableCompaction has ended without a result")
    if condition.status is ConditionStatus.TRUE:
        return QueueDecision(QueueAction.REFUSE, condition.message)
    action = QueueAction.REFUSE if condition.reason in FINAL_REASONS else QueueAction.FAIL
    return QueueDecision(action, f"{condition.reason}: {condition.message}")
