"""What is done with metastore and storage, over directories on disk and a metastore that says what a test wants."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.cleanup import PublishedState
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.config import Volume, WatchScope
from compaction_operator.api.request import Reason, agent_info, queue_worker
from compaction_operator.cleanup.attempt import Attempt, Holdings
from compaction_operator.cleanup.reader_lock import cleanup_agent
from compaction_operator.cleanup.readers import ReaderSnapshot
from compaction_operator.cleanup.settle import Settlement
from compaction_operator.controller.answers import Preflight, Trouble
from compaction_operator.controller.kube.resources import Cleanup, Compaction, TableKey
from compaction_operator.controller.pool import Pool
from compaction_operator.controller.work import Work
from compaction_operator.metastore import (
    ORC_INPUT_FORMAT,
    ORC_SERDE,
    Generation,
    LockInfo,
    MetastoreError,
    MetastoreUnavailable,
    OpenTransactions,
    Partition,
    QueueState,
    Table,
    TxnInfo,
)
from compaction_operator.storage import LocalStorage, StorageError
from tests.support.metastore import FakeMetastore, unavailable
from tests.support.object_store import ObjectStore
from tests.unit.cleanup.support import make_directory, metastore_with, names
from tests.unit.controller.sandbox import (
    CONFIG,
    DELTAS,
    NOON,
    REFUSED,
    cleanup,
    compaction,
    entry_json,
    reader,
    with_pool,
)

OWN = agent_info(uid="uid-default-nightly", attempt=1, pod_uid="pod")
STAGING = "_compaction_uid-default-nightly-1-pod"


def table(place: Path, **changes: Any) -> Table:
    plain: dict[str, Any] = {
        "database": "sales",
        "name": "orders",
        "location": str(place),
        "create_time": 100,
        "input_format": ORC_INPUT_FORMAT,
        "serde": ORC_SERDE,
        "columns": (),
        "parameters": {"transactional": "true"},
    }
    return Table(**{**plain, **changes})


def metastore_of(known: Table, **state: Any) -> FakeMetastore:
    """A metastore with one table, whose Initiator is off."""
    metastore = metastore_with(known, **state)
    metastore.settings = {"hive.compactor.initiator.on": "false"}
    return metastore


def work(metastore: FakeMetastore) -> Work:
    return Work(CONFIG, clock=lambda: NOON, connect=lambda _: metastore.client())


def journal(place: Path, *, entry: dict[str, Any] | None = None, **changes: Any) -> Cleanup:
    """A journal of one unpartitioned table whose directory is `place`; `entry` changes what it says of it."""
    return cleanup(
        entries=[entry_json(**{"location": str(place), **(entry or {})})],
        table={"database": "sales", "name": "orders", "createTime": 100, "location": str(place)},
        **changes,
    )


def own_lock(lock_id: int) -> LockInfo:
    return LockInfo(
        lock_id=lock_id,
        database="sales",
        table="orders",
        state="ACQUIRED",
        type="EXCLUSIVE",
        user="u",
        host="h",
        agent=OWN,
    )


def test_what_an_attempt_holds_is_known_by_its_name(tmp_path: Path) -> None:
    """A lock of its own, or a transaction; those of others, and of its other attempts, are not its own."""
    plain = metastore_of(
        table(tmp_path), locks=(reader(12), replace(own_lock(7), agent=f"{OWN}".replace("/1/", "/11/")))
    )
    for one in (journal(tmp_path), attempt(1)):
        assert work(plain).held(one) == Holdings()
        assert work(metastore_of(table(tmp_path), locks=(own_lock(8),))).held(one) == Holdings((own_lock(8),))
        txn = TxnInfo(txn=41, state="OPEN", user="u", host="h", agent=OWN)
        opened = OpenTransactions(41, (txn,))
        assert work(metastore_of(table(tmp_path), transactions=opened)).held(one) == Holdings(txns=(txn,))


def test_a_cleanup_gives_back_its_own_locks_alone(tmp_path: Path) -> None:
    mine = journal(tmp_path)
    agents = [cleanup_agent(mine.spec.compaction, owner) for owner in (mine.meta.uid, "another")]
    locks = tuple(replace(own_lock(number), agent=agent) for number, agent in enumerate([*agents, OWN], 7))
    metastore = metastore_of(table(tmp_path), locks=locks)
    assert work(metastore).release(mine) is None
    assert metastore.asked("unlock") == [7]
    assert work(metastore_of(table(tmp_path), broken={"show_locks"})).release(mine) == Trouble(
        "MetastoreError", "show_locks failed"
    )


@pytest.mark.parametrize("call", ["show_locks", "open_transactions"])
def test_an_error_does_not_say_that_an_attempt_holds_nothing(tmp_path: Path, call: str) -> None:
    metastore = metastore_of(table(tmp_path), broken=frozenset({call}))
    assert work(metastore).held(journal(tmp_path)) == Trouble("MetastoreError", f"{call} failed")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"parameters": {}}, Reason.NOT_TRANSACTIONAL),
        (
            {"parameters": {"transactional": "true", "transactional_properties": "insert_only"}},
            Reason.INSERT_ONLY,
        ),
        (
            {"parameters": {"transactional": "true", "transactional_properties": "split_update"}},
            Reason.UNSUPPORTED_TABLE,
        ),
        ({"input_format": "org.apache.hadoop.mapred.TextInputFormat"}, Reason.NOT_ORC),
    ],
)
def test_preflight_of_a_table(tmp_path: Path, changes: dict[str, Any], reason: Reason | None) -> None:
    verdict = work(metastore_of(table(tmp_path, **changes))).preflight(compaction())
    assert verdict.reason is reason
    assert reason is None or "sales.orders" in verdict.message


def test_a_table_that_is_not_orc_says_by_what(tmp_path: Path) -> None:
    """One of the two may be right."""
    odd = table(tmp_path, serde="org.example.Text")
    verdict = work(metastore_of(odd)).preflight(compaction())
    assert verdict.reason is Reason.NOT_ORC
    assert f"{odd.input_format} and its serde org.example.Text" in verdict.message


def test_preflight_of_a_table_outside_of_what_the_warehouse_allows(tmp_path: Path) -> None:
    """It costs no pod, which would see nothing there either."""
    warehouse = CONFIG.warehouses[0].model_copy(update={"locations": ()})
    metastore = metastore_of(table(tmp_path))
    config = CONFIG.model_copy(update={"warehouses": (warehouse,)})
    narrow = Work(config, clock=lambda: NOON, connect=lambda _: metastore.client())
    verdict = narrow.preflight(compaction())
    assert verdict.reason is Reason.NOT_ALLOWED
    assert f"table sales.orders may not be compacted: it lies at {tmp_path}" in verdict.message
    assert verdict.message.endswith("below: /warehouse")


def test_preflight_of_a_table_that_does_not_exist() -> None:
    verdict = work(FakeMetastore()).preflight(compaction())
    assert verdict == Preflight(Reason.TABLE_NOT_FOUND, "table sales.orders does not exist")


@pytest.mark.parametrize(
    ("keys", "specs", "reason"),
    [
        (("prt",), ["prt='p1'"], None),
        (("prt",), ["prt='p1'", "prt='p9'"], Reason.PARTITION_NOT_FOUND),
        (("prt",), ["colour='red'"], Reason.PARTITION_NOT_FOUND),
        (("prt",), [], None),
        ((), ["prt='p1'"], Reason.PARTITION_NOT_FOUND),
    ],
)
def test_preflight_of_partitions(
    tmp_path: Path, keys: tuple[str, ...], specs: list[str], reason: Reason | None
) -> None:
    """A filter that matches nothing is named, however many others match."""
    partitions = (Partition("prt=p1", ("p1",), str(tmp_path / "prt=p1"), 100),)
    metastore = metastore_of(table(tmp_path, partition_keys=keys), partitions=partitions)
    verdict = work(metastore).preflight(compaction(partitions=specs))
    assert verdict.reason is reason
    assert reason is None or specs[-1] in verdict.message


def test_preflight_while_the_metastore_is_down(tmp_path: Path) -> None:
    verdict = work(unavailable()).preflight(compaction())
    assert verdict == Preflight(Reason.METASTORE_UNAVAILABLE, "connection refused")


INITIATOR, CLEANER = "hive.compactor.initiator.on", "hive.compactor.cleaner.on"
STATEMENT = "to prevent that: ALTER {} SET {} ('NO_AUTO_COMPACTION'='true')"


@pytest.mark.parametrize("settings", [{INITIATOR: "true"}, {}])
def test_preflight_refuses_what_hive_3_may_compact_at_the_same_time(tmp_path: Path, settings: dict[str, str]) -> None:
    """Unless that is allowed; on Hive 4 the queue keeps one of the two out."""
    metastore = metastore_of(table(tmp_path))
    metastore.settings = settings
    refused = work(metastore).preflight(compaction())
    assert refused.reason is Reason.AUTO_COMPACTION_ON
    assert refused.automatic is not None
    assert work(metastore).preflight(compaction(allowAutoCompaction=True)).reason is None
    metastore.hive = Generation.HIVE4
    assert work(metastore).preflight(compaction()).reason is None


@pytest.mark.parametrize(
    ("of_table", "of_database", "settings", "told"),
    [
        ("true", "", {}, "True NoAutoCompactionSet: NO_AUTO_COMPACTION is set on the table"),
        ("", "true", {}, "True NoAutoCompactionSet: NO_AUTO_COMPACTION is set on the database"),
        ("", "", {INITIATOR: "false"}, "True InitiatorOff: Initiator is off"),
        (
            "", "", {INITIATOR: "true"},
            f"False NoAutoCompactionMissing: {STATEMENT.format('TABLE sales.orders', 'TBLPROPERTIES')}",
        ),
        (
            "true", "false", {INITIATOR: "true"},
            f"False NoAutoCompactionMissing: {STATEMENT.format('DATABASE sales', 'DBPROPERTIES')}",
        ),
        ("", "", {}, "Unknown InitiatorUnknown: it is unknown whether Hive compacts sales.orders"),
        ("true", "", {CLEANER: "true"}, "True NoAutoCompactionSet: its Cleaner is on and may delete obsolete"),
        ("true", "", {CLEANER: "false"}, "True NoAutoCompactionSet: its Cleaner is off"),
    ],
)  # fmt: skip
def test_preflight_says_what_hive_does_by_itself(
    tmp_path: Path, of_table: str, of_database: str, settings: dict[str, str], told: str
) -> None:
    """By the table, its database, which comes first on Hive 4, and the metastore's own settings."""
    marked = {"transactional": "true"} | ({"no_auto_compaction": of_table} if of_table else {})
    metastore = metastore_of(table(tmp_path, parameters=marked), hive=Generation.HIVE4)
    metastore.databases["sales"] = {"no_auto_compaction": of_database} if of_database else {}
    metastore.settings = settings
    automatic = work(metastore).preflight(compaction()).automatic
    assert automatic is not None
    reason, message = automatic.explain(compaction().spec.table)
    expected, _, named = told.partition(": ")
    assert f"{automatic.outcome} {reason}" == expected
    assert named in message


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"worker": "hive-host-17"}, Reason.IN_COMPACTION_QUEUE),
        ({"state": QueueState.INITIATED, "worker": None}, Reason.IN_COMPACTION_QUEUE),
        ({"state": QueueState.FAILED}, Reason.QUEUE_ENTRY_ENDED),
        ({"queue_id": 2, "state": QueueState.SUCCEEDED}, Reason.QUEUE_ENTRY_ENDED),
        ({"partition": "day=1"}, Reason.UNSUPPORTED_TABLE),
        ({"type": CompactionType.MAJOR}, Reason.UNSUPPORTED_TABLE),
    ],
)
def test_preflight_lets_a_compaction_work_on_its_own_entry_of_the_queue(
    tmp_path: Path, changes: dict[str, Any], reason: Reason | None
) -> None:
    """While it is worked on in the controller's name; the Initiator, which made it, is no obstacle."""
    metastore = metastore_of(table(tmp_path), hive=Generation.HIVE4)
    metastore.settings = {INITIATOR: "true"}
    metastore.enqueue_compaction(
        database="sales", table="orders", partition=None, type=CompactionType.MINOR, pool="k8s"
    )
    metastore.take_any_compaction(pool="k8s", worker=queue_worker("lake"))
    metastore.change_entries(1, **changes)
    verdict = work(metastore).preflight(compaction(queueId=1))
    assert (verdict.reason, verdict.automatic) == (reason, None)
    assert work(metastore).preflight(compaction()).reason in (Reason.IN_COMPACTION_QUEUE, None)


