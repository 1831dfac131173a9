"""After an attempt's end: what is published is computed, and only then the readers from before are written down."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.cleanup import CompactionCleanupSpec, PartitionEntry, PublishedState
from compaction_operator.cleanup.publication import UndecidedError
from compaction_operator.cleanup.settle import Settlement, settle
from compaction_operator.metastore import Generation, MetastoreError, OpenTransactions, Partition, QueueState, TxnInfo
from compaction_operator.storage import LocalStorage, StorageError
from tests.support.metastore import FakeMetastore
from tests.unit.cleanup.support import (
    DELTAS,
    MINOR,
    NOON,
    OWN_AGENT,
    entry,
    failed,
    journal,
    lock,
    make_directory,
    metastore,
    names,
    obsolete,
    queued,
)

OUTPUT = "delta_0000001_0000003_v0000050"
NO_END = 2**63 - 1


def _settle(spec: CompactionCleanupSpec, source: FakeMetastore) -> Settlement:
    return settle(lambda _: LocalStorage(), source, spec, clock=lambda: NOON)


def _on_hive_4(place: Path, **changes: Any) -> FakeMetastore:
    return metastore(place, **{"hive": Generation.HIVE4, **changes})


def _entry(place: Path, **changes: object) -> PartitionEntry:
    return entry(place, **{"outputs": (OUTPUT,), "txn_id": 50, "queue_id": 5, **changes})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three inserts, and the renamed output of a compaction in transaction 50."""
    for name in (*DELTAS, OUTPUT):
        make_directory(tmp_path, name)
    return tmp_path


def _state(place: Path, source: FakeMetastore, **changes: object) -> PublishedState:
    return _settle(journal(place, _entry(place, **changes)), source).states[""]


def test_what_is_not_obsolete_when_the_readers_are_recorded_is_reported(tmp_path: Path) -> None:
    """Its readers are not in the baseline: a later compaction that covers it has to ask for them."""
    for name in (*DELTAS, MINOR):
        make_directory(tmp_path, name)
    live = "delta_0000009_0000009_0000"
    make_directory(tmp_path, live)
    spec = journal(tmp_path, entry(tmp_path, obsolete=obsolete(*DELTAS, live)))
    assert _settle(spec, metastore(tmp_path)).needed == {"": (live,)}


def test_outputs_of_a_committed_transaction_are_published(table: Path) -> None:
    assert _state(table, _on_hive_4(table, queue=(queued(5),))) is PublishedState.PUBLISHED
    assert OUTPUT in names(table)


def test_a_transaction_that_the_queue_has_forgotten_counts_by_the_list(table: Path) -> None:
    """Its history is purged some day: an aborted one is remembered until its outputs are gone."""
    assert _state(table, _on_hive_4(table)) is PublishedState.PUBLISHED


def test_outputs_of_an_aborted_transaction_are_removed_and_not_published(table: Path) -> None:
    """H10: renamed, but never committed: no snapshot ever sees it."""
    assert _state(table, _on_hive_4(table, txns=f"100:{NO_END}::50")) is PublishedState.NOT_PUBLISHED
    assert names(table) == set(DELTAS)


def test_the_own_open_transaction_is_aborted_and_its_outputs_removed(table: Path) -> None:
    """The driver died between its rename and its commit."""
    own = TxnInfo(txn=50, state="OPEN", user="u", host="h", agent=OWN_AGENT)
    entry = queued(5, state=QueueState.READY_FOR_CLEANING, committed=None)
    source = _on_hive_4(table, transactions=OpenTransactions(100, (own,)), queue=(entry,))
    assert _state(table, source) is PublishedState.NOT_PUBLISHED
    assert (source.asked("abort_txn"), failed(source)) == ([50], [5])
    assert names(table) == set(DELTAS)
    assert _state(table, source) is PublishedState.NOT_PUBLISHED


