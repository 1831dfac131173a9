"""A policy's look at Hudi tables: real directories with the names that Hudi gives, and no Hudi."""

import errno
import os
import shutil
from collections.abc import Collection, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.policy import CompactionPolicySpec, HudiTemplate, PolicyTemplate, Tables, Thresholds
from compaction_operator.controller import survey, timelines
from compaction_operator.controller.timelines import Timelines
from compaction_operator.controller.work import Work
from compaction_operator.metastore import MetastoreError, Table
from compaction_operator.policy import candidates
from compaction_operator.policy.candidates import Candidate, candidates_of
from compaction_operator.policy.memory import Memory, TableState
from compaction_operator.policy.thresholds import DELTA_COMMITS
from compaction_operator.storage import Storage
from tests.unit.controller.sandbox import CONFIG, NOON
from tests.unit.controller.test_survey import HOUR, Lake, raising
from tests.unit.controller.test_work import table

REALTIME = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
PROPERTIES = {
    "hoodie.table.name": "orders",
    "hoodie.table.version": "8",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
}


class HudiLake(Lake):
    """A lake with Hudi tables of version 8; they are external tables, as Hive sync makes them."""

    spec = CompactionPolicySpec(warehouse="lake", tables=Tables(include=("*.*",)))

    def add_hudi(self, name: str, *, place: str | None = None, commits: int = 5, **changes: Any) -> Table:
        made = table(self.folder / (place or name), name=name, parameters={}, input_format=REALTIME)
        self.metastore.tables[f"sales.{name}"] = made
        self.metastore.external.add(f"sales.{name}")
        self.metastore.alter_table(f"sales.{name}", **changes)
        if place is None:
            self.properties(name)
            for number in range(commits):
                self.commit(name, number)
        return made

    def properties(self, name: str, **changed: str) -> None:
        found = {**PROPERTIES, **{f"hoodie.{key.replace('_', '.')}": value for key, value in changed.items()}}
        home = self.folder / name / ".hoodie"
        (home / "timeline").mkdir(parents=True, exist_ok=True)
        (home / "hoodie.properties").write_text("".join(f"{key}={value}\n" for key, value in found.items()))

    def commit(self, name: str, number: int) -> None:
        """The first commit makes a base file, the others a log file each."""
        time = f"20261124151{number:03d}000"
        timeline, data = self.folder / name / ".hoodie/timeline", self.folder / name / "day=1"
        data.mkdir(exist_ok=True)
        for state in (f"{time}.deltacommit.requested", f"{time}_{time}.deltacommit"):
            (timeline / state).write_text("{}")
        file = f".f-0_{time}.log.1_0-1-0" if number else f"f-0_0-1-0_{time}.parquet"
        (data / file).write_bytes(bytes(10 if number else 1000))

    def look(self, memory: Memory | None = None, **more: Any) -> Memory:
        found = self.work.survey("lake", self.spec, memory or Memory(), ended={}, due=(), **more)
        assert isinstance(found, Memory), found
        return found

    def template(self, **hudi: Any) -> None:
        self.spec = self.spec.model_copy(update={"template": PolicyTemplate(hudi=HudiTemplate(**hudi))})


def candidate(state: TableState) -> Candidate:
    (found,) = candidates_of(state, HudiLake.spec.partitions, (), NOON)
    return found


def problem(memory: Memory, name: str = "sales.orders") -> str | None:
    found = memory.tables[name].problem
    return found.reason if found else None


def test_a_hudi_table_is_due_by_its_delta_commits(tmp_path: Path) -> None:
    lake = HudiLake(tmp_path)
    lake.add_hudi("orders", commits=4)
    first = lake.look()
    assert candidates_of(first.tables["sales.orders"], lake.spec.partitions, (), NOON) == ()
    lake.commit("orders", 4)
    one = candidate(lake.look(first).tables["sales.orders"])
    assert (one.type, one.reason) == (CompactionType.COMPACTION, "5 delta commits since the last compaction >= 5")
    assert (one.files_saved, one.bytes) == (4, 1040)
    assert one.hudi and one.hudi.options == {"hoodie.compact.inline.max.delta.commits": "5"}