def test_an_entry_that_has_gone_on_is_not_ended(tmp_path: Path) -> None:
    """Between the look and the mark its driver has committed, or another Worker took it."""
    metastore = FakeMetastore(hive=Generation.HIVE4)
    metastore.enqueue_compaction(
        database="sales", table="orders", partition=None, type=CompactionType.MINOR, pool="k8s"
    )
    pool = Pool(metastore.client(), with_pool().warehouses[0])
    entry = pool.take()
    assert entry is not None
    metastore.change_entries(1, worker="hive-host-17")
    pool.end(entry, refused=False, message="over")
    assert metastore.queue[0].state is QueueState.WORKING


def test_settling_fences_before_it_lists(tmp_path: Path) -> None:
    """Staging goes, own locks are given back and not waited for, others are; what is published is computed."""
    for name in (*DELTAS, STAGING, "delta_0000001_0000003"):
        make_directory(tmp_path, name)
    metastore = metastore_of(
        table(tmp_path),
        locks=(reader(12), own_lock(7), own_lock(8)),
        transactions=OpenTransactions(40, (TxnInfo(txn=39, state="OPEN", user="u", host="h"),)),
    )
    settled = work(metastore).settle(journal(tmp_path), driver_ended=True)
    assert isinstance(settled, Settlement)
    assert settled.states == {"": PublishedState.PUBLISHED}
    assert settled.baseline.lock_ids == (12,)
    assert settled.baseline.txn_high_water_mark == 40
    assert metastore.asked("unlock") == [7, 8]
    assert STAGING not in names(tmp_path)


