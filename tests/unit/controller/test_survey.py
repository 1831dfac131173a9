"""A look at a warehouse for a policy: real directories, and a metastore that counts what it is asked."""

import errno
import os
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.policy import CompactionPolicySpec, Tables
from compaction_operator.controller import survey
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.work import Work
from compaction_operator.metastore import Generation, MetastoreError, MetastoreUnavailable, Partition, Table
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import Memory, TableState
from compaction_operator.storage import Listed, LocalStorage, StorageError
from tests.support.metastore import FakeMetastore
from tests.unit.cleanup.support import make_directory
from tests.unit.controller.sandbox import CONFIG, NOON
from tests.unit.controller.test_work import table

SPEC = CompactionPolicySpec(warehouse="lake", tables=Tables(include=("*.*",)))
HOUR = timedelta(hours=1)


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


class Lake:
    """A metastore of tables with two deltas each, and a Work that looks at them."""

    def __init__(self, folder: Path, *names: str, hive: Generation = Generation.HIVE4) -> None:
        self.folder = folder
        self.metastore = FakeMetastore(hive)
        self.now = NOON
        self.work = Work(CONFIG, clock=lambda: self.now, connect=lambda _: self.metastore.client())
        for name in names:
            self.add(name)

    def add(self, name: str, **changes: Any) -> Table:
        made = table(self.folder / name, name=name, **changes)
        self.metastore.tables[f"{made.database}.{name}"] = made
        for number in (1, 2):
            self.write(name, number)
        return made

    def write(self, name: str, number: int, *, partition: str = "") -> None:
        place = self.folder / name / partition
        make_directory(place, f"delta_{number:07d}_{number:07d}_0000", side_files=())
        self.metastore.set_write_ids(f"sales.{name}:{number}:{2**63 - 1}::")

    def look(self, memory: Memory | None = None, **more: Any) -> Memory:
        given: dict[str, Any] = {"ended": {}, "due": (), **more}
        found = self.work.survey("lake", SPEC, memory or Memory(), **given)
        assert isinstance(found, Memory), found
        return found

    def listed(self, memory: Memory | None = None, **more: Any) -> tuple[Memory, set[str]]:
        """Look, and return which tables were listed."""
        found = self.look(memory, **more)
        return found, {name for name, state in found.tables.items() if state.looked == self.now}


def test_a_look_lists_only_what_has_changed(tmp_path: Path) -> None:
    """Written to, or compacted since it was listed."""
    lake = Lake(tmp_path, "a", "b", "c")
    first, listed = lake.listed()
    assert listed == {"sales.a", "sales.b", "sales.c"}
    assert deltas(first, "sales.a") == [2]
    lake.now += HOUR
    second, listed = lake.listed(first)
    assert (listed, second) == (set(), first)
    lake.write("b", 3)
    third, listed = lake.listed(second, ended={"sales.c": lake.now, "sales.a": NOON - HOUR})
    assert listed == {"sales.b", "sales.c"}
    assert deltas(third, "sales.b") == [3]


def test_a_look_at_many_tables_makes_few_calls(tmp_path: Path) -> None:
    """Of 10,000 tables 20 have changed: three calls for all and one for each 500, beside those about changed tables."""
    lake = Lake(tmp_path, "a")
    one = lake.metastore.tables["sales.a"]
    names = [f"sales.t{number}" for number in range(9_999)]
    lake.metastore.tables.update({name: replace(one, name=name.removeprefix("sales.")) for name in names})
    ids = lake.metastore.valid_write_ids_of(names, valid_txns=lake.metastore.valid_txns())
    memory = Memory({name: TableState(name, str(ids[name]), NOON) for name in names})
    for name in names[:19]:
        lake.metastore.set_write_ids(f"{name}:7:{2**63 - 1}::")
    lake.metastore.calls.clear()
    assert not lake.look(memory).unread
    calls = Counter(call.name for call in lake.metastore.calls)
    of_all = {"managed_tables": 1, "external_tables": 1, "valid_txns": 1, "valid_write_ids_of": 1, "get_tables": 1}
    assert calls == of_all | {"get_database": 1, "generation": 20}


def test_after_a_restart_tables_are_read_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "LISTED_AT_ONCE", 2)
    lake = Lake(tmp_path, "a", "b", "c")
    first, listed = lake.listed()
    assert (len(listed), len(first.unread), first.matched) == (2, 1, 3)
    assert not listed & first.unread
    lake.now += HOUR
    second, more = lake.listed(first)
    assert (listed | more, second.unread) == ({"sales.a", "sales.b", "sales.c"}, frozenset())