@pytest.mark.parametrize(("metadata", "types"), [("", {CompactionType.LOG_COMPACTION}), ("files", set())])
def test_before_version_8_a_table_with_a_metadata_table_is_never_due_for_a_log_compaction(
    tmp_path: Path, metadata: str, types: set[CompactionType]
) -> None:
    lake = HudiLake(tmp_path)
    lake.spec = lake.spec.model_copy(update={"thresholds": Thresholds(delta_commits=99, log_blocks=2)})
    lake.add_hudi("orders")
    lake.properties("orders", table_version="6", table_metadata_partitions=metadata)
    home = tmp_path / "orders" / ".hoodie"
    for file in (home / "timeline").iterdir():
        file.rename(home / f"{file.name.partition('_')[0]}.deltacommit" if "_" in file.name else home / file.name)
    found = candidates_of(lake.look().tables["sales.orders"], lake.spec.partitions, (), NOON)
    assert {one.type for one in found} == types


def test_what_decides_what_a_compaction_finds_is_remembered_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its options, the thresholds that Hudi plans by, the owner's and the warehouse's, plans, and this version."""
    lake = HudiLake(tmp_path)
    lake.add_hudi("orders")
    memory = lake.look()
    seen = [candidate(memory.tables["sales.orders"]).seen]
    assert candidate(lake.look(memory).tables["sales.orders"]).seen == seen[0]

    def look() -> None:
        seen.append(candidate(lake.look(memory).tables["sales.orders"]).seen)

    lake.template(options={"hoodie.a": "b"})
    look()
    lake.spec = lake.spec.model_copy(update={"thresholds": Thresholds(delta_commits=4)})
    look()
    lake.metastore.alter_table("sales.orders", parameters={DELTA_COMMITS: "3"})
    look()
    warehouse = CONFIG.warehouses[0]
    hudi = warehouse.hudi.model_copy(update={"options": {**warehouse.hudi.options, "hoodie.c": "d"}})
    changed = CONFIG.model_copy(update={"warehouses": (warehouse.model_copy(update={"hudi": hudi}),)})
    lake.work = Work(changed, clock=lambda: lake.now, connect=lambda _: lake.metastore.client())
    look()
    plan = lake.folder / "orders/.hoodie/timeline/20261124151999000.compaction.requested"
    plan.write_text("")
    look()
    monkeypatch.setattr(candidates, "__version__", "0.2.0")
    look()
    assert len({*seen}) == len(seen) == 7
    plan.unlink()
    monkeypatch.undo()
    look()
    assert seen[-1] == seen[4]


def test_the_owner_of_a_hudi_table_decides_in_its_properties(tmp_path: Path) -> None:
    """By Hudi's own names. The lock key of the writers is taken over, as they would not exclude the operator."""
    lake = HudiLake(tmp_path)
    parameters = {
        "hoodie.compact.inline.max.delta.commits": "20",
        "hoodie.log.compaction.blocks.threshold": "3",
        "hoodie.write.lock.zookeeper.lock_key": "mine",
        "hoodie.write.lock.provider": "evil.Provider",
    }
    lake.add_hudi("orders", parameters=parameters)
    lake.template(options={"hoodie.memory.merge.max.size": "7"}, max_log_file_size_to_merge=15, clean=True)
    one = candidate(lake.look().tables["sales.orders"])
    assert (one.type, one.files_saved, one.bytes) == (CompactionType.LOG_COMPACTION, 3, 40)
    assert one.hudi
    assert one.hudi.options == {
        "hoodie.memory.merge.max.size": "7",
        "hoodie.log.compaction.blocks.threshold": "3",
        "hoodie.write.lock.zookeeper.lock_key": "mine",
    }
    assert (one.hudi.max_log_file_size_to_merge, one.hudi.clean) == (15, False)


def test_a_hudi_table_has_a_weight_and_keeps_its_hours_from_look_to_look(tmp_path: Path) -> None:
    lake = HudiLake(tmp_path)
    lake.add_hudi("orders", parameters={"compaction.dev/policy.weight": "16"})
    first = lake.look()
    assert first.tables["sales.orders"].weight == 16.0
    lake.commit("orders", 5)
    lake.now += HOUR
    (part,) = lake.look(first).tables["sales.orders"].partitions
    assert part.loose_for(CompactionType.COMPACTION, NOON + HOUR) == HOUR


def test_the_size_limit_is_left_out_for_a_table_before_version_8(tmp_path: Path) -> None:
    """Its compaction would be refused."""
    lake = HudiLake(tmp_path)
    lake.add_hudi("orders")
    lake.properties("orders", table_version="6")
    shutil.copytree(tmp_path / "orders/.hoodie/timeline", tmp_path / "orders/.hoodie", dirs_exist_ok=True)
    lake.template(max_log_file_size_to_merge=15)
    state = lake.look().tables["sales.orders"]
    assert state.problem is None
    assert [one.max_log_file_size_to_merge for one in state.hudi.values()] == [None, None]