def test_warehouses_with_one_path_have_their_own_volumes(tmp_path: Path) -> None:
    """Two Hives whose tables lie at equal locations: what is done for one never touches the other's files."""
    plain = CONFIG.warehouses[0]
    warehouses = tuple(
        plain.model_copy(update={"name": name, "volume": Volume(claim_name=f"of-{name}", mount_path="/warehouse")})
        for name in ("lake", "sea")
    )
    config = CONFIG.model_copy(update={"warehouses": warehouses, "volumes_path": str(tmp_path)})
    lake, sea = (tmp_path / f"of-{name}" / "warehouse" / "orders" for name in ("lake", "sea"))
    location = Path("/warehouse/orders")
    for place in (lake, sea):
        for name in (*DELTAS, STAGING, "delta_0000001_0000003"):
            make_directory(place, name)
    metastore = metastore_of(table(location))
    working = Work(config, clock=lambda: NOON, connect=lambda _: metastore.client())
    settled = working.settle(journal(location), driver_ended=True)
    assert isinstance(settled, Settlement)
    assert settled.states == {"": PublishedState.PUBLISHED}
    assert (STAGING in names(lake), STAGING in names(sea)) == (False, True)
    entry = journal(location).spec.partitions[0]
    states = [{"partition": "", "state": "Published"}]
    deleted = working.delete(journal(location, status={"partitions": states}), [entry], purge=False)
    assert not isinstance(deleted, Trouble)
    assert names(lake) == {"delta_0000001_0000003"}
    assert names(sea) == {*DELTAS, STAGING, "delta_0000001_0000003"}