def test_partitions_with_nothing_to_merge_are_not_kept(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.add("p", partition_keys=("day",))
    parts = {day: Partition(f"day={day}", (day,), str(tmp_path / "p" / f"day={day}"), 100) for day in ("1", "2")}
    lake.metastore.partitions["sales.p"] = {one.name: one for one in parts.values()}
    make_directory(tmp_path / "p" / "day=1", "base_0000002")
    lake.write("p", 2, partition="day=2")
    state = lake.look().tables["sales.p"]
    assert (state.keys, [one.name for one in state.partitions]) == (("day",), ["day=2"])


def deltas(memory: Memory, table: str) -> list[int]:
    found = [one.measure for one in memory.tables[table].partitions]
    return [one.deltas for one in found if isinstance(one, Measure)]


def many(lake: Lake, *days: str) -> None:
    """A table `p` with a partition for each day, each with something to merge."""
    lake.add("p", partition_keys=("day",))
    folder = lake.folder / "p"
    parts = {f"day={day}": Partition(f"day={day}", (day,), str(folder / f"day={day}"), 100) for day in days}
    lake.metastore.partitions["sales.p"] = parts
    for name in parts:
        lake.write("p", 2, partition=name)


def known(memory: Memory) -> list[str]:
    return sorted(one.name[-1] for one in memory.tables["sales.p"].partitions)


def test_a_table_with_very_many_partitions_does_not_hold_up_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of them are listed in each look, in the order of their names, and decisions go on meanwhile."""
    monkeypatch.setattr(survey, "PARTITIONS_OF_TABLE", 2)
    lake = Lake(tmp_path, "a")
    many(lake, *"54321")
    first = lake.look()
    assert (known(first), first.is_new, first.unread) == (["1", "2"], True, frozenset())
    (large,) = first.large
    assert large.round and (large.round.read, large.round.total) == (2, 5)
    lake.now += HOUR
    second = lake.look(first)
    assert (known(second), second.is_new) == (["1", "2", "3", "4"], True)
    third = lake.look(second)
    assert (known(third), third.is_new, third.large) == (["1", "2", "3", "4", "5"], False, [])
    assert third.tables["sales.p"].looked == NOON
    assert lake.look(third) == third


def test_what_is_written_while_a_table_is_listed_is_listed_in_its_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round goes to its end: otherwise the last partitions would never be listed. Dropped ones are forgotten."""
    monkeypatch.setattr(survey, "PARTITIONS_OF_TABLE", 2)
    lake = Lake(tmp_path)
    many(lake, *"1234")
    first = lake.look()
    lake.write("p", 3, partition="day=1")
    del lake.metastore.partitions["sales.p"]["day=2"]
    second = lake.look(first)
    assert (known(second), second.large, second.is_new) == (["1", "3", "4"], [], False)
    third = lake.look(second)
    assert deltas(third, "sales.p")[0] == 2
    assert third.large
    assert not third.is_new
    assert not lake.look(third).large


def test_a_round_that_a_compaction_began_goes_on_when_this_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    many(lake, *"123")
    first = lake.look()
    monkeypatch.setattr(survey, "PARTITIONS_OF_TABLE", 2)
    second = lake.look(first, ended={"sales.p": NOON})
    assert second.large
    assert not lake.look(second).large


def test_a_round_goes_on_after_the_store_did_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "PARTITIONS_OF_TABLE", 2)
    lake = Lake(tmp_path)
    many(lake, *"123")
    first = lake.look()
    with monkeypatch.context() as broken:
        broken.setattr(os, "scandir", raising(OSError(errno.EIO, "broken")))
        missing = lake.look(first)
    assert (known(missing), missing.lacks("sales.p")) == (["1", "2"], True)
    assert (known(lake.look(missing)), lake.look(missing).large) == (["1", "2", "3"], [])


