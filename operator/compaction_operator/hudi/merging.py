"""Merging: which of two records with one key wins in a table, for the tables whose answer every release agrees on.

The list is what the releases of BUNDLES, and 0.15 for its own tables, read alike before and after a compaction.
Whatever is not on it is refused: a compaction writes down what its own release takes for the newest record.
"""

from compaction_operator.hudi.errors import HudiError
from compaction_operator.hudi.properties import HudiTable, is_1_0

EVENT_TIME = "EVENT_TIME_ORDERING"
COMMIT_TIME = "COMMIT_TIME_ORDERING"

_MODELS = "org.apache.hudi.common.model."
BY_EVENT_TIME = f"{_MODELS}DefaultHoodieRecordPayload"
BY_COMMIT_TIME = f"{_MODELS}OverwriteWithLatestAvroPayload"
PAYLOADS = {EVENT_TIME: BY_EVENT_TIME, COMMIT_TIME: BY_COMMIT_TIME}
"""The payload class of each merge mode. Others merge columns, or read deletes in their own way."""

STRATEGIES = frozenset(
    {
        "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
        "ce9acb64-bde0-424c-9b91-f6ebba25356d",
        "00000000-0000-0000-0000-000000000000",
    }
)
"""The strategies of HoodieRecordMerger: by event time, by commit time, by the payload class."""


def merge_mode_of(table: HudiTable) -> str:
    """Return EVENT_TIME or COMMIT_TIME. Raises HudiError for a table that merges records in any other way."""
    if table.merge_strategy is not None and table.merge_strategy not in STRATEGIES:
        raise HudiError(
            f"{table.location} merges records by a strategy of its own ({table.merge_strategy}), which Hudi would "
            "silently ignore here: compact the table where the strategy's class is available"
        )
    mode = table.merge_mode or _implied_mode(table)
    payloads = {None, PAYLOADS.get(mode)}
    if mode not in PAYLOADS or table.payload_class not in payloads or table.legacy_payload_class not in payloads:
        payload = table.legacy_payload_class or table.payload_class
        raise _refused(table, f"by {mode}" + (f" with {payload}" if payload else ""))
    if table.partial_update_mode not in (None, "NONE") or table.merge_properties:
        what = table.partial_update_mode or ", ".join(table.merge_properties)
        raise _refused(table, f"by {mode} with partial updates or deletes of its own ({what})")
    return mode


def keeps_deletes(table: HudiTable, bundle: str) -> bool:
    """Whether a bundle's log compaction keeps all deletes of a table that `merge_mode_of` admits.

    NB: 1.0 does not write the delete of a key whose later record has a smaller ordering. 1.0's own readers open the
    originals as well and do not show it. Others see the record again, and their full compactions make it permanent.
    """
    return not is_1_0(bundle) or merge_mode_of(table) == COMMIT_TIME


def merges_partial_records(table: HudiTable, bundle: str) -> bool:
    """Whether a bundle's compaction merges records of changed columns only, which Spark's MERGE INTO writes.

    NB: by commit time 1.0 cannot (OverwriteWithLatestSparkRecordMerger). Its compaction fails after it has begun.
    """
    return not is_1_0(bundle) or merge_mode_of(table) != COMMIT_TIME


def _implied_mode(table: HudiTable) -> str:
    """Return the merge mode of a table of version 6, which does not say it itself.

    NB: by default 0.15 merges log records by the ordering field, and then lets them overwrite the base file's record.
    By event time it lets a late record come back after a delete of greater ordering. No later release does either.
    """
    if table.payload_class in (None, BY_COMMIT_TIME) and not table.ordering_fields:
        return COMMIT_TIME
    if not table.is_from_1_0:
        raise HudiError(
            f"{table.location} was made by a release before 1.0, and its ordering field or payload class makes later "
            "releases keep other rows, for good: compact it with that release, or upgrade the table first"
        )
    return next((mode for mode, payload in PAYLOADS.items() if payload == table.payload_class), "its payload class")


def _refused(table: HudiTable, how: str) -> HudiError:
    return HudiError(
        f"{table.location} merges records {how}, and releases of Hudi disagree on the result: the operator compacts "
        f"tables by {EVENT_TIME} ({BY_EVENT_TIME}) and by {COMMIT_TIME} ({BY_COMMIT_TIME}); compact this one with the "
        "release that all its readers use"
    )
