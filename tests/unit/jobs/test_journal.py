"""The journal: deterministic names, one owner, size limits."""

import pytest

from compaction_operator.api.cleanup import MAX_BYTES, MAX_PARTITIONS, ObsoleteEntry, PartitionEntry, TableIdentity
from compaction_operator.api.compaction import Totals
from compaction_operator.api.request import Reason
from compaction_operator.jobs.errors import JobError
from compaction_operator.jobs.journal import Journal, journal_name, shards

from .support import REQUEST, Store

IDENTITY = TableIdentity(database="sales", name="orders", create_time=7, location="file:///w/orders")


def entry(partition: str, obsolete: int = 1) -> PartitionEntry:
    return PartitionEntry(
        partition=partition,
        location=f"file:///w/orders/{partition}",
        create_time=8,
        outputs=("delta_0000001_0000003",),
        highest_write_id=3,
        obsolete=tuple(
            ObsoleteEntry(name=f"delta_{n:07d}_{n:07d}_0000", reason="covered by delta_0000001_0000003")
            for n in range(obsolete)
        ),
        totals=Totals(partitions=1, rows_in=10),
    )


def journal(store: Store, pod_uid: str = "pod-1") -> Journal:
    return Journal(store, REQUEST, identity=IDENTITY, pod_uid=pod_uid)


def test_a_journal_names_all_that_a_cleanup_needs() -> None:
    store = Store()
    (name,) = journal(store).record([entry("prt=p1")], lock_ids=[12])
    assert name == journal_name(REQUEST, 0)
    spec = store.resources[name]["spec"]
    assert spec["table"] == IDENTITY.to_json()
    assert spec["compaction"] == {
        "name": "orders-minor", "uid": "0f8c", "attempt": 2, "job": "orders-minor-2", "podUid": "pod-1",
    }  # fmt: skip
    assert spec["lockIds"] == [12]
    assert store.resources[name]["metadata"]["labels"]["compaction.dev/compaction-uid"] == "0f8c"


def test_nothing_to_record_creates_nothing() -> None:
    store = Store()
    assert journal(store).record([], lock_ids=[]) == []
    assert store.resources == {}


def test_of_two_drivers_of_one_attempt_only_the_first_may_publish() -> None:
    """H4: the second driver meets the first one's journal and leaves."""
    store = Store()
    journal(store, "pod-1").record([entry("prt=p1")], lock_ids=[])
    with pytest.raises(JobError) as refused:
        journal(store, "pod-2").record([entry("prt=p1")], lock_ids=[])
    assert refused.value.reason is Reason.SUPERSEDED


def test_a_driver_that_asks_twice_keeps_its_permit() -> None:
    """A creation whose answer was lost is repeated by the client library: the pod's own journal is no rival."""
    store = Store()
    journal(store).record([entry("prt=p1")], lock_ids=[])
    assert journal(store).record([entry("prt=p1")], lock_ids=[]) == [journal_name(REQUEST, 0)]


def test_batches_of_one_attempt_go_into_journals_of_their_own() -> None:
    store = Store()
    written = journal(store)
    written.record([entry("prt=p1")], lock_ids=[])
    written.record([entry("prt=p2")], lock_ids=[])
    assert sorted(store.resources) == [journal_name(REQUEST, 0), journal_name(REQUEST, 1)]


@pytest.mark.parametrize(("partitions", "directories"), [(1200, 1), (40, 100), (1, 5000), (3, 1700)])
def test_no_journal_is_too_big_and_none_of_its_directories_is_lost(partitions: int, directories: int) -> None:
    entries = [entry(f"prt={number}", directories) for number in range(partitions)]
    groups = list(shards(entries))
    assert all(len(group) <= MAX_PARTITIONS for group in groups)
    assert all(sum(len(part.model_dump_json()) for part in group) < MAX_BYTES for group in groups)
    listed = [(part.partition, one.name) for group in groups for part in group for one in part.obsolete]
    assert listed == [(one.partition, name.name) for one in entries for name in one.obsolete]
    assert sum((part.totals for group in groups for part in group), Totals()).rows_in == 10 * partitions


def test_parts_of_one_partition_never_meet_in_one_journal() -> None:
    uneven = entry("prt=p1", 1400)
    names = (ObsoleteEntry(name="delta_0000001_0000001_0000", reason="x" * 4000), *uneven.obsolete)
    groups = list(shards([uneven.model_copy(update={"obsolete": names})]))
    assert all(len({part.partition for part in group}) == len(group) for group in groups)


def test_long_names_stay_within_what_kubernetes_allows() -> None:
    long = REQUEST.model_copy(update={"name": "x" * 253})
    assert len(journal_name(long, 99)) <= 253


def test_a_long_name_is_not_cut_where_none_can_end() -> None:
    """A label that begins with a hyphen is refused, and with it every attempt."""
    dotted = REQUEST.model_copy(update={"name": "x" * 199 + "." + "y" * 53})
    assert journal_name(dotted, 0).startswith("x" * 199 + "-")


def test_sizes_are_bytes() -> None:
    """Hive escapes no letters of other scripts in a partition's name."""
    entries = [entry(f"prt={'字' * 200}{number}") for number in range(200)]
    sizes = [sum(len(one.model_dump_json(by_alias=True).encode()) for one in shard) for shard in shards(entries)]
    assert max(sizes) <= MAX_BYTES