@pytest.mark.parametrize("txns", ["100:50:50:", f"49:{NO_END}::"])
def test_a_transaction_of_another_client_that_is_open_or_unknown_decides_nothing(table: Path, txns: str) -> None:
    """A journal may name any number: it is neither aborted for that, nor guessed about."""
    stranger = TxnInfo(txn=50, state="OPEN", user="u", host="h", agent="hive")
    source = _on_hive_4(table, txns=txns, transactions=OpenTransactions(100, (stranger,)))
    with pytest.raises(UndecidedError, match="transaction 50 is neither committed nor aborted"):
        _state(table, source)
    assert source.asked("abort_txn") == []
    assert OUTPUT in names(table)


OWNERS = pytest.mark.parametrize(
    "owner", [{}, {"pool": "k8s", "job": "c"}], ids=["the driver's entry", "a taken entry"]
)


@OWNERS
def test_the_entry_of_what_is_published_is_marked_as_compacted(table: Path, owner: dict[str, str]) -> None:
    """The driver died between its commit and its mark: without this, the cleanup would not end the entry."""
    source = _on_hive_4(table, queue=(queued(5, state=QueueState.WORKING, **owner),))
    assert _state(table, source) is PublishedState.PUBLISHED
    assert source.queue[0].awaits_cleaning
    assert _state(table, source) is PublishedState.PUBLISHED
    assert source.count("mark_compacted") == 1


def test_a_taken_entry_is_left_to_the_next_attempt(table: Path) -> None:
    source = _on_hive_4(
        table,
        queue=(queued(5, state=QueueState.WORKING, committed=None, pool="k8s", job="c"),),
        txns=f"100:{NO_END}::50",
    )
    assert _state(table, source) is PublishedState.NOT_PUBLISHED
    assert source.queue[0].state is QueueState.WORKING


@OWNERS
def test_a_transaction_that_only_seems_committed_has_published_nothing(table: Path, owner: dict[str, str]) -> None:
    """The metastore has forgotten that it was aborted; the queue remembers that it was never committed."""
    source = _on_hive_4(table, queue=(queued(5, state=QueueState.FAILED, committed=None, **owner),))
    assert _state(table, source) is PublishedState.NOT_PUBLISHED
    assert OUTPUT in names(table)


@pytest.mark.parametrize("output", ["delta_0000001_0000003_v0000051", "delta_0000001_0000003", "base_0000003x"])
def test_an_output_that_bears_another_transaction_is_not_published_and_not_removed(table: Path, output: str) -> None:
    make_directory(table, output)
    assert _state(table, _on_hive_4(table), outputs=(output,)) is PublishedState.NOT_PUBLISHED
    assert _state(table, _on_hive_4(table, txns=f"100:{NO_END}::50"), outputs=(output,)) is PublishedState.NOT_PUBLISHED
    assert output in names(table)


def test_a_removal_of_aborted_outputs_that_was_cut_short_goes_on(table: Path) -> None:
    (table / OUTPUT).rename(table / f"_compaction_trash_{OUTPUT}")
    assert _state(table, _on_hive_4(table, txns=f"100:{NO_END}::50")) is PublishedState.NOT_PUBLISHED
    assert names(table) == set(DELTAS)


def test_an_entry_without_outputs_does_not_ask_for_its_transaction(table: Path) -> None:
    source = _on_hive_4(table, txns="100:50:50:")
    assert _state(table, source, outputs=()) is PublishedState.NOTHING_TO_PUBLISH


def test_own_locks_are_not_waited_for_and_others_are(tmp_path: Path) -> None:
    make_directory(tmp_path, MINOR)
    settled = _settle(journal(tmp_path), metastore(tmp_path, locks=(lock(7, agent=OWN_AGENT), lock(12))))
    assert settled.baseline.lock_ids == (12,)