LONG_AGO = NOON - timedelta(minutes=2)


@pytest.mark.parametrize(
    ("locks", "settled", "left"),
    [
        pytest.param((LONG_AGO,), True, [False, False], id="lost"),
        pytest.param((NOON,), False, [True, True], id="alive"),
        pytest.param((), True, [False, True], id="at work elsewhere, perhaps"),
    ],
)
def test_a_driver_is_ended_everywhere_when_it_is_lost_and_only_then(
    tmp_path: Path, locks: tuple[datetime, ...], settled: bool, left: list[bool]
) -> None:
    """While its Job runs the metastore decides. Of one that is lost nothing stays, in partitions of no journal too."""
    partitions = tuple(Partition(f"prt=p{one}", (f"p{one}",), str(tmp_path / f"prt=p{one}"), 100) for one in (1, 2))
    for partition in partitions:
        make_directory(Path(partition.location), STAGING)
    held = tuple(replace(own_lock(7), last_heartbeat=beat) for beat in locks)
    metastore = metastore_of(table(tmp_path, partition_keys=("prt",)), partitions=partitions, locks=held)
    identity = {"database": "sales", "name": "orders", "createTime": 100, "location": str(tmp_path)}
    first = cleanup(entries=[entry_json("prt=p1", location=partitions[0].location)], table=identity)
    assert isinstance(work(metastore).settle(first, driver_ended=False), Settlement) is settled
    assert [STAGING in names(Path(partition.location)) for partition in partitions] == left
    assert metastore.asked("unlock") == ([7] if locks == (LONG_AGO,) else [])


@pytest.mark.parametrize(
    ("locks", "driver_ended", "revoked"),
    [
        pytest.param((LONG_AGO,), False, True, id="lost"),
        pytest.param((NOON,), True, True, id="ended"),
        pytest.param((), False, False, id="at work elsewhere, perhaps"),
    ],
)
def test_all_uploads_of_an_attempt_are_aborted_before_anything_of_it_is_ended(
    tmp_path: Path, locks: tuple[datetime, ...], driver_ended: bool, revoked: bool
) -> None:
    """Also those that only another journal names: later others may compact and clean there."""
    objects = ObjectStore()
    partitions = tuple(Partition(f"prt=p{one}", (f"p{one}",), str(tmp_path / f"prt=p{one}"), 100) for one in (1, 2))
    identity = {"database": "sales", "name": "orders", "createTime": 100, "location": str(tmp_path)}
    (tmp_path / "staged").touch()
    journals: list[Cleanup] = []
    for part in partitions:
        Path(part.location).mkdir()
        (upload,) = objects.uploads.begin(part.location, {"base_0000003_v0000050/bucket_00000": f"{tmp_path}/staged"})
        entry = entry_json(part.name, location=part.location, uploads=[upload.to_json()])
        journals.append(cleanup(name=f"nightly-1-{len(journals)}", entries=[entry], table=identity))
    held = tuple(replace(own_lock(7), last_heartbeat=beat) for beat in locks)
    metastore = metastore_of(table(tmp_path, partition_keys=("prt",)), partitions=partitions, locks=held)
    at_the_end: list[int] = []
    metastore.on("unlock", lambda *_: at_the_end.append(len(objects.uploads.pending)))
    working = Work(CONFIG, clock=lambda: NOON, connect=lambda _: metastore.client(), stores=lambda _: lambda _: objects)
    assert isinstance(working.settle(journals[0], driver_ended=driver_ended, attempt=journals), Settlement)
    assert len(objects.uploads.pending) == (0 if revoked else 1)
    assert set(at_the_end) <= {0}


