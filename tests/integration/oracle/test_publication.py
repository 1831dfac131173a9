"""Between any two file operations of a compaction and its cleanup, Hive reads right by every snapshot there may be."""

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from sandbox.harness.places import Place, files_below

from compaction_operator.acid import plan
from compaction_operator.acid.names import METADATA_ACID, METADATA_ACID_CONTENT
from compaction_operator.acid.snapshot import UnsupportedLayout
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.cleanup import CompactionCleanupSpec
from compaction_operator.api.compaction import HIVE_TYPES, CompactionType
from compaction_operator.cleanup.fence import fence
from compaction_operator.cleanup.staging import INTENT
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive import hive3 as protocol
from compaction_operator.driver.hive import older_snapshots as older
from compaction_operator.driver.hive import publish
from compaction_operator.storage import LocalStorage, open_storage
from tests.integration.oracle.hive import HiveOracle, Row
from tests.integration.oracle.laws import NO_END, Seen
from tests.integration.oracle.living_table import (
    ROW_TYPE,
    LivingTable,
    changes,
    delete,
    insert,
    inserts,
    raw_files,
    retyped,
    row,
    statements,
    update,
)
from tests.integration.oracle.publishing import Driver, Held, clean, metastore_of_table
from tests.integration.oracle.watched import Operation, Watcher, watched
from tests.support.metastore import FakeMetastore

MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
HISTORIES = {"inserts": inserts, "changes": changes, "statements": statements, "retyped": retyped}
STORIES = [
    ("inserts", "minor clean major clean"),
    ("changes", "major write minor major clean"),
    ("changes", "minor write minor clean"),
    ("statements", "major clean write minor clean major"),
    ("statements", "minor major clean"),
]
CASES = [
    *((version, "file", *story) for version in (3, 4) for story in STORIES),
    *((version, "hdfs", "changes", "minor major clean") for version in (3, 4)),
    (4, "s3", "statements", "minor major"),
    (3, "file", "retyped", "minor clean"),
]


PAIR = 2
"""The outputs of a minor compaction with delete events, where all rows have one row type."""


class Killed(BaseException):
    """The process ends here."""


def table_of(hive: HiveOracle, directory: Place, history: str, *, attempt: int | None = 1) -> LivingTable:
    """A table with a reader of each write id, and of each that it saw open; one was there before the first."""
    table = LivingTable(hive, directory, attempt=attempt)
    table.arrive(table.now())
    HISTORIES[history](table)
    table.arrive_while_open(range(1, table.last + 1))
    assert not any(isinstance(seen, str) for seen in table.readers.values())
    return table


def intends(table: LivingTable) -> bool:
    """Whether a driver has said that it will publish a pair."""
    staging = [path for path in table.directory.iterdir() if path.name.startswith("_compaction_")]
    return any((path / INTENT).exists() for path in staging)


def compact(table: LivingTable, kind: CompactionType) -> CompactionCleanupSpec:
    """Compact before the eyes of every reader.

    Only pairs on Hive 3 are misread, just between their renames: then no reader can start, and the next
    fence completes them (H3).
    """
    held, protected = Held(), set()

    def note(operation: Operation) -> None:
        if held.is_exclusive and intends(table):
            protected.add(len(watcher.operations) - 1)

    watcher, before = Watcher(table, also=note), table.rows()
    spec = Driver(table, watcher.storage, locks=held).compact(kind)
    outputs = spec.partitions[0].outputs
    window = set(watcher.window(outputs)) if table.hive.version == 3 else set()
    # Between two pairs all is right: each pair is the merge of one run of a row type.
    assert watcher.misread.keys() == window if len(outputs) <= PAIR else watcher.misread.keys() <= window
    assert window <= protected
    assert table.rows() == before
    return spec