@pytest.mark.parametrize(
    ("properties", "changes", "reason", "says"),
    [
        ({"table_type": "COPY_ON_WRITE"}, {}, "NotMergeOnRead", "copy-on-write"),
        ({"record_merge_mode": "CUSTOM"}, {}, "UnsupportedTable", "merges records by CUSTOM"),
        ({"table_version": "7"}, {}, "UnsupportedTable", "version 7"),
        ({}, {"parameters": {"compaction.dev/policy": "off"}}, "OptedOut", "compaction.dev/policy"),
        ({}, {"parameters": {"hoodie.log.compaction.blocks.threshold": "1"}}, "InvalidProperty", "at least 2"),
        ({}, {"location": "gopher://x/y"}, "UnsupportedTable", "gopher"),
        ({}, {"location": "/nowhere/else"}, "TableNotFound", "is no Hudi table"),
    ],
)
def test_what_a_compaction_would_refuse_is_left_alone(
    tmp_path: Path, properties: dict[str, str], changes: dict[str, Any], reason: str, says: str
) -> None:
    lake = HudiLake(tmp_path)
    lake.add_hudi("orders", **changes)
    lake.properties("orders", **properties)
    memory = lake.look()
    found = memory.tables["sales.orders"].problem
    assert found
    assert (found.reason, found.passing, memory.matched) == (reason, False, 1)
    assert says in found.message
    assert memory.tables["sales.orders"].partitions == ()


def test_without_a_lock_provider_a_hudi_table_is_left_alone_unless_it_has_a_single_writer(tmp_path: Path) -> None:
    lake = HudiLake(tmp_path)
    (narrow,) = CONFIG.warehouses
    hudi = narrow.hudi.model_copy(update={"options": {}})
    config = CONFIG.model_copy(update={"warehouses": (narrow.model_copy(update={"hudi": hudi}),)})
    lake.work = Work(config, clock=lambda: lake.now, connect=lambda _: lake.metastore.client())
    lake.add_hudi("orders")
    first = lake.look()
    assert problem(first) == "NoLockProvider"
    lake.template(single_writer=True)
    assert problem(lake.look()) is None


def test_two_names_of_one_place_are_one_table(tmp_path: Path) -> None:
    """Hive sync makes two: one reads the base files only. The one that was seen first stands for both."""
    lake = HudiLake(tmp_path)
    lake.add_hudi("orders_ro")
    lake.add_hudi("orders_rt", place="orders_ro", location=f"file:{tmp_path}/orders_ro/")
    memory = Memory()
    for _ in range(3):
        memory = lake.look(memory)
        assert (problem(memory, "sales.orders_ro"), problem(memory, "sales.orders_rt")) == (None, "SameTable")
    assert memory.names_of_places() == {str(tmp_path / "orders_ro"): "sales.orders_ro"}
    lake.metastore.tables.pop("sales.orders_ro")
    assert problem(lake.look(memory), "sales.orders_rt") is None


def test_log_files_are_read_again_only_if_something_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, plain = list[str](), Timelines._files

    def counted(self: Timelines, name: str, storage: Storage, place: str) -> Iterator[tuple[str, str, int]]:
        listed.append(place)
        return plain(self, name, storage, place)

    monkeypatch.setattr(Timelines, "_files", counted)
    lake = HudiLake(tmp_path)
    lake.add_hudi("orders")
    first = lake.look()
    lake.now += HOUR
    second = lake.look(first)
    assert (len(listed), second.tables["sales.orders"].looked) == (1, lake.now)
    lake.commit("orders", 5)
    third = lake.look(second)
    assert (len(listed), third.tables["sales.orders"].version == first.tables["sales.orders"].version) == (2, False)
    lake.spec = lake.spec.model_copy(update={"thresholds": Thresholds(delta_commits=99, log_blocks=99)})
    assert len(listed) == 2
    assert candidates_of(lake.look(third).tables["sales.orders"], lake.spec.partitions, (), NOON) == ()


def test_a_store_that_does_not_answer_keeps_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = HudiLake(tmp_path)
    lake.add_hudi("orders")
    first = lake.look()
    lake.commit("orders", 5)
    with monkeypatch.context() as broken:
        broken.setattr(os, "scandir", raising(OSError(errno.EIO, "broken")))
        missing = lake.look(first)
    assert missing.lacks("sales.orders") or problem(missing) == "StorageUnavailable"
    assert missing.tables["sales.orders"].partitions == first.tables["sales.orders"].partitions
    assert problem(lake.look(missing)) is None


