"""What the pages show: the controller's resources and what its policies remember, at one moment."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from compaction_operator.api.why import Explanation
from compaction_operator.controller.kube.resources import Cleanup, Compaction, Policy, ResourceT, TableKey
from compaction_operator.controller.policies.standing import table_of
from compaction_operator.policy.memory import Memory


@dataclass(frozen=True)
class Looked:
    """A policy, and what its looks remember of its tables."""

    policy: Policy
    memory: Memory


@dataclass(frozen=True)
class Seen:
    """What a leader knows. `place` maps the names of one table to one key.

    `explain` says for a table (`database.table`) of a warehouse what each policy decided about it. It may be called in
    any thread.
    """

    now: datetime
    compactions: Sequence[Compaction]
    cleanups: Sequence[Cleanup]
    policies: Sequence[Looked]
    place: Callable[[TableKey], TableKey]
    explain: Callable[[str, str], Sequence[Explanation]]

    def of_table(self, found: Sequence[ResourceT], warehouse: str, table: str) -> list[ResourceT]:
        """Return those of some resources that are about a table, the newest first."""
        metastore = self.metastore(warehouse)
        same = (one for one in found if table_of(one) == table and self.metastore(one.spec.warehouse) == metastore)
        return sorted(same, key=lambda one: (one.meta.created, one.meta.name), reverse=True)

    def metastore(self, warehouse: str) -> str:
        """Return the warehouse that stands for the metastore of one."""
        return self.place(TableKey(warehouse, "", "")).warehouse


@dataclass(frozen=True)
class Unseen:
    """A controller that knows nothing: it stands by for `leader`, a pod, or reads the resources as the leader itself.

    `leader` is '' if it is not known.
    """

    standby: bool
    leader: str = ""