def test_after_very_many_partitions_no_other_table_is_listed_in_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "PARTITIONS_AT_ONCE", 2)
    lake = Lake(tmp_path, "a")
    many(lake, *"12")
    lake.add("q")
    first = lake.look()
    assert set(first.tables) == {"sales.a", "sales.p"}
    assert first.unread == {"sales.q"}
    assert set(lake.look(first, due=["sales.q"]).tables) == {"sales.a", "sales.p", "sales.q"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"parameters": {}}, "NotTransactional"),
        ({"parameters": {"transactional": "true", "transactional_properties": "insert_only"}}, "InsertOnlyTable"),
        ({"parameters": {"transactional": "true", "compaction.dev/policy": "off"}}, "OptedOut"),
        (
            {"parameters": {"transactional": "true", "compactorthreshold.hive.compactor.delta.num.threshold": "x"}},
            "InvalidProperty",
        ),
        ({"parameters": {"transactional": "true", "compaction.dev/policy.weight": "often"}}, "InvalidProperty"),
        ({"location": "gopher://x/y"}, "UnsupportedTable"),
    ],
)
def test_a_table_that_no_compaction_would_take_is_left_alone(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    lake = Lake(tmp_path, "a")
    lake.metastore.alter_table("sales.a", **changes)
    state = lake.look().tables["sales.a"]
    assert state.problem
    assert (state.problem.reason, state.partitions) == (reason, ())


def test_a_table_that_hive_3_compacts_itself_is_left_alone(tmp_path: Path) -> None:
    """A compaction of it would be refused, one after the other."""
    lake = Lake(tmp_path, "a", hive=Generation.HIVE3)
    problem = lake.look().tables["sales.a"].problem
    assert problem and problem.reason == "AutoCompactionOn"


def test_the_owners_last_word_counts_for_a_table_that_waits(tmp_path: Path) -> None:
    """Nothing was written since the table was listed, but its properties have changed."""
    lake = Lake(tmp_path, "a")
    memory = lake.look()
    lake.metastore.alter_table("sales.a", parameters={"transactional": "true", "compaction.dev/policy": "off"})
    unnoticed, noticed = lake.look(memory).tables["sales.a"], lake.look(memory, due=["sales.a"]).tables["sales.a"]
    assert unnoticed.problem is None
    assert noticed.problem and noticed.problem.reason == "OptedOut"


def test_the_owner_says_how_often_a_table_is_read(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "a")
    lake.metastore.alter_table("sales.a", parameters={"transactional": "true", "compaction.dev/policy.weight": "16"})
    memory = lake.look()
    assert memory.tables["sales.a"].weight == 16
    lake.metastore.alter_table("sales.a", parameters={"transactional": "true", "compaction.dev/policy.weight": "4"})
    assert lake.look(memory, due=["sales.a"]).tables["sales.a"].weight == 4


def test_an_error_about_one_table_is_its_own_and_it_is_asked_again(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "a", "b")
    lake.metastore.alter_table("sales.a", partition_keys=("day",))
    lake.metastore.fail(MetastoreError("broken"), "get_partition_names")
    memory, _ = lake.listed()
    problem = memory.tables["sales.a"].problem
    assert problem and problem.passing
    assert memory.tables["sales.b"].partitions
    lake.now += HOUR
    assert lake.listed(memory)[1] == {"sales.a"}


def test_a_directory_that_is_not_understood_is_left_alone(tmp_path: Path) -> None:
    """An empty base would hide two deltas."""
    lake = Lake(tmp_path, "a")
    (tmp_path / "a" / "base_0000002").mkdir()
    state = lake.look().tables["sales.a"]
    assert state.partitions == ()
    assert state.left_alone
    assert (state.left_alone.count, state.left_alone.example) == (1, "")
    assert "base_0000002" in state.left_alone.message


def test_a_partition_outside_the_warehouse_is_left_alone(tmp_path: Path) -> None:
    """A compaction of it would be refused. It is not even listed."""
    (narrow,) = CONFIG.warehouses
    places = (str(tmp_path / "p"),)
    lake = Lake(tmp_path)
    config = CONFIG.model_copy(update={"warehouses": (narrow.model_copy(update={"locations": places}),)})
    lake.work = Work(config, clock=lambda: lake.now, connect=lambda _: lake.metastore.client())
    lake.add("p", partition_keys=("day",))
    places_of = {"1": tmp_path / "p" / "day=1", "2": tmp_path / "elsewhere", "3": tmp_path / "nowhere"}
    parts = [Partition(f"day={day}", (day,), str(place), 100) for day, place in places_of.items()]
    lake.metastore.partitions["sales.p"] = {one.name: one for one in parts}
    lake.write("p", 2, partition="day=1")
    lake.write("p", 2, partition="../elsewhere")
    state = lake.look().tables["sales.p"]
    assert [one.name for one in state.partitions] == ["day=1"]
    assert state.left_alone
    assert (state.left_alone.count, state.left_alone.example) == (2, "day=3")
    assert str(tmp_path / "nowhere") in state.left_alone.message


def test_a_metastore_that_does_not_answer_is_no_empty_warehouse(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "a")
    lake.metastore.fail(MetastoreUnavailable("connection refused"), "valid_write_ids_of")
    answer = lake.work.survey("lake", SPEC, Memory(), ended={}, due=())
    assert answer == Trouble("MetastoreUnavailable", "connection refused")


def test_a_store_that_does_not_answer_is_asked_once_in_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the next look made at once."""
    asked: list[str] = []

    class Silent(LocalStorage):
        def list_partitions(self, paths: Collection[str]) -> dict[str, Listed]:
            asked.extend(paths)
            return {path: StorageError("no answer", passing=True) for path in paths}

    lake = Lake(tmp_path, "a", "b", "c")
    storage = Silent()
    lake.work = Work(
        CONFIG, clock=lambda: lake.now, connect=lambda _: lake.metastore.client(), stores=lambda _: lambda _: storage
    )
    first = lake.look()
    assert len(asked) == 1
    assert {state.problem and state.problem.reason for state in first.tables.values()} == {"StorageUnavailable"}
    monkeypatch.setattr(survey, "LISTED_AT_ONCE", 1)
    assert not first.unread | lake.look(first).unread


def test_the_age_of_aborted_writes_counts_from_when_they_were_first_seen(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "a")
    lake.metastore.set_write_ids(f"sales.a:2:{2**63 - 1}::2")
    memory = lake.look()
    lake.now += HOUR
    since: list[datetime | None] = [
        one.aborted_since for one in lake.look(memory, ended={"sales.a": NOON}).tables["sales.a"].partitions
    ]
    assert since == [NOON]


@pytest.mark.parametrize("error", [errno.EIO, errno.EACCES, errno.ESTALE])
def test_a_directory_that_cannot_be_read_is_no_clean_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """It is read again at each look, and what was known of it stays."""
    lake = Lake(tmp_path, "a")
    known = lake.look()
    lake.write("a", 3)
    with monkeypatch.context() as broken:
        broken.setattr(os, "scandir", raising(OSError(error, os.strerror(error))))
        missing = lake.look(known)
    problem = missing.tables["sales.a"].problem
    assert problem and (problem.reason, problem.passing) == ("StorageUnavailable", True)
    assert missing.tables["sales.a"].partitions == known.tables["sales.a"].partitions
    assert missing.lacks("sales.a")
    lake.now += HOUR
    assert deltas(lake.look(missing), "sales.a") == [3]


def test_a_volume_that_is_not_there_is_no_empty_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "a")
    lake.add("p", partition_keys=("day",))
    lake.metastore.partitions["sales.p"] = {"day=1": Partition("day=1", ("1",), str(tmp_path / "p" / "day=1"), 0)}
    (tmp_path / "a").rename(tmp_path / "gone")
    first = lake.look()
    problem = first.tables["sales.a"].problem
    assert problem and problem.passing
    assert "is its volume there?" in problem.message
    assert first.tables["sales.p"].problem is None  # its partition alone is missing
    (tmp_path / "gone").rename(tmp_path / "a")
    assert lake.look(first).tables["sales.a"].partitions


def test_one_table_that_the_metastore_cannot_answer_for_does_not_end_the_look(tmp_path: Path) -> None:
    """Two in a row do: then it does not answer at all."""
    lake = Lake(tmp_path, "a", "b", "c")
    bad = {"b"}

    def hang_up(_: str, names: Collection[str]) -> None:
        if bad & set(names):
            raise MetastoreUnavailable("it hung up")

    lake.metastore.on("get_tables", hang_up)
    first = lake.look()
    assert {name for name, state in first.tables.items() if state.partitions} == {"sales.a", "sales.c"}
    problem = first.tables["sales.b"].problem
    assert problem and (problem.reason, problem.passing) == ("MetastoreError", True)
    bad.add("c")
    assert isinstance(lake.work.survey("lake", SPEC, first, ended={"sales.c": lake.now}, due=()), Trouble)
    bad.clear()
    assert lake.look(first).tables["sales.b"].partitions
