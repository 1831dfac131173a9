"""Which record wins: tables on which all releases agree are compacted, others are refused by name."""

from dataclasses import replace

import pytest

from compaction_operator.hudi import HudiError, HudiTable, keeps_deletes
from compaction_operator.hudi.merging import BY_COMMIT_TIME, BY_EVENT_TIME, COMMIT_TIME, EVENT_TIME, merge_mode_of
from compaction_operator.hudi.properties import parse_properties, table_of

MODELS = "org.apache.hudi.common.model."
EVENTS = HudiTable(
    location="/lake/orders",
    name="orders",
    table_version=8,
    is_merge_on_read=True,
    ordering_fields=("ts",),
    merge_mode=EVENT_TIME,
    payload_class=BY_EVENT_TIME,
)
COMMITS = replace(EVENTS, merge_mode=COMMIT_TIME, payload_class=BY_COMMIT_TIME)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_tables_by_event_time_and_by_commit_time_are_compacted(version: int) -> None:
    for table, mode in ((EVENTS, EVENT_TIME), (COMMITS, COMMIT_TIME)):
        assert merge_mode_of(replace(table, table_version=version)) == mode
        assert merge_mode_of(replace(table, table_version=version, payload_class=None)) == mode


@pytest.mark.parametrize(
    "payload",
    [
        f"{MODELS}OverwriteNonDefaultsWithLatestAvroPayload",
        f"{MODELS}PartialUpdateAvroPayload",
        f"{MODELS}EventTimeAvroPayload",
        f"{MODELS}AWSDmsAvroPayload",
        "com.acme.Payload",
    ],
)
def test_other_payloads_are_refused_by_name(payload: str) -> None:
    """A log compaction by 1.0.2 of the first one lost columns, for good."""
    for table in (EVENTS, COMMITS):
        with pytest.raises(HudiError, match=payload):
            merge_mode_of(replace(table, payload_class=payload))
        with pytest.raises(HudiError, match=payload):
            merge_mode_of(replace(table, table_version=9, legacy_payload_class=payload))


def test_a_payload_that_contradicts_the_merge_mode_is_refused() -> None:
    with pytest.raises(HudiError, match=f"by {COMMIT_TIME} with {BY_EVENT_TIME}"):
        merge_mode_of(replace(EVENTS, merge_mode=COMMIT_TIME))


def test_what_version_9_makes_of_other_payloads_is_refused() -> None:
    with pytest.raises(HudiError, match="IGNORE_DEFAULTS"):
        merge_mode_of(replace(COMMITS, partial_update_mode="IGNORE_DEFAULTS"))
    with pytest.raises(HudiError, match=r"hoodie\.record\.merge\.property\.hoodie\.payload\.delete\.field"):
        merge_mode_of(replace(EVENTS, merge_properties=("hoodie.record.merge.property.hoodie.payload.delete.field",)))
    assert merge_mode_of(replace(COMMITS, partial_update_mode="NONE")) == COMMIT_TIME


def test_a_merger_of_the_tables_own_is_refused() -> None:
    with pytest.raises(HudiError, match="CUSTOM"):
        merge_mode_of(replace(EVENTS, merge_mode="CUSTOM"))
    with pytest.raises(HudiError, match="strategy of its own"):
        merge_mode_of(replace(EVENTS, merge_strategy="1897ef5f-18bc-4557-939c-9d6a8afd1519"))
    assert merge_mode_of(replace(EVENTS, merge_strategy="eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"))


def made_by_0_15(payload: str, *, ordering: str = "") -> HudiTable:
    """Return a table with the properties that real 0.15.0 writes."""
    text = f"""#Updated at 2026-11-24T14:03:57.919Z
hoodie.table.type=MERGE_ON_READ
hoodie.compaction.payload.class={MODELS}{payload}
{ordering}
hoodie.timeline.layout.version=1
hoodie.compaction.record.merger.strategy=eeb8d96f-b1e4-49fd-bbf8-28ac514178e5
hoodie.table.version=6
hoodie.table.name=small
"""
    return table_of("/lake/orders", parse_properties(text))


@pytest.mark.parametrize(
    ("payload", "ordering"),
    [
        ("OverwriteWithLatestAvroPayload", "hoodie.table.precombine.field=ts"),
        ("DefaultHoodieRecordPayload", "hoodie.table.precombine.field=ts"),
        ("PartialUpdateAvroPayload", ""),
    ],
)
def test_a_table_of_0_15_with_an_ordering_is_refused(payload: str, ordering: str) -> None:
    """By default 0.15 reads ordering 30 where 1.0 reads a late 20; by event time it shows what came after a delete."""
    with pytest.raises(HudiError, match=r"release before 1\.0"):
        merge_mode_of(made_by_0_15(payload, ordering=ordering))


def test_tables_of_version_6_that_1_0_made_are_merged_by_their_payload_class() -> None:
    """1.0 writes no merge mode into them, but the strategy under its new name."""
    text = """hoodie.table.type=MERGE_ON_READ
hoodie.compaction.payload.class=org.apache.hudi.common.model.DefaultHoodieRecordPayload
hoodie.table.precombine.field=ts
hoodie.record.merge.strategy.id=eeb8d96f-b1e4-49fd-bbf8-28ac514178e5
hoodie.table.version=6
hoodie.table.name=small
"""
    events = table_of("/lake/orders", parse_properties(text))
    assert merge_mode_of(events) == EVENT_TIME
    assert merge_mode_of(replace(events, payload_class=BY_COMMIT_TIME)) == COMMIT_TIME
    with pytest.raises(HudiError, match="PartialUpdateAvroPayload"):
        merge_mode_of(replace(events, payload_class=f"{MODELS}PartialUpdateAvroPayload"))


def test_a_table_of_0_15_without_an_ordering_is_by_commit_time() -> None:
    assert merge_mode_of(made_by_0_15("OverwriteWithLatestAvroPayload")) == COMMIT_TIME


def test_only_1_0_loses_deletes_and_only_by_event_time() -> None:
    kept = {(table.merge_mode, bundle): keeps_deletes(table, bundle) for table in (EVENTS, COMMITS)
            for bundle in ("1.0.2", "1.2.0")}  # fmt: skip
    assert [case for case, keeps in kept.items() if not keeps] == [(EVENT_TIME, "1.0.2")]