def clean_up(table: LivingTable, specs: Sequence[CompactionCleanupSpec]) -> None:
    """Delete, when the readers have left, before the eyes of those who come then."""
    table.leave()
    watcher = Watcher(table)
    for spec in specs:
        assert clean(table, spec, watcher.storage, now=table.now()).final
        (entry,) = spec.partitions
        assert not {one.name for one in entry.obsolete} & {path.name for path in table.directory.iterdir()}
    assert watcher.misread == {}
    assert [done for done in watcher.operations if done.verb == "delete"]
    rows = table.rows()
    # Once nothing is left of them, the metastore forgets aborted write ids (H8).
    table.aborted = {write_id for write_id in table.aborted if write_id > table.settled}
    assert table.rows() == rows


def write_on(table: LivingTable) -> None:
    """Insert into a bucket that was not there, and let Hive change rows by the ROW__IDs that it reads (H22)."""
    table.write({3: insert(100 + table.last)})
    before, buckets = table.rows(), dict[int, list[Row]]()
    for found in before:
        buckets.setdefault(found.bucket >> 16 & 0xFFF, []).append(found)
    ends = {bucket: (rows[0], rows[1:][-1:]) for bucket, rows in buckets.items()}
    changed = {
        bucket: [*delete(first[:3]), *update(200, *(last[:3] for last in lasts))]
        for bucket, (first, lasts) in ends.items()
    }
    table.write(changed)
    gone = [found for first, lasts in ends.values() for found in (first, *lasts)]
    after = table.rows()
    assert [found for found in after if found.write_id < table.last] == [one for one in before if one not in gone]
    assert [found.values for found in after if found.write_id == table.last] == [[200]] * (len(gone) - len(ends))
    table.arrive_while_open([table.last - 1, table.last])


@pytest.mark.parametrize(("version", "folder", "history", "story"), CASES, indirect=["folder"])
def test_every_reader_reads_right_at_every_moment(
    version: int, folder: Place, history: str, story: str, oracles: dict[int, HiveOracle]
) -> None:
    table = table_of(oracles[version], folder / "t", history)
    specs: list[CompactionCleanupSpec] = []
    for step in story.split():
        if step == "clean":
            clean_up(table, specs)
            specs = []
        elif step == "write":
            write_on(table)
        else:
            specs.append(compact(table, CompactionType[step.upper()]))
            table.arrive(table.now())


@pytest.mark.parametrize("folder", ["s3"], indirect=True)
def test_a_directory_that_is_half_deleted_disturbs_no_query(hive4: HiveOracle, folder: Place) -> None:
    """On S3 nothing is hidden first. A query that began before has its files; another one lists what is left."""
    table = table_of(hive4, folder / "t", "statements")
    spec = Driver(table, open_storage(str(folder))).compact(MAJOR)
    table.leave()
    (entry,) = spec.partitions
    files = [file for one in entry.obsolete for file in files_below(table.directory / one.name)]
    plans = {view: [table.plan(view) for _ in files] for view in table.readers}
    answers = {view: table.see(view) for view in plans}

    def read_plans(_: Operation) -> None:
        found = {view: sorted(hive4.read_plan(waiting.pop())) for view, waiting in plans.items()}
        assert found == answers

    watcher = Watcher(table, also=read_plans)
    assert clean(table, spec, watcher.storage, now=table.now()).final
    assert [done.verb for done in watcher.operations] == ["delete"] * len(files)
    assert watcher.misread == {}
    assert not any(plans.values())


def killed_at(number: int, table: LivingTable, kind: CompactionType) -> list[Operation]:
    """Compact until some operation is done, or to the end; return the operations."""

    def after(operation: Operation) -> None:
        done.append(operation)
        if len(done) > number:
            raise Killed

    done: list[Operation] = []
    with suppress(Killed):
        Driver(table, watched(table.directory, after)).compact(kind)
    return done


