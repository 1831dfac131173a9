"""The journal: deterministic names, one owner, size limits, and what the API server takes of it."""

from typing import Any, cast

import pytest

from compaction_operator.api.cleanup import MAX_BYTES, MAX_PARTITIONS, ObsoleteEntry, PartitionEntry, TableIdentity
from compaction_operator.api.compaction import Forecast, Totals
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.journal import Journal, JournalRefused, journal_name, shards
from compaction_operator.metastore import MetastoreClient

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
        forecast=Forecast(bytes_copied=5),
        cpu_milliseconds=2,
    )


def journal(store: Store, pod_uid: str = "pod-1") -> Journal:
    return Journal(store, DriverContext(cast(MetastoreClient, None), REQUEST, pod_uid, IDENTITY))


def test_a_journal_names_all_that_a_cleanup_needs() -> None:
    store = Store()
    assert journal(store).record([entry("prt=p1")], lock_ids=[12]) == {}
    name = journal_name(REQUEST, 0)
    spec = store.resources[name]["spec"]
    assert spec["table"] == IDENTITY.to_json()
    assert spec["compaction"] == {
        "name": "orders-minor", "uid": "0f8c", "attempt": 2, "job": "orders-minor-2", "podUid": "pod-1",
    }  # fmt: skip
    assert spec["lockIds"] == [12]
    assert spec["operator"] == "compaction-system"
    assert store.resources[name]["metadata"]["labels"]["compaction.dev/compaction-uid"] == "0f8c"


def test_nothing_to_record_creates_nothing() -> None:
    store = Store()
    assert journal(store).record([], lock_ids=[]) == {}
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
    assert journal(store).record([entry("prt=p1")], lock_ids=[]) == {}
    assert list(store.resources) == [journal_name(REQUEST, 0)]


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
    parts = [part for group in groups for part in group]
    assert sum((part.forecast for part in parts), Forecast()).bytes_copied == 5 * partitions
    assert sum(part.cpu_milliseconds for part in parts) == 2 * partitions


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


class Picky(Store):
    """Takes no journal with one of those partitions, and none with more partitions than `most`."""

    def __init__(self, *refused: str, most: int = MAX_PARTITIONS) -> None:
        super().__init__()
        self.asked = 0
        self._refused = refused
        self._most = most

    def create(self, namespace: str, body: dict[str, Any]) -> bool:
        self.asked += 1
        partitions = [part["partition"] for part in body["spec"]["partitions"]]
        for partition in partitions:
            if partition in self._refused:
                raise JournalRefused(Reason.DRIVER_FAILED, f"422 Invalid: {partition}")
        if len(partitions) > self._most:
            raise JournalRefused(Reason.DRIVER_FAILED, "413 Request Entity Too Large")
        return super().create(namespace, body)


def recorded(store: Store) -> list[list[str]]:
    """Return the partitions of the journals, which are numbered from 0 without a gap."""
    assert list(store.resources) == [journal_name(REQUEST, number) for number in range(len(store.resources))]
    return [[part["partition"] for part in one["spec"]["partitions"]] for one in store.resources.values()]


def test_what_the_api_server_refuses_of_one_partition_is_that_partitions_alone() -> None:
    """The others are recorded, each once, and may be published."""
    store = Picky("p3", "p700")
    entries = [entry(f"p{number}") for number in range(1000)]
    refused = journal(store).record(entries, lock_ids=[])
    assert {partition: str(error) for partition, error in refused.items()} == {
        "p3": "file:///w/orders/p3: 422 Invalid: p3",
        "p700": "file:///w/orders/p700: 422 Invalid: p700",
    }
    assert {error.reason for error in refused.values()} == {Reason.DRIVER_FAILED}
    assert sorted(partition for one in recorded(store) for partition in one) == sorted(
        {one.partition for one in entries} - set(refused)
    )
    assert store.asked < 50


def test_what_is_too_large_together_goes_into_journals_of_its_own() -> None:
    store = Picky(most=2)
    assert journal(store).record([entry(f"p{number}") for number in range(5)], lock_ids=[]) == {}
    assert recorded(store) == [["p0", "p1"], ["p2"], ["p3", "p4"]]


def test_a_partition_with_a_refused_part_is_given_up() -> None:
    """The records of its other parts make nothing obsolete, because nothing of it is published."""

    class Half(Store):
        def create(self, namespace: str, body: dict[str, Any]) -> bool:
            if any(part["obsolete"][-1]["name"].startswith("delta_0001699") for part in body["spec"]["partitions"]):
                raise JournalRefused(Reason.DRIVER_FAILED, "422 Invalid")
            return super().create(namespace, body)

    assert set(journal(Half()).record([entry("p1"), entry("p2", 1700)], lock_ids=[])) == {"p2"}


def test_of_two_drivers_the_one_whose_journal_was_refused_at_first_is_kept_out_too() -> None:
    """H4: it asks again for the same number, and that is the other one's."""
    store = Picky("p2")
    journal(store, "pod-1").record([entry("p1")], lock_ids=[])
    late = journal(store, "pod-2")
    assert set(late.record([entry("p2")], lock_ids=[])) == {"p2"}
    with pytest.raises(JobError) as refused:
        late.record([entry("p2"), entry("p3")], lock_ids=[])
    assert refused.value.reason is Reason.SUPERSEDED