@pytest.mark.parametrize(("databases", "ended"), [(("sales",), True), (("hr",), False)])
def test_what_deleted_compactions_left_is_ended_where_the_operator_may(
    tmp_path: Path, databases: tuple[str, ...], ended: bool
) -> None:
    """What it may not end can belong to another operator, which has the other databases of the metastore."""
    make_directory(tmp_path, STAGING)
    metastore = metastore_of(table(tmp_path), locks=(replace(own_lock(7), last_heartbeat=LONG_AGO), reader(12)))
    warehouse = CONFIG.warehouses[0].model_copy(update={"databases": databases})
    config = CONFIG.model_copy(update={"warehouses": (warehouse,)})
    sweeping = Work(config, clock=lambda: NOON, connect=lambda _: metastore.client())
    assert sweeping.sweep("lake", frozenset()) is None
    assert (metastore.asked("unlock"), names(tmp_path)) == (([7], set()) if ended else ([], {STAGING}))


@pytest.mark.parametrize("generation", Generation)
@pytest.mark.parametrize("known", [True, False])
def test_a_lost_attempt_out_of_sight_is_ended_if_its_uploads_are_known(
    tmp_path: Path, known: bool, generation: Generation
) -> None:
    """Hive 3 has none. And there behind its lock may be half of a pair, which readers see once the lock ends (H3)."""
    make_directory(tmp_path, STAGING)
    locks = (replace(own_lock(7), last_heartbeat=LONG_AGO),)
    metastore = metastore_of(table(tmp_path), locks=locks, hive=generation)
    assert work(metastore).sweep("lake", frozenset(), look_up=lambda _: [] if known else None) is None
    ended = known or generation is Generation.HIVE3
    assert (metastore.asked("unlock"), names(tmp_path)) == (([7], set()) if ended else ([], {STAGING}))


def test_an_attempt_that_shows_up_again_before_it_is_ended_is_left_alone(tmp_path: Path) -> None:
    """Others that are ended before it may take minutes."""
    make_directory(tmp_path, STAGING)
    lost = replace(own_lock(7), last_heartbeat=LONG_AGO)
    metastore = metastore_of(table(tmp_path), locks=(lost,))

    def beat(*_: object) -> None:
        metastore.locks = (replace(lost, last_heartbeat=NOON),)

    metastore.on("show_locks", beat)
    assert work(metastore).sweep("lake", frozenset()) is None
    assert (metastore.asked("unlock"), names(tmp_path)) == ([], {STAGING})


@pytest.mark.parametrize("error", [StorageError("away"), MetastoreError("away")], ids=lambda one: type(one).__name__)
def test_a_lost_attempt_that_cannot_be_ended_is_in_the_way_of_no_other(tmp_path: Path, error: Exception) -> None:
    """Behind the lock of the next one may be half of a pair, which would show before the first is ended (H3)."""
    away, next_one = (
        replace(own_lock(number), last_heartbeat=LONG_AGO, agent=OWN.replace("nightly", name))
        for number, name in ((7, "away"), (8, "next"))
    )
    metastore = metastore_of(table(tmp_path), locks=(away, next_one))
    tried: list[Attempt] = []

    class Hindered(Work):
        def _end(self, warehouse: str, attempt: Attempt, table: TableRef) -> None:
            tried.append(attempt)
            if "away" in attempt.uid:
                raise error
            super()._end(warehouse, attempt, table)

    working = Hindered(CONFIG, clock=lambda: NOON, connect=lambda _: metastore.client())
    assert working.sweep("lake", frozenset()) == Trouble(type(error).__name__, "away")
    assert ([one.uid[-4:] for one in tried], metastore.asked("unlock")) == (["away", "next"], [8])


@pytest.mark.parametrize("volume", [None, Volume(claim_name="other", mount_path="/lake")])
def test_an_attempt_on_another_volume_keeps_its_lock(tmp_path: Path, volume: Volume | None) -> None:
    """H3: behind it may be half of a pair, which only a warehouse with the table's volume can complete."""
    make_directory(tmp_path, STAGING)
    metastore = metastore_of(table(tmp_path), locks=(replace(own_lock(7), last_heartbeat=LONG_AGO),))
    warehouse = CONFIG.warehouses[0].model_copy(update={"volume": volume})
    config = CONFIG.model_copy(update={"warehouses": (warehouse,), "volumes_path": "/volumes"})
    sweeping = Work(config, clock=lambda: NOON, connect=lambda _: metastore.client())
    assert sweeping.sweep("lake", frozenset()) is None
    assert (metastore.asked("unlock"), names(tmp_path)) == ([], {STAGING})