@pytest.mark.parametrize("folder", ["file", "hdfs"], indirect=True)
def test_a_pair_that_was_begun_is_completed_and_read_right(hive3: HiveOracle, folder: Place) -> None:
    """H3: the driver is killed after any operation of publication; no reader starts before the fence has run."""
    table = table_of(hive3, folder / "t", "changes")
    done = killed_at(1000, table.copy(folder / "whole"), MINOR)
    (begun,) = (number for number, (verb, path) in enumerate(done) if verb == "write" and path.endswith(INTENT))
    half = done.index(Operation("rename", "delta_0000001_0000005"))
    second = done.index(Operation("rename", "delete_delta_0000001_0000005"))
    for number in range(begun, len(done)):
        copied = table.copy(folder / str(number))
        killed_at(number, copied, MINOR)
        assert bool(copied.misread(row_reader=False)) == (half <= number < second)
        fence(open_storage(str(folder)), str(copied.directory), keep=None)
        assert copied.misread(row_reader=True) == []
        names = {path.name for path in copied.directory.iterdir()}
        assert {"delta_0000001_0000005", "delete_delta_0000001_0000005"} <= names or number < half
        assert not [name for name in names if name.startswith("_")]


def test_runs_of_one_row_type_that_were_begun_are_all_completed(hive3: HiveOracle, tmp_path: Path) -> None:
    """H3: as with one pair, for the pairs of all runs at once."""
    table = table_of(hive3, tmp_path / "t", "retyped")
    done = killed_at(1000, table.copy(tmp_path / "whole"), MINOR)
    outputs = {path for verb, path in done if verb == "rename" and path.startswith(("delta_", "delete_delta_"))}
    assert len(outputs) == 4
    (begun,) = (number for number, (verb, path) in enumerate(done) if verb == "write" and path.endswith(INTENT))
    renamed = [number for number, (_, path) in enumerate(done) if number > begun and path in outputs]
    for number in (begun, *renamed):
        copied = table.copy(tmp_path / str(number))
        killed_at(number, copied, MINOR)
        fence(LocalStorage(), str(copied.directory), keep=None)
        assert copied.misread(row_reader=True) == []
        names = {path.name for path in copied.directory.iterdir()}
        assert outputs & names == (set() if number == begun else outputs)
        assert not [name for name in names if name.startswith("_")]


