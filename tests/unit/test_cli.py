"""The offline verbs by what a user sees of them: exit code, standard output and standard error."""

import json
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyarrow.orc import ORCFile

from compaction_operator import __version__
from compaction_operator.cli import main
from compaction_operator.receipts import Ledger
from compaction_operator.storage import LocalStorage
from tests.unit.receipts.test_chain import draft as receipt_of

FIXTURES = Path(__file__).parent.parent / "fixtures"
NOTHING_OPEN = "9223372036854775807::"


PROGRAM = [sys.executable, "-c", "from compaction_operator.cli import main; main()"]


def verb(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program's main function as its process would, without the cost of starting one."""
    code: int | str | None = 0
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err, patch("sys.argv", ["x", *arguments]):
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def json_of(*arguments: str) -> dict[str, Any]:
    done = verb(*arguments, "--output", "json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def obsolete(answer: dict[str, Any]) -> list[str]:
    return sorted(entry["name"] for entry in answer["obsolete"])


def tree(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


@pytest.fixture
def three_inserts(tmp_path: Path) -> Path:
    """The openLooKeng document's table_txn_001 after three inserts, as real Hive 3.1.3 wrote it."""
    return Path(shutil.copytree(FIXTURES / "hive-3.1.3/table_txn_001/before", tmp_path / "table_txn_001"))


@pytest.fixture
def try_it(tmp_path: Path) -> Path:
    """The blog's partitioned table after its six transactions."""
    return Path(shutil.copytree(FIXTURES / "hive-3.1.3/try_it/before", tmp_path / "try_it"))


def arguments(location: Path, kind: str, write_ids: str) -> list[str]:
    return ["--location", str(location), "--type", kind, "--write-ids", write_ids]


THREE = f"default.table_txn_001:3:{NOTHING_OPEN}"
SIX = f"default.try_it:6:{NOTHING_OPEN}"


def size_of(directory: Path) -> int:
    """The bytes of the files with rows."""
    return sum(path.stat().st_size for path in directory.glob("bucket_*"))


DELTAS = [f"delta_000000{n}_000000{n}_0000" for n in (1, 2, 3)]


def test_plan_says_what_a_minor_would_do_and_writes_nothing(three_inserts: Path) -> None:
    before = tree(three_inserts)
    planned = json_of("plan", *arguments(three_inserts, "minor", THREE))
    assert planned["base"] is None
    assert planned["deltas"] == DELTAS
    assert planned["output_directories"] == ["delta_0000001_0000003"]
    assert obsolete(planned) == DELTAS
    assert all(entry["reason"] for entry in planned["obsolete"])
    assert tree(three_inserts) == before


def test_plan_and_compact_name_the_same_things_by_the_same_keys(three_inserts: Path) -> None:
    planned = json_of("plan", *arguments(three_inserts, "minor", THREE))
    done = json_of("compact", *arguments(three_inserts, "minor", THREE))
    assert planned.pop("forecast")
    assert {key: done[key] for key in planned} == planned


def test_plan_forecasts_what_compact_then_does(try_it: Path) -> None:
    options = arguments(try_it / "prt=p2", "major", SIX)
    said = json_of("plan", *options)["forecast"]
    done = json_of("compact", *options)
    assert said["rows_removed"] == done["rows_in"] - done["rows_out"] == 2
    assert said["bytes_copied"] == done["bytes_copied"]
    assert said["bytes_rewritten"] == pytest.approx(done["bytes_rewritten"], rel=0.2)
    assert (said["files_in"], said["bytes_in"]) == (5, done["bytes_ingested"])
    assert said["pods"] == 1
    assert said["cpu_seconds"] > 0


def test_a_plan_with_an_unreadable_file_says_why_it_forecasts_nothing(three_inserts: Path) -> None:
    broken = three_inserts / DELTAS[1] / "bucket_00000"
    broken.write_bytes(broken.read_bytes()[:-20])
    planned = json_of("plan", *arguments(three_inserts, "major", THREE))
    assert planned["output_directories"] == ["base_0000003"]
    assert list(planned["forecast"]) == ["problem"]
    assert f"{DELTAS[1]}/bucket_00000" in planned["forecast"]["problem"]
    assert "forecast  none: " in verb("plan", *arguments(three_inserts, "major", THREE)).stdout


def test_a_plan_of_nothing_forecasts_nothing(three_inserts: Path) -> None:
    json_of("compact", *arguments(three_inserts, "major", THREE))
    again = arguments(three_inserts, "major", THREE)
    assert json_of("plan", *again)["forecast"] is None
    assert "write     nothing: there is no delta above base_0000003" in verb("plan", *again).stdout
    assert "nothing to compact: there is no delta above base_0000003" in verb("compact", *again).stdout


def test_the_documents_sequence_minor_then_major_then_minor(three_inserts: Path) -> None:
    minor = json_of("compact", *arguments(three_inserts, "minor", THREE))
    assert minor["output_directories"] == ["delta_0000001_0000003"]
    assert obsolete(minor) == DELTAS
    major = json_of("compact", *arguments(three_inserts, "major", THREE))
    assert major["output_directories"] == ["base_0000003"]
    assert obsolete(major) == ["delta_0000001_0000001_0000", "delta_0000001_0000003", *DELTAS[1:]]
    assert (major["rows_in"], major["rows_out"]) == (3, 3)
    assert minor["bytes_copied"] + minor["bytes_rewritten"] == size_of(three_inserts / "delta_0000001_0000003")
    assert minor["bytes_ingested"] == sum(size_of(three_inserts / name) for name in DELTAS)
    assert (major["bytes_ingested"], major["write_amplification"]) == (0, None)
    again = json_of("compact", *arguments(three_inserts, "Minor", THREE))
    assert again["output_directories"] == []


def test_a_major_of_deleted_rows_leaves_a_base_without_rows(try_it: Path) -> None:
    done = json_of("compact", *arguments(try_it / "prt=p1", "major", SIX))
    assert done["output_directories"] == ["base_0000005"]
    assert (done["rows_in"], done["rows_out"], done["delete_events_in"], done["delete_events_out"]) == (2, 0, 2, 0)
    assert (try_it / "prt=p1/base_0000005/_metadata_acid").exists()


def test_a_minor_with_deletes_writes_the_pair_and_keeps_every_event(try_it: Path) -> None:
    done = json_of("compact", *arguments(try_it / "prt=p2", "minor", SIX))
    assert done["output_directories"] == ["delta_0000002_0000004", "delete_delta_0000002_0000004"]
    assert (done["rows_in"], done["rows_out"], done["delete_events_in"], done["delete_events_out"]) == (3, 3, 2, 2)


def test_originals_are_folded_in_by_a_major_and_listed_by_name(tmp_path: Path) -> None:
    table = Path(shutil.copytree(FIXTURES / "hive-3.1.3/original/before", tmp_path / "original"))
    done = json_of("compact", *arguments(table, "major", f"ma.original:10000003:{NOTHING_OPEN}"))
    assert done["output_directories"] == ["base_10000003"]
    assert {"000000_0", "000000_0_copy_1"} <= set(obsolete(done))


def test_hive4_output_carries_the_visibility_transaction(tmp_path: Path) -> None:
    table = Path(shutil.copytree(FIXTURES / "hive-4.0.1/table_txn_001/before", tmp_path / "table_txn_001"))
    done = json_of("compact", *arguments(table, "major", THREE), "--layout", "hive4", "--visibility-txn", "7")
    assert done["output_directories"] == ["base_0000003_v0000007"]
    assert not (table / "base_0000003_v0000007/_metadata_acid").exists()


def test_nothing_is_left_behind_but_the_output(three_inserts: Path) -> None:
    json_of("compact", *arguments(three_inserts, "major", THREE))
    assert sorted(path.name for path in three_inserts.iterdir()) == ["base_0000003", *DELTAS]


def test_text_output_names_every_directory(three_inserts: Path) -> None:
    done = verb("plan", *arguments(three_inserts, "major", THREE))
    assert done.returncode == 0
    for name in ["base_0000003", *DELTAS]:
        assert name in done.stdout


@pytest.mark.parametrize("name", ["plan", "compact"])
@pytest.mark.parametrize(
    ("place", "write_ids", "extra", "says"),
    [
        ("nowhere", THREE, [], "nowhere"),
        ("empty", THREE, [], "not a table directory"),
        ("file", THREE, [], "not a directory"),
        ("strange", THREE, [], "not a table directory"),
        ("three", "rubbish", [], "rubbish"),
        ("three", "default.t:x:1::", [], "x"),
        ("three", THREE, ["--layout", "hive4"], "--visibility-txn"),
        ("three", THREE, ["--visibility-txn", "3"], "hive4"),
        ("three", THREE, ["--valid-txns", "what"], "what"),
        ("partitioned", SIX, [], "prt="),
        ("suffixed", THREE, [], "--valid-txns"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(  # noqa: PLR0917
    name: str,
    place: str,
    write_ids: str,
    extra: list[str],
    says: str,
    three_inserts: Path,
    try_it: Path,
    tmp_path: Path,
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no table")
    (tmp_path / "strange" / "folder").mkdir(parents=True)
    (tmp_path / "strange" / "readme.txt").write_text("no table")
    suffixed = Path(shutil.copytree(FIXTURES / "hive-4.0.1/table_txn_001/after-major", tmp_path / "suffixed"))
    places = {"three": three_inserts, "partitioned": try_it, "suffixed": suffixed}
    before = tree(tmp_path)
    done = verb(name, *arguments(places.get(place, tmp_path / place), "major", write_ids), *extra)
    assert done.returncode != 0
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert says in done.stderr
    assert tree(tmp_path) == before


def test_an_unreadable_orc_file_is_named_and_nothing_changes(three_inserts: Path) -> None:
    broken = three_inserts / DELTAS[1] / "bucket_00000"
    broken.write_bytes(broken.read_bytes()[:-20])
    before = tree(three_inserts)
    done = verb("compact", *arguments(three_inserts, "major", THREE), "--output", "json")
    assert done.returncode != 0
    assert len(done.stderr.strip().splitlines()) == 1
    assert f"{DELTAS[1]}/bucket_00000" in done.stderr
    assert tree(three_inserts) == before
    assert sorted(path.name for path in three_inserts.iterdir()) == DELTAS


def test_usage_errors_are_one_line_too() -> None:
    done = verb("plan", "--type", "huge")
    assert done.returncode != 0
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_version_needs_no_installed_package() -> None:
    """Neither the image nor a clone installs one."""
    done = verb("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"compaction-operator, version {__version__}\n", "")


def test_a_driver_outside_of_its_pod_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "nightly-x")
    monkeypatch.delenv("POD_UID", raising=False)
    done = verb("job")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "the environment lacks COMPACTION_REQUEST, POD_UID" in done.stderr


def test_a_process_of_its_own_prints_one_json_object_and_nothing_else(three_inserts: Path) -> None:
    command = [*PROGRAM, "compact", *arguments(three_inserts, "minor", THREE), "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["output_directories"] == ["delta_0000001_0000003"]
    assert len(done.stdout.splitlines()) == 1


def test_files_of_fewer_columns_get_those_that_the_table_has_today(three_inserts: Path) -> None:
    """Without --schema they would keep those of the newest file."""
    row = "struct<id:bigint,name:string,added:int>"
    json_of("compact", *arguments(three_inserts, "major", THREE), "--schema", row, "--task-memory", "64MiB")
    written = ORCFile(str(three_inserts / "base_0000003/bucket_00000"))
    assert str(written.schema.field("row").type) == "struct<id: int64, name: string, added: int32>"
    assert [value["added"] for value in written.read().column("row").to_pylist()] == [None] * 3


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--schema", "struct<id:integer>", "integer"),
        ("--schema", "struct<name:string>", "id"),
        ("--task-memory", "512", "512MiB or 2GiB"),
    ],
)
def test_a_schema_or_size_that_does_not_fit_changes_nothing(
    option: str, value: str, says: str, three_inserts: Path
) -> None:
    before = tree(three_inserts)
    done = verb("compact", *arguments(three_inserts, "major", THREE), option, value)
    assert done.returncode != 0
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert tree(three_inserts) == before


LOADED_WHEN_USED = {"boto3", "hdfs_native", "kopf", "kubernetes", "numpy", "py4j", "pyarrow", "pyspark"}
"""Libraries that take a tenth of a second or more, or tens of megabytes."""


def test_a_drivers_start_loads_no_library_that_it_may_not_need() -> None:
    code = "import sys, compaction_operator.cli, compaction_operator.driver.main; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not LOADED_WHEN_USED & set(ended.stdout.split())


DRIVER_THAT_ABORTS = """
import atexit, os, sys
import compaction_operator.driver.main as driver
from compaction_operator.cli import main
from compaction_operator.receipts import Ledger
from compaction_operator.storage import LocalStorage
from tests.unit.receipts.test_chain import draft as receipt_of

def compacted():
    atexit.register(os.abort)
    print("compacted")
    return 0

driver.main = compacted
os.environ |= dict.fromkeys(("COMPACTION_REQUEST", "POD_NAME", "POD_UID"), "x")
sys.argv = ["compaction-operator", "job"]
main()
"""


def test_what_happens_after_a_drivers_end_does_not_change_its_exit_code() -> None:
    """A call to a store that was given up may return while Python shuts down, and abort the process."""
    ended = subprocess.run([sys.executable, "-c", DRIVER_THAT_ABORTS], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "compacted\n")


@pytest.fixture
def receipts(tmp_path: Path) -> Path:
    """Three receipts of two tables."""
    book = Ledger(LocalStorage(), str(tmp_path / "receipts"), now=lambda: "2026-01-01T12:00:00Z")
    for table in ("sales.orders", "sales.items", "sales.orders"):
        book.append(lambda _, table=table: receipt_of(table=table), after=0)  # type: ignore[misc]
    return tmp_path / "receipts"


def test_history_shows_the_receipts_of_all_tables_or_of_one(receipts: Path) -> None:
    everything = verb("history", "--location", str(receipts)).stdout.splitlines()
    assert [line.split()[0] for line in everything] == ["NUMBER", "1", "2", "3"]
    one = verb("history", "Sales.Orders", "--location", str(receipts), "--json").stdout.splitlines()
    assert [json.loads(line)["number"] for line in one] == [1, 3]


def test_history_takes_the_folder_from_the_configuration(receipts: Path, tmp_path: Path) -> None:
    """Of the only warehouse that keeps receipts, or of the one that is named."""
    metastore = {"uris": ["thrift://metastore:9083"]}
    volume = {"claimName": "warehouse", "mountPath": str(tmp_path)}
    plain = {"name": "plain", "metastore": metastore, "namespaces": ["default"]}
    kept = {**plain, "name": "main", "volume": volume, "receipts": {"location": str(receipts)}}
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"warehouses": [plain, kept], "profiles": []}))
    assert len(verb("history", "--config", str(config)).stdout.splitlines()) == 4
    wrong = verb("history", "--config", str(config), "--warehouse", "plain")
    assert (wrong.returncode, "--warehouse: name one that keeps receipts" in wrong.stderr) == (1, True)
    assert "--location" in verb("history").stderr


def test_history_finds_the_folder_where_the_controllers_pod_has_the_volume(receipts: Path, tmp_path: Path) -> None:
    volume = {"claimName": receipts.parent.name, "mountPath": "/receipts"}
    warehouse = {"name": "main", "metastore": {"uris": ["thrift://m:9083"]}, "namespaces": ["default"]}
    warehouse |= {"volume": volume, "receipts": {"location": "/receipts/kept"}}
    place = tmp_path / "receipts" / "kept"
    place.mkdir()
    (receipts / "00000").rename(place / "00000")
    config = tmp_path / "config.yaml"
    settings = {"warehouses": [warehouse], "profiles": [], "volumesPath": str(receipts.parent.parent)}
    config.write_text(json.dumps(settings))
    assert len(verb("history", "--config", str(config)).stdout.splitlines()) == 4


def test_history_verifies_and_says_what_was_altered(receipts: Path) -> None:
    whole = verb("history", "--location", str(receipts), "--verify")
    assert whole.returncode == 0
    head = whole.stdout.split()[-1]
    assert whole.stdout == f"3 receipts, none altered or missing; head {head}\n"
    (receipts / "00000" / "000000003.json").unlink()
    assert verb("history", "--location", str(receipts), "--verify").returncode == 0
    cut = verb("history", "--location", str(receipts), "--verify", "--head", head)
    assert (cut.returncode, cut.stdout) == (1, "receipt 3 was there before and is missing; the newest one is 2\n")


def test_history_names_a_receipt_that_cannot_be_read(receipts: Path) -> None:
    (receipts / "00000" / "000000002.json").write_text("{}")
    done = verb("history", "--location", str(receipts))
    assert (done.returncode, "receipt 2 cannot be read: kind: Field required" in done.stderr) == (1, True)