@pytest.mark.parametrize("call", ["get_table", "show_locks", "valid_txns", "open_transactions", "compactions"])
def test_without_an_answer_nothing_is_settled(table: Path, call: str) -> None:
    """H13: neither published nor not, and no baseline either."""
    source = _on_hive_4(table, broken=frozenset({call}), transactions=OpenTransactions(9, ()))
    with pytest.raises(MetastoreError, match=call):
        _state(table, source)
    assert OUTPUT in names(table)


def test_one_partition_of_a_journal_may_be_published_and_another_aborted(tmp_path: Path) -> None:
    """On Hive 4 each has a transaction of its own."""
    places = {"prt=a": (50, OUTPUT), "prt=b": (51, "delta_0000001_0000003_v0000051")}
    entries, partitions = [], []
    for name, (txn, output) in places.items():
        make_directory(tmp_path / name, output)
        entries.append(_entry(tmp_path / name, partition=name, txn_id=txn, outputs=(output,)))
        partitions.append(Partition(name, (name[-1],), str(tmp_path / name), 100))
    source = _on_hive_4(tmp_path, partitions=tuple(partitions), txns=f"100:{NO_END}::51")
    settled = _settle(journal(tmp_path, *entries), source)
    assert settled.states == {"prt=a": PublishedState.PUBLISHED, "prt=b": PublishedState.NOT_PUBLISHED}
    assert [names(tmp_path / name) for name in places] == [{OUTPUT}, set()]


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        (None, "PartitionDropped"),
        ((200, None), "PartitionRecreated"),
        ((100, "/elsewhere"), "PartitionMoved"),
    ],
)
def test_a_partition_that_is_not_the_recorded_one_is_reported(
    tmp_path: Path, there: tuple[int, str | None] | None, reason: str
) -> None:
    """H11, before it was settled: nothing there is touched, not even a staging folder."""
    place = tmp_path / "prt=a"
    staging = make_directory(place, "_compaction_u-1-p")
    partitions = () if there is None else (Partition("prt=a", ("a",), there[1] or str(place), there[0]),)
    spec = journal(tmp_path, entry(place, partition="prt=a"))
    settled = _settle(spec, metastore(tmp_path, partitions=partitions))
    assert settled.states == {"prt=a": PublishedState.NOT_PUBLISHED}
    assert settled.gone["prt=a"].reason == reason
    assert staging.exists()


def test_a_journal_is_settled_though_one_partition_cannot_be_reached(tmp_path: Path) -> None:
    """Nothing of that one is deleted: the next compaction records it again."""
    (tmp_path / "a").symlink_to(tmp_path / "b")
    make_directory(tmp_path / "b", MINOR)
    entries = [entry(tmp_path / name, partition=f"prt={name}") for name in "ab"]
    partitions = tuple(Partition(f"prt={name}", (name,), str(tmp_path / name), 100) for name in "ab")
    settled = _settle(journal(tmp_path, *entries), metastore(tmp_path, partitions=partitions))
    assert settled.states == {"prt=a": PublishedState.NOT_PUBLISHED, "prt=b": PublishedState.PUBLISHED}
    assert settled.unreachable["prt=a"].reason == "StorageError"


PAIR = ("delta_0000001_0000004", "delete_delta_0000001_0000004")


def _half_published(
    place: Path, *, intent: str = json.dumps({"outputs": PAIR}), **changes: Any
) -> tuple[CompactionCleanupSpec, FakeMetastore]:
    """Make partition `prt=a` with half of a pair and its other half in staging, and `prt=b` with a minor's output."""
    staging = "_compaction_u-1-p"
    make_directory(place / "a", PAIR[0])
    make_directory(place / "a" / staging, PAIR[1])
    (place / "a" / staging / "_intent").write_text(intent)
    make_directory(place / "b", MINOR)
    entries = [entry(place / "a", partition="prt=a", outputs=PAIR), entry(place / "b", partition="prt=b")]
    partitions = tuple(Partition(f"prt={name}", (name,), str(place / name), 100) for name in "ab")
    return journal(place, *entries), metastore(place, partitions=partitions, **changes)