def test_without_the_intent_half_a_pair_stays_and_is_misread(
    hive3: HiveOracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3, not protected."""
    monkeypatch.setattr(publish, "needs_exclusive", lambda _: False)
    table = table_of(hive3, tmp_path / "t", "changes")
    done = killed_at(1000, table.copy(tmp_path / "whole"), MINOR)
    killed_at(done.index(Operation("rename", "delta_0000001_0000005")), table, MINOR)
    fence(LocalStorage(), str(table.directory), keep=None)
    assert table.misread(row_reader=False)


def test_without_the_guard_older_snapshots_are_lost(
    hive3: HiveOracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H24, not protected: a first base leaves them nothing to read."""
    monkeypatch.setattr(protocol, "with_guard", lambda plan: plan)
    table = table_of(hive3, tmp_path / "t", "changes")
    watcher = Watcher(table)
    Driver(table, watcher.storage).compact(MAJOR)
    first = min(watcher.misread)
    assert watcher.operations[first] == ("rename", "base_0000005")
    assert all("Not enough history" in misread for misread in watcher.misread[first])
    # All but the last one, by each of Hive's two readers.
    assert len(watcher.misread[first]) == 2 * (len(table.readers) - 1)


def leaving(table: LivingTable) -> FakeMetastore:
    """At the fourth question the older transactions have ended; of the readers stay those who came last."""
    metastore = metastore_of_table(table)

    def leave() -> None:
        if metastore.count("open_transactions") >= 4:
            metastore.set_transactions(table.txn)
        if metastore.count("open_transactions") == 4:
            table.readers = {table.now(): table.rows()}

    metastore.on("open_transactions", leave)
    return metastore


@pytest.mark.parametrize("version", [3, 4])
def test_files_from_before_acid_are_folded_in_when_no_reader_needs_them(
    version: int, oracles: dict[int, HiveOracle], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H15, H24: any base hides them, so on Hive 3 the driver waits for their readers. It keeps what is unknown."""
    monkeypatch.setattr(older, "POLL_SECONDS", 0.001)
    table = LivingTable(oracles[version], tmp_path / "t", first=10_000_000)
    raw_files(table)
    table.arrive_while_open(range(10_000_001, table.last + 1))
    watcher, client, before = Watcher(table), leaving(table), table.rows()
    spec = Driver(table, watcher.storage, client=client).compact(MAJOR)
    assert watcher.misread == {}
    assert table.rows() == before
    assert client.count("open_transactions") == (5 if version == 3 else 0)
    (table.directory / "unknown").mkdir()
    clean_up(table, [spec])
    assert {path.name for path in table.directory.iterdir()} == {*spec.partitions[0].outputs, "unknown"}


@pytest.mark.parametrize("version", [3, 4])
def test_files_in_an_unknown_directory_stop_a_major(
    version: int, oracles: dict[int, HiveOracle], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H15: Hive reads them as it reads original files. A minor leaves both alone; without the check rows are lost."""
    table = LivingTable(oracles[version], tmp_path / "t", first=10_000_000)
    table.write_file("elsewhere/000000_0", 1, 2)
    table.write({0: insert(10)})
    table.write({0: insert(20)})
    assert [found.values for found in table.rows()] == [[1], [2], [10], [20]]
    with pytest.raises((UnsupportedLayout, JobError), match="elsewhere/000000_0 is in a directory"):
        Driver(table, LocalStorage()).compact(MAJOR)
    compact(table, MINOR)
    monkeypatch.setattr(plan, "_require_known_originals", lambda *_: None)
    client = metastore_of_table(table, older=False)
    with suppress(JobError):
        Driver(table, LocalStorage(), client=client).compact(MAJOR)
    assert [found.values for found in table.rows()] != [[1], [2], [10], [20]]


@pytest.mark.parametrize("version", [3, 4])
def test_without_its_mark_our_base_is_taken_for_an_insert_overwrites(
    version: int, oracles: dict[int, HiveOracle], tmp_path: Path
) -> None:
    """H7: a reader with an open write id below it would use it, although it lacks rows that the reader must see."""
    table = LivingTable(oracles[version], tmp_path / "t")
    table.write({0: insert(10, 11)})
    table.write({0: delete(row(1, 0, 0))})
    table.write({0: insert(30)})
    table.readers.clear()
    table.arrive_while_open([2])
    (output,) = compact(table, MAJOR).partitions[0].outputs
    base = table.directory / output
    mark, spoilt = (base / METADATA_ACID, base / "_other") if version == 3 else (base, base.with_name("base_0000003"))
    mark.rename(spoilt)
    (misread, _) = table.misread(row_reader=True)
    assert "values=[11])" in misread
    spoilt.rename(mark)
    assert table.misread(row_reader=True) == []


def with_an_open_write(hive: HiveOracle, directory: Path) -> LivingTable:
    """A table with a write that goes on in the middle: it has written all, but may still commit or abort."""
    table = LivingTable(hive, directory)
    table.write({0: insert(10, 11, 12)})
    table.write({0: [*delete(row(1, 0, 0))], 1: insert(20)})
    table.write({0: [*update(30, row(1, 0, 1))], 1: insert(31)}, open_=True)
    table.write({0: [*update(40, row(1, 0, 2))]})
    table.arrive_while_open(range(1, 5))
    return table


def outcomes(table: LivingTable) -> list[Seen]:
    """What is seen if the open writes commit, and if they abort."""
    return [table.see(table.now(open=set())), table.see(table.now(open=set(), aborted=table.open))]


@pytest.mark.parametrize("kind", HIVE_TYPES)
@pytest.mark.parametrize("version", [3, 4])
def test_an_open_write_may_end_as_it_likes(
    version: int, kind: CompactionType, oracles: dict[int, HiveOracle], tmp_path: Path
) -> None:
    """H8."""
    table = with_an_open_write(oracles[version], tmp_path / "t")
    ends = outcomes(table)
    spec = compact(table, kind)
    assert outcomes(table) == ends
    clean_up(table, [spec])
    assert outcomes(table) == ends


@pytest.mark.parametrize("kind", HIVE_TYPES)
@pytest.mark.parametrize("version", [3, 4])
def test_above_an_open_write_its_rows_are_lost(
    version: int, kind: CompactionType, oracles: dict[int, HiveOracle], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H8, not protected: nothing holds the compaction back below the lowest open write id."""
    table = with_an_open_write(oracles[version], tmp_path / "t")
    committed, _ = outcomes(table)
    monkeypatch.setattr(ValidWriteIdList, "watermark", property(lambda ids: ids.high_watermark))
    Driver(table, LocalStorage()).compact(kind)
    assert outcomes(table)[0] != committed


def hive_compacts(table: LivingTable) -> None:
    """Hive's own worker publishes a major compaction of the first two write ids, which it had begun before."""
    for bucket in (0, 1):
        table.hive.compact(
            [table.directory / f"delta_{number:07}_{number:07}_0000" for number in (1, 2)],
            table.directory / "_tmp",
            major=True,
            bucket=bucket,
            row_type=ROW_TYPE,
            min_write_id=1,
            max_write_id=2,
        )
    (base,) = (table.directory / "_tmp").iterdir()
    if table.hive.version == 3:
        (base / METADATA_ACID).write_bytes(METADATA_ACID_CONTENT)
    base.rename(table.directory / (base.name + ("_v0000050" if table.hive.version == 4 else "")))


def overtaken(table: LivingTable) -> Driver:
    """A driver that Hive's worker overtakes right before it publishes."""

    def assembled(operation: Operation) -> None:
        if operation.verb == "write" and not (table.directory / "_tmp").exists():
            hive_compacts(table)

    return Driver(table, watched(table.directory, assembled))


@pytest.mark.parametrize("version", [3, 4])
def test_an_overtaken_driver_publishes_nothing(version: int, oracles: dict[int, HiveOracle], tmp_path: Path) -> None:
    """H23."""
    table = table_of(oracles[version], tmp_path / "t", "inserts", attempt=None)
    before = table.rows()
    with pytest.raises(JobError, match=r"base_0000002\S* appeared after the plan was made"):
        overtaken(table).compact(MINOR)
    assert not (table.directory / "delta_0000001_0000007").exists()
    assert table.rows() == before


@pytest.mark.parametrize("version", [3, 4])
def test_overlapping_compactions_double_rows(
    version: int, oracles: dict[int, HiveOracle], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H23, not protected. On Hive 3.1 the look afterwards names both directories."""
    monkeypatch.setattr(publish, "check_still_publishable", lambda *_: None)
    table = table_of(oracles[version], tmp_path / "t", "inserts", attempt=None)
    before = table.rows()
    named = pytest.raises(JobError, match="delta_0000001_0000007 and base_0000002 overlap")
    with named if version == 3 else nullcontext():
        overtaken(table).compact(MINOR)
    assert table.rows() == sorted([*before, *(found for found in before if found.write_id <= 2)], key=lambda r: r[:3])


@pytest.mark.parametrize("kind", HIVE_TYPES)
def test_what_an_aborted_compaction_published_is_neither_read_nor_makes_anything_obsolete(
    kind: CompactionType, hive4: HiveOracle, tmp_path: Path
) -> None:
    """H10: on Hive 4 the directories are there, but their transaction did not commit."""
    table = table_of(hive4, tmp_path / "t", "changes")
    before = table.rows()
    spec = Driver(table, LocalStorage()).compact(kind)
    aborted = table.now(txns=f"{table.txn}:{NO_END}::{table.txn}")
    assert table.see(aborted) == before
    deletion = clean(table, spec, LocalStorage(), now=aborted)
    assert deletion.deleted == ("delete_delta_0000004_0000004_0000",), "an aborted write's, which no snapshot includes"
    assert table.misread(row_reader=True) == []
