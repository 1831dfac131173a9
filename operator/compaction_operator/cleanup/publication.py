"""Publication: whether a partition's outputs are published, computed from transactions and a listing (H10)."""

from collections.abc import Collection, Iterable
from enum import StrEnum

from compaction_operator.acid.names import parse_directory
from compaction_operator.acid.write_ids import ValidTxnList
from compaction_operator.api.cleanup import PartitionEntry, PublishedState
from compaction_operator.errors import OperatorError
from compaction_operator.metastore import QueueEntry


class UndecidedError(OperatorError):
    """It is not known yet whether something is published: nothing is decided until a retry finds out."""


class Fate(StrEnum):
    """Outcome of an entry's transaction. DOUBTFUL counts as not published, being unknown, and nothing is removed."""

    NONE_NEEDED = "none needed"
    COMMITTED = "committed"
    ABORTED = "aborted"
    DOUBTFUL = "doubtful"


def fate(entry: PartitionEntry, txns: ValidTxnList, queue: Iterable[QueueEntry]) -> Fate:
    """Return the outcome of an entry's transaction; without one (Hive 3) the listing alone decides.

    `txns` were queried after the attempt's own transactions were ended. `queue` are the attempt's own entries, whose
    `committed` is the metastore's positive confirmation. Raises UndecidedError for a transaction that is still open
    (then it is not the attempt's), or was never allocated.

    NB: where the queue no longer has the entry (its history is purged), the metastore's list decides. The list names
    only the aborted transactions that it remembers, and reports any other as committed. It forgets a transaction
    without a row in TXN_COMPONENTS (CompactionTxnHandler.cleanEmptyAbortedAndCommittedTxns). `update_compactor_state`,
    which runs before a driver writes, adds such a row, with the highest write id that was read. Only `mark_cleaned` of
    the same table and partition up to that write id removes the row of an aborted transaction. Hive's Cleaner calls it
    after removing the `_v` directories of aborted transactions, and this project after verifying that there are none
    (`queue_entries`). So a forgotten transaction has no outputs left that could be mistaken for published ones.
    """
    if entry.txn_id is None:
        return Fate.NONE_NEEDED
    if entry.txn_id in txns.aborted:
        return Fate.ABORTED
    if not txns.is_valid(entry.txn_id):
        where = f"partition {entry.partition}: " if entry.partition else ""
        raise UndecidedError(f"{where}transaction {entry.txn_id} is neither committed nor aborted")
    known = [one.committed for one in queue if one.txn == entry.txn_id]
    return Fate.DOUBTFUL if known and None in known else Fate.COMMITTED


def published_state(entry: PartitionEntry, names: Collection[str]) -> PublishedState:
    """Return an entry's state from the names in its directory after the fence and the transaction's end.

    Outputs that bear another transaction than the entry's are never its own. Raises UndecidedError, naming both halves,
    if only some of its outputs are there.
    """
    if not entry.outputs:
        return PublishedState.NOTHING_TO_PUBLISH
    missing = [output for output in entry.outputs if output not in names or not bears_transaction(output, entry)]
    if not missing:
        return PublishedState.PUBLISHED
    if len(missing) == len(entry.outputs):
        return PublishedState.NOT_PUBLISHED
    there = [output for output in entry.outputs if output not in missing]
    raise UndecidedError(f"{entry.location}: {', '.join(there)} is published, {', '.join(missing)} is not")


def bears_transaction(output: str, entry: PartitionEntry) -> bool:
    """Whether an output's name has the entry's transaction (`_v<id>`), or, like the entry, none."""
    parsed = parse_directory(output)
    return parsed is not None and parsed.visibility_txn == entry.txn_id