@pytest.mark.parametrize("looked_up", [False, True], ids=["known journals", "journals looked up"])
def test_uploads_of_a_deleted_compaction_are_aborted_before_its_attempt_is_ended(
    tmp_path: Path, looked_up: bool
) -> None:
    objects = ObjectStore()
    (tmp_path / "staged").touch()
    uploads = objects.uploads.begin(str(tmp_path), {"base_0000003_v0000050/bucket_00000": f"{tmp_path}/staged"})
    left = journal(tmp_path, entry={"uploads": [upload.to_json() for upload in uploads]})
    locks = (replace(own_lock(7), last_heartbeat=LONG_AGO),)
    metastore = metastore_of(table(tmp_path), locks=locks, hive=Generation.HIVE4)
    at_the_end: list[int] = []
    metastore.on("unlock", lambda *_: at_the_end.append(len(objects.uploads.pending)))
    sweeping = Work(
        CONFIG, clock=lambda: NOON, connect=lambda _: metastore.client(), stores=lambda _: lambda _: objects
    )
    look_up = {"uid-default-nightly": [left]}.get if looked_up else None
    assert sweeping.sweep("lake", frozenset(), [] if looked_up else [left], look_up=look_up) is None
    assert at_the_end == [0]


def test_settling_what_was_not_published(tmp_path: Path) -> None:
    for name in DELTAS:
        make_directory(tmp_path, name)
    settled = work(metastore_of(table(tmp_path))).settle(journal(tmp_path), driver_ended=True)
    assert isinstance(settled, Settlement)
    assert settled.states == {"": PublishedState.NOT_PUBLISHED}


def test_a_half_published_pair_is_rolled_forward_before_it_is_judged(tmp_path: Path) -> None:
    """The driver died between its two renames."""
    pair = ["delta_0000001_0000003", "delete_delta_0000001_0000003"]
    make_directory(tmp_path, pair[0])
    staging = tmp_path / STAGING
    make_directory(staging, pair[1])
    (staging / "_intent").write_text('{"outputs": ["delta_0000001_0000003", "delete_delta_0000001_0000003"]}')
    settled = work(metastore_of(table(tmp_path))).settle(journal(tmp_path, entry={"outputs": pair}), driver_ended=True)
    assert isinstance(settled, Settlement)
    assert settled.states == {"": PublishedState.PUBLISHED}
    assert names(tmp_path) == set(pair)


@pytest.mark.parametrize("call", ["show_locks", "unlock", "open_transactions"])
def test_settling_without_an_answer_is_no_settling(tmp_path: Path, call: str) -> None:
    make_directory(tmp_path, "delta_0000001_0000003")
    metastore = metastore_of(table(tmp_path), locks=(own_lock(7),), broken=frozenset({call}))
    assert work(metastore).settle(journal(tmp_path), driver_ended=True) == Trouble("MetastoreError", f"{call} failed")


def test_a_readers_lock_that_a_journal_claims_as_its_own_is_waited_for(tmp_path: Path) -> None:
    """The journal's lock ids are only words: whose a lock is, the metastore says."""
    make_directory(tmp_path, "delta_0000001_0000003")
    metastore = metastore_of(table(tmp_path), locks=(reader(7),))
    settled = work(metastore).settle(journal(tmp_path), driver_ended=True)
    assert isinstance(settled, Settlement)
    assert settled.baseline.lock_ids == (7,)
    assert metastore.asked("unlock") == []


def test_a_place_that_only_the_journal_names_is_not_touched(tmp_path: Path) -> None:
    """H21: nothing is fenced, and nothing counts as published, but where the metastore says that the table lies."""
    place, elsewhere = tmp_path / "orders", tmp_path / "elsewhere"
    place.mkdir()
    make_directory(elsewhere, STAGING)
    make_directory(elsewhere, "delta_0000001_0000003")
    moved = journal(place, entry={"location": str(elsewhere)})
    settled = work(metastore_of(table(place))).settle(moved, driver_ended=True)
    assert isinstance(settled, Settlement)
    assert settled.states == {"": PublishedState.NOT_PUBLISHED}
    assert names(elsewhere) == {STAGING, "delta_0000001_0000003"}


def test_a_missing_volume_is_not_taken_for_nothing_published(tmp_path: Path) -> None:
    """The metastore has the table, but its directory is missing: it is unknown what is published."""
    place = tmp_path / "not mounted"
    settled = work(metastore_of(table(place))).settle(journal(place), driver_ended=True)
    assert isinstance(settled, Trouble)
    assert "not mounted" in settled.message


def test_a_live_driver_is_not_ended_by_a_journal_alone(tmp_path: Path) -> None:
    """A forged journal may name another namespace's attempt: the metastore's heartbeats keep that one alive."""
    make_directory(tmp_path, STAGING)
    metastore = metastore_of(table(tmp_path), locks=(silent_for(89),))
    settled = work(metastore).settle(journal(tmp_path), driver_ended=False)
    alive = "the driver of attempt uid-default-nightly/1 is alive: it holds lock 7"
    assert settled == Trouble("UndecidedError", alive)
    assert metastore.asked("unlock") == []
    assert names(tmp_path) == {STAGING}


