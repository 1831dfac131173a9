"""The pieces of the harness that need no cluster: tables' files, settings, waiting, telling."""

import itertools
import os
import re
import subprocess
from pathlib import Path

import pytest
from sandbox.demo.story import CheckError, Story
from sandbox.harness import expected, rows, settings
from sandbox.harness.cluster import Cluster
from sandbox.harness.namespaces import restricted_namespace
from sandbox.harness.tables import TABLE_TXN_001, TRY_IT, Fixture, fourth_write, write_id_of
from sandbox.harness.toolbox import Toolbox
from sandbox.harness.wait import WaitTimeoutError, wait_until
from sandbox.metastore.server import Hive


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


TRY_ITS = {"3.1.3": expected.TRY_IT, "4.0.1": expected.TRY_IT_OF_HIVE_4}


@pytest.mark.parametrize("fixture", [TABLE_TXN_001, TRY_IT])
@pytest.mark.parametrize("hive", ["3.1.3", "4.0.1"])
def test_every_write_of_a_fixture_has_files(hive: Hive, fixture: Fixture) -> None:
    """The tables are made write by write, each with the write id that its directories say."""
    assert {write_id_of(path) for path in fixture.files(hive)} == set(range(1, fixture.writes + 1))


@pytest.mark.parametrize("hive", ["3.1.3", "4.0.1"])
def test_the_expected_listings_begin_with_the_fixtures(hive: Hive) -> None:
    """What the listings call `before` is what the tables are made of."""
    assert {path.split("/")[0] for path in TABLE_TXN_001.files(hive)} == expected.INSERTS
    files = [path.split("/") for path in TRY_IT.files(hive)]
    for partition, names in TRY_ITS[hive].items():
        assert {parts[1] for parts in files if parts[0] == partition} == names


def test_the_fourth_write_updates_one_row(tmp_path: Path) -> None:
    """The update deletes row 2 and inserts it again, in the two directories of the document."""
    put(tmp_path, {**TABLE_TXN_001.files("3.1.3"), **fourth_write()})
    assert {path.name for path in tmp_path.iterdir()} == expected.INSERTS | expected.UPDATE
    found = rows.rows(tmp_path, rows.every, rows.visible("db.t:4:9223372036854775807::"))
    assert [(key[0], row["name"]) for key, row in found.items()] == [(1, "one"), (3, "three"), (4, "zwei")]


def test_a_file_outside_a_delta_has_no_write_id() -> None:
    """The harness must not commit a file that no reader would look at."""
    with pytest.raises(ValueError, match="000000_0"):
        write_id_of("prt=p1/000000_0")


class Here(Cluster):
    """A cluster whose pods are this machine."""

    def kubectl(self, *arguments: str, stdin: str | bytes | None = None, timeout: float = 60.0) -> str:
        command = arguments[arguments.index("--") + 1 :]
        data = stdin.encode() if isinstance(stdin, str) else stdin or b""
        return subprocess.run(command, input=data, stdout=subprocess.PIPE, timeout=timeout, check=True).stdout.decode()


def test_files_go_to_the_warehouse_and_come_back_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are no text, hidden files, and folders with nothing in them, which Hudi has, too; times stay."""
    monkeypatch.setenv("OPERATOR_IMAGE", "example.com/operator:1")
    monkeypatch.setenv("METASTORE_IMAGE", "example.com/metastore:1")
    monkeypatch.setenv("DEMO_CLUSTER", "existing")
    files = {".hoodie/timeline/1.commit": bytes(range(256)), "part.parquet": b"PAR1"}
    put(tmp_path / "table", files)
    (tmp_path / "table" / ".hoodie" / ".temp").mkdir()
    os.utime(tmp_path / "table" / "part.parquet", (1000, 1000))
    toolbox = Toolbox(Here({}), settings.load())
    toolbox.put(f"file:{tmp_path}/place", tmp_path / "table")
    assert toolbox.read(f"file:{tmp_path}/place") == files
    assert toolbox.names(f"file:{tmp_path}/place/.hoodie") == {".temp", "timeline"}
    assert (tmp_path / "place" / "part.parquet").stat().st_mtime == 1000


def test_a_cluster_of_ones_own_needs_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is named; with both images everything goes into one namespace."""
    monkeypatch.setenv("DEMO_CLUSTER", "existing")
    monkeypatch.setenv("OPERATOR_IMAGE", "example.com/operator:1")
    monkeypatch.delenv("METASTORE_IMAGE", raising=False)
    with pytest.raises(settings.SettingsError, match="METASTORE_IMAGE"):
        settings.load()
    monkeypatch.setenv("METASTORE_IMAGE", "example.com/metastore:1")
    loaded = settings.load()
    assert {loaded.namespace, loaded.system_namespace, loaded.metastore_namespace} == {"compaction-demo"}
    assert loaded.metastore_uri == "thrift://hive-metastore.compaction-demo.svc:9083"


def test_an_unknown_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelled switch must not fall back to the sandbox, or the other way round."""
    monkeypatch.setenv("DEMO_CLUSTER", "mine")
    with pytest.raises(settings.SettingsError, match="'mine'"):
        settings.load()


def test_waiting_ends_with_the_answer_or_names_what_did_not_come() -> None:
    """The first true answer is returned; the last one is in the error."""
    answers = itertools.count()
    assert wait_until(lambda: next(answers) > 2, timeout=10, what="three", poll=0)
    with pytest.raises(WaitTimeoutError, match="waited 0 s for rain; last answer: ''"):
        wait_until(lambda: "", timeout=0, what="rain")


def test_a_check_that_fails_says_what_was_expected(capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists sets in order, so that two outputs can be compared."""
    with pytest.raises(CheckError, match="names: expected a, b, found nothing"):
        Story().check("names", found=frozenset(), expected={"b", "a"})
    assert capsys.readouterr().out == ""


def test_every_namespace_of_a_test_enforces_the_restricted_profile() -> None:
    """Only one function makes any, so none takes pods that a strict cluster would refuse. That of OLM has no pods."""
    root = Path(__file__).parents[3]
    sources = [path for folder in ("tests", "sandbox") for path in (root / folder).rglob("*.py")]
    makes = re.compile(r'"create", "namespace"|"kind": "Namespace"')
    found = {path.name for path in sources if makes.search(path.read_text())} - {"olm.py", Path(__file__).name}
    assert found == {"namespaces.py"}
    assert restricted_namespace("n")["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}
