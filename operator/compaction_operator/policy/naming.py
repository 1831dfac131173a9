"""Names of the compactions that a policy creates."""

import hashlib
import re

from compaction_operator.api.compaction import CompactionType

_LONGEST = 52
"""Characters of a name: names of attempts, Jobs and pods are made from it."""
_HASH = 8


def compaction_name(*, policy_uid: str, table: str, type_: CompactionType, previous: str | None) -> str:
    """Return the name of a table's next compaction, such as `sales-orders-minor-1f3a9c2e`.

    It follows from the policy, the table, the type and the name of the table's previous compaction that is still kept.
    So a controller that was killed after it created one, and has not seen it yet, makes the same name again.
    """
    digest = hashlib.sha256("\n".join((policy_uid, table, type_, previous or "")).encode()).hexdigest()[:_HASH]
    ending = f"-{type_.lower()}-{digest}"
    plain = re.sub(r"[^a-z0-9]+", "-", table.lower()).strip("-") or "table"
    return plain[: _LONGEST - len(ending)].rstrip("-") + ending