def test_a_driver_without_heartbeats_is_ended_with_all_that_it_holds(tmp_path: Path) -> None:
    """In all partitions: the journal is about one of them."""
    parts = tuple(Partition(name, (name[-1],), str(tmp_path / name), 100) for name in ("prt=a", "prt=b"))
    for part in parts:
        make_directory(Path(part.location), STAGING)
    keyed = table(tmp_path, partition_keys=("prt",))
    metastore = metastore_of(keyed, partitions=parts, locks=(replace(silent_for(91), partition="prt=b"),))
    one = journal(tmp_path, entry={"partition": "prt=a", "location": parts[0].location})
    assert isinstance(work(metastore).settle(one, driver_ended=False), Settlement)
    assert metastore.asked("unlock") == [7]
    assert [names(Path(part.location)) for part in parts] == [set(), set()]


def silent_for(seconds: int) -> LockInfo:
    return replace(own_lock(7), last_heartbeat=NOON - timedelta(seconds=seconds))


@pytest.mark.parametrize("dropped", ["table", "partition"])
def test_a_dropped_table_or_partition_has_published_nothing(tmp_path: Path, dropped: str) -> None:
    """Its directory went with it; the answer says so, and not only that nothing was published."""
    place = tmp_path / "orders"
    entry = entry_json("prt=p1", location=str(place / "prt=p1"))
    identity = {"database": "sales", "name": "orders", "createTime": 100, "location": str(place)}
    if dropped == "partition":
        place.mkdir()
    metastore = FakeMetastore() if dropped == "table" else metastore_of(table(place))
    settled = work(metastore).settle(cleanup(entries=[entry], table=identity), driver_ended=True)
    assert isinstance(settled, Settlement)
    assert settled.states == {"prt=p1": PublishedState.NOT_PUBLISHED}
    assert settled.gone["prt=p1"].reason == f"{dropped.capitalize()}Dropped"


def test_burial_removes_staging_and_locks_of_the_attempt(tmp_path: Path) -> None:
    """Also for an attempt that died before its journal: of every partition it may have worked on."""
    partitions = tuple(Partition(f"prt=p{one}", (f"p{one}",), str(tmp_path / f"prt=p{one}"), 100) for one in (1, 2))
    for partition in partitions:
        make_directory(Path(partition.location), STAGING)
        make_directory(Path(partition.location), DELTAS[0])
    metastore = metastore_of(
        table(tmp_path, partition_keys=("prt",)), partitions=partitions, locks=(own_lock(7), reader(12))
    )
    assert work(metastore).end_attempt(attempt(1)) is None
    assert [names(Path(partition.location)) for partition in partitions] == [{DELTAS[0]}, {DELTAS[0]}]
    assert metastore.asked("unlock") == [7]


def test_burial_leaves_other_attempts_locks_alone(tmp_path: Path) -> None:
    metastore = metastore_of(table(tmp_path), locks=(own_lock(7),))
    assert work(metastore).end_attempt(attempt(11)) is None
    assert metastore.asked("unlock") == []


def test_burial_without_a_metastore_is_to_be_tried_again(tmp_path: Path) -> None:
    assert work(unavailable()).end_attempt(attempt(1)) == REFUSED


def test_burial_where_a_store_does_not_answer_is_to_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a pair may be behind the attempt's lock (hazard H3)."""
    make_directory(tmp_path, STAGING)
    metastore = metastore_of(table(tmp_path), locks=(own_lock(7),))

    def rename(_: LocalStorage, source: str, target: str) -> None:
        raise StorageError(f"{source}: no answer for {target}", passing=True)

    with monkeypatch.context() as outage:
        outage.setattr(LocalStorage, "rename", rename)
        trouble = work(metastore).end_attempt(attempt(1))
    assert isinstance(trouble, Trouble)
    assert (trouble.reason, "no answer" in trouble.message, metastore.asked("unlock")) == ("StorageError", True, [])
    assert work(metastore).end_attempt(attempt(1)) is None
    assert (names(tmp_path), metastore.asked("unlock")) == (set(), [7])


def test_burial_of_a_dropped_table_has_nothing_to_do() -> None:
    assert work(FakeMetastore()).end_attempt(attempt(1)) is None


def attempt(number: int) -> Compaction:
    return compaction(status={"attempt": number})


def test_look(tmp_path: Path) -> None:
    metastore = metastore_of(table(tmp_path), locks=(reader(12), replace(reader(12), table="items")))
    keys = [TableKey("lake", "sales", "orders"), TableKey("lake", "sales", "items")]
    seen = work(metastore).look("lake", keys)
    for key in keys:
        found = seen[key]
        assert isinstance(found, ReaderSnapshot)
        assert [lock.lock_id for lock in found.locks] == [12]
    metastore.fail(MetastoreUnavailable("connection refused"))
    assert work(metastore).look("lake", keys) == dict.fromkeys(keys, REFUSED)