def test_half_of_a_pair_that_cannot_be_completed_holds_up_no_other_partition(tmp_path: Path) -> None:
    """Its staging cannot be taken away: its other half is wherever that is, and is completed when it can be."""
    settled = _settle(*_half_published(tmp_path, intent="no JSON"))
    assert settled.states == {"prt=a": PublishedState.NOT_PUBLISHED, "prt=b": PublishedState.PUBLISHED}
    assert "_intent cannot be read" in settled.unreachable["prt=a"].message


def _no_answer(monkeypatch: pytest.MonkeyPatch, method: str, below: Path) -> None:
    """Let a method of the storage get no answer for paths below a place."""
    real = getattr(LocalStorage, method)

    def call(self: LocalStorage, path: str, *more: str) -> Any:
        if Path(path).is_relative_to(below):
            raise StorageError(f"{path}: no answer from the NameNode", passing=True)
        return real(self, path, *more)

    monkeypatch.setattr(LocalStorage, method, call)


def test_half_of_a_pair_is_settled_only_when_the_store_answers_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3: nothing is given up in an outage, and its EXCLUSIVE lock stays; the other partitions are fenced all the same.

    What is stored once is never determined again.
    """
    held = (lock(7, agent=OWN_AGENT, partition="prt=a", type="EXCLUSIVE"),)
    spec, source = _half_published(tmp_path, locks=held)
    staging = make_directory(tmp_path / "b", "_compaction_u-1-p")
    with monkeypatch.context() as outage:
        _no_answer(outage, "rename", tmp_path / "a")
        with pytest.raises(StorageError, match="no answer from the NameNode"):
            _settle(spec, source)
    assert (source.locks, staging.exists()) == (held, False)
    settled = _settle(spec, source)
    assert settled.states == dict.fromkeys(("prt=a", "prt=b"), PublishedState.PUBLISHED)
    assert (names(tmp_path / "a"), settled.unreachable, source.locks) == (set(PAIR), {}, ())


@pytest.mark.parametrize("answers", [0, 1, 2])
def test_a_partition_whose_store_does_not_answer_is_not_given_up(
    answers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever listing has no answer: that of the fence, of what is published, or of what is obsolete."""
    make_directory(tmp_path, MINOR)
    left = answers

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def method(self: LocalStorage, path: str) -> Any:
            nonlocal left
            left -= 1
            if left == -1:
                raise StorageError(f"{path}: no answer from the NameNode", passing=True)
            return real(self, path)

        return method

    for name in ("list", "list_partition"):
        monkeypatch.setattr(LocalStorage, name, counted(getattr(LocalStorage, name)))
    spec, source = journal(tmp_path, entry(tmp_path)), metastore(tmp_path)
    with pytest.raises(StorageError, match="no answer from the NameNode"):
        _settle(spec, source)
    settled = _settle(spec, source)
    assert (settled.states, settled.needed) == ({"": PublishedState.PUBLISHED}, {"": ()})


@pytest.mark.parametrize("volume", [True, False])
def test_where_no_partition_can_be_reached_the_volume_decides(tmp_path: Path, volume: bool) -> None:
    """Without it nothing is settled, as it may come back; a table must not be held for ever by what will not."""
    place = tmp_path / "t"
    if volume:
        place.mkdir()
        (place / "a").symlink_to(tmp_path)
    entries = [entry(place / "a", partition="prt=a")]
    partitions = (Partition("prt=a", ("a",), str(place / "a"), 100),)
    spec, source = journal(place, *entries), metastore(place, partitions=partitions)
    if volume:
        assert _settle(spec, source).unreachable["prt=a"].reason == "StorageError"
        return
    with pytest.raises(StorageError, match="does not exist"):
        _settle(spec, source)