def test_other_external_tables_are_read_once_an_hour_and_count_for_nothing(tmp_path: Path) -> None:
    lake = HudiLake(tmp_path)
    lake.add_hudi("orders")
    lake.metastore.tables["sales.parquet"] = table(tmp_path / "x", name="parquet", parameters={}, input_format="x")
    lake.metastore.external.add("sales.parquet")
    first = lake.look()
    assert (set(first.tables), first.matched, set(first.external)) == ({"sales.orders"}, 1, {"sales.parquet"})
    for pause, calls in ((timedelta(minutes=59), [["orders"]]), (timedelta(minutes=1), [["orders", "parquet"]])):
        lake.now += pause
        lake.metastore.calls.clear()
        lake.look(first)
        assert [call.arguments[1] for call in lake.metastore.calls if call.name == "get_tables"] == calls
    lake.metastore.alter_table("sales.parquet", input_format=REALTIME)
    assert "sales.parquet" in lake.look(first).tables


def test_an_external_table_that_cannot_be_read_is_no_reason_to_look_again_at_once(tmp_path: Path) -> None:
    lake = HudiLake(tmp_path)
    lake.add_hudi("orders")
    lake.add_hudi("broken")

    def refuse(_: str, names: Collection[str]) -> None:
        if "broken" in names:
            raise MetastoreError("cannot be read")

    lake.metastore.on("get_tables", refuse)
    first = lake.look()
    assert (set(first.tables), first.is_new) == ({"sales.orders"}, False)


def test_managed_hudi_tables_that_one_look_does_not_read_are_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "FOLDERS_AT_ONCE", 1)
    lake = HudiLake(tmp_path)
    for name in ("a", "b"):
        lake.add_hudi(name)
    lake.metastore.external.clear()
    first = lake.look()
    assert (set(first.tables), set(first.unread), first.is_new) == ({"sales.a"}, {"sales.b"}, True)
    assert set(lake.look(first).tables) == {"sales.a", "sales.b"}


def test_of_many_hudi_tables_some_are_read_in_each_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "LISTED_AT_ONCE", 2)
    lake = HudiLake(tmp_path)
    for name in ("a", "b", "c"):
        lake.add_hudi(name, commits=1)
    first = lake.look()
    assert (set(first.tables), set(first.unread), first.is_new) == ({"sales.a", "sales.b"}, {"sales.c"}, True)
    lake.now += HOUR
    second = lake.look(first)
    assert {name for name, one in second.tables.items() if one.looked == lake.now} == {"sales.c", "sales.a"}
    assert not second.unread


def test_of_a_table_with_very_many_folders_the_last_ones_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "FOLDERS_OF_TABLE", 3)
    lake = HudiLake(tmp_path)
    lake.add_hudi("orders")
    for day in ("0", "2"):
        shutil.copytree(tmp_path / "orders/day=1", tmp_path / f"orders/day={day}")
    shutil.rmtree(tmp_path / "orders/day=2")
    (tmp_path / "orders/day=2").mkdir()
    assert candidate(lake.look().tables["sales.orders"]).bytes == 1040


def test_after_very_many_folders_no_other_table_is_read_in_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "FOLDERS_AT_ONCE", 2)
    lake = HudiLake(tmp_path)
    for name in ("a", "b"):
        lake.add_hudi(name)
    first = lake.look()
    assert (set(first.tables), set(first.unread)) == ({"sales.a"}, {"sales.b"})
    lake.commit("a", 5)
    lake.now += HOUR
    second = lake.look(first)
    assert (set(second.tables), second.tables["sales.a"].looked) == ({"sales.a", "sales.b"}, NOON)
    assert lake.look(second).tables["sales.a"].looked == lake.now


def test_a_managed_hudi_table_and_one_that_was_made_again_as_another(tmp_path: Path) -> None:
    lake = HudiLake(tmp_path)
    made = lake.add_hudi("orders", parameters={"spark.sql.sources.provider": "hudi"}, input_format="x")
    lake.metastore.external.clear()
    memory = lake.look()
    assert candidate(memory.tables["sales.orders"]).type is CompactionType.COMPACTION
    lake.metastore.tables["sales.orders"] = table(tmp_path / "plain", name=made.name)
    assert "sales.orders" not in lake.look(memory).tables
    assert lake.look(lake.look(memory)).tables["sales.orders"].place is None