def test_a_journal_in_a_namespace_that_may_not_use_the_warehouse_does_nothing(tmp_path: Path) -> None:
    """A user who can write cleanups in some namespace cannot reach the warehouse of another team with them."""
    make_directory(tmp_path, STAGING)
    stranger = journal(tmp_path)
    stranger = replace(stranger, meta=replace(stranger.meta, namespace="elsewhere"))
    metastore = metastore_of(table(tmp_path), locks=(own_lock(7),))
    settled = work(metastore).settle(stranger, driver_ended=True)
    assert isinstance(settled, Trouble)
    assert settled.reason == Reason.NOT_ALLOWED
    deleted = work(metastore).delete(stranger, stranger.spec.partitions, purge=False)
    assert isinstance(deleted, Trouble)
    assert metastore.asked("unlock") == []
    assert names(tmp_path) == {STAGING}


def test_what_is_not_allowed_for_readers_any_more_is_settled_and_not_deleted(tmp_path: Path) -> None:
    """Until it is known what was published the whole table waits."""
    make_directory(tmp_path, "delta_0000001_0000003")
    own = journal(tmp_path, readers="LocksAndOwnTransactions")
    states = {"partitions": [{"partition": "", "state": "Published"}]}
    done = work(metastore_of(table(tmp_path)))
    assert isinstance(done.settle(own, driver_ended=True), Settlement)
    deleted = done.delete(journal(tmp_path, readers="LocksAndOwnTransactions", status=states), (), purge=False)
    assert isinstance(deleted, Trouble)
    assert deleted.reason == Reason.NOT_ALLOWED


def test_unknown_warehouse_is_a_trouble_not_an_end(tmp_path: Path) -> None:
    """A warehouse may be missing from the configuration by mistake: journals and attempts wait for it.

    A dead attempt may have left half a pair there (H3).
    """
    done = work(metastore_of(table(tmp_path)))
    settled = done.settle(journal(tmp_path, warehouse="sea"), driver_ended=True)
    assert settled == Trouble("UnknownWarehouse", "unknown warehouse 'sea'; it is not in the operator's configuration")
    key = TableKey("sea", "sales", "orders")
    assert "sea" in str(done.look("sea", [key])[key])
    assert done.end_attempt(compaction(warehouse="sea", status={"attempt": 1})) == settled


def test_delete_some_of_the_partitions(tmp_path: Path) -> None:
    """Only the chunk is touched, and only what is obsolete now."""
    partitions = tuple(Partition(f"prt=p{one}", (f"p{one}",), str(tmp_path / f"prt=p{one}"), 100) for one in (1, 2))
    for partition in partitions:
        for name in (*DELTAS, "delta_0000001_0000003"):
            make_directory(Path(partition.location), name)
    entries = [entry_json(partition.name, location=partition.location) for partition in partitions]
    identity = {"database": "sales", "name": "orders", "createTime": 100, "location": str(tmp_path)}
    status = {"partitions": [{"partition": partition.name, "state": "Published"} for partition in partitions]}
    one = cleanup(entries=entries, table=identity, status=status)
    metastore = metastore_of(
        table(tmp_path, partition_keys=("prt",)),
        partitions=partitions,
        write_ids="sales.orders:3:9223372036854775807::",
    )
    results = work(metastore).delete(one, one.spec.partitions[:1], purge=False)
    assert isinstance(results, tuple)
    assert [(result.partition, result.deleted, result.final) for result in results] == [("prt=p1", DELTAS, True)]
    assert names(tmp_path / "prt=p1") == {"delta_0000001_0000003"}
    assert names(tmp_path / "prt=p2") == {*DELTAS, "delta_0000001_0000003"}
    metastore.fail(MetastoreUnavailable("connection refused"))
    down = work(metastore).delete(one, one.spec.partitions, purge=False)
    assert down == Trouble("MetastoreUnavailable", "connection refused")


OTHERS = OWN.replace("nightly", "elsewhere")


@pytest.mark.parametrize(
    ("watch", "agent", "waits"),
    [
        (WatchScope.CLUSTER, OTHERS, False),
        (WatchScope.NAMESPACES, OTHERS, True),
        (WatchScope.NAMESPACES, OWN, False),
        (WatchScope.NAMESPACES, "hive", False),
    ],
)
def test_what_works_on_a_table_out_of_sight_is_seen_by_its_lock(
    tmp_path: Path, watch: WatchScope, agent: str, waits: bool
) -> None:
    """Where the whole cluster is watched, the cache knows of it, and of each that has ended."""
    metastore = metastore_of(
        table(tmp_path, parameters={"transactional": "true", "NO_AUTO_COMPACTION": "true"}),
        locks=(replace(own_lock(7), agent=agent),),
    )
    config = CONFIG.model_copy(update={"watch": watch})
    found = Work(config, clock=lambda: NOON, connect=lambda _: metastore.client()).preflight(compaction())
    assert found.reason is (Reason.WAITING_FOR_LOCK if waits else None)
    assert ("a namespace that this operator does not see" in found.message) is waits
