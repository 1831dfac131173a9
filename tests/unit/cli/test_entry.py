"""The command itself: its verbs, names, colours and completion; and that a verb pays for itself only."""

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compaction_operator.cli import entry
from compaction_operator.cli.findings import Finding
from compaction_operator.cli.standing import Standing
from tests.unit.cli.conftest import FakeApi
from tests.unit.cli.test_status import PAGE, failed
from tests.unit.test_cli import FIXTURES, LOADED_WHEN_USED, THREE, tree, verb

MAIN = "from compaction_operator.cli import main; main()"


def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"import sys; sys.argv = {['x', *arguments]!r}; {code}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def test_a_driver_loads_no_other_verb() -> None:
    done = python(f"{MAIN.split(';', maxsplit=1)[0]}; entry = sys.modules['compaction_operator.cli.entry']; "
                  "entry.cli.get_command(None, 'job'); print(*sys.modules)")  # fmt: skip
    loaded = {name.rpartition(".")[2] for name in done.stdout.split() if name.startswith("compaction_operator.cli.")}
    assert loaded == {"entry", "processes"}


def test_help_and_completion_load_no_large_library() -> None:
    code = (
        "from compaction_operator.cli.entry import cli; [cli.get_command(None, one) for one in cli.list_commands(None)]"
    )
    done = python(f"{code}; print(*sys.modules)")
    assert done.returncode == 0, done.stderr
    assert not {"kubernetes", "kopf", "boto3", "pyspark"} & set(done.stdout.split())
    assert "kubernetes" in LOADED_WHEN_USED


def test_help_lists_every_verb_under_its_heading() -> None:
    text = verb("--help").stdout
    for title, verbs in entry.SECTIONS.items():
        assert f"{title}:" in text
        assert all(re.search(rf"^  {name}  ", text, re.MULTILINE) for name in verbs)


@pytest.mark.parametrize(
    ("started", "name"), [("kubectl-compaction", "kubectl compaction"), ("x", "compaction-operator")]
)
def test_the_plugin_has_its_own_name(started: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [f"/usr/bin/{started}"])
    assert entry._program() == name


def test_a_verb_that_does_not_exist_is_a_wrong_command_line() -> None:
    done = verb("stats")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)


def on_a_terminal(*arguments: str, stream: str = "stdout", **environment: str) -> str:
    """Return what the program prints on one of its streams where a terminal reads that."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", MAIN, *arguments]
    streams = {"stdout": subprocess.DEVNULL, stream: theirs}
    with subprocess.Popen(command, env={**os.environ, **environment}, **streams) as running:  # type: ignore[call-overload]
        running.wait()
    os.close(theirs)
    text = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:
            break
        if not more:
            break
        text += more
    os.close(ours)
    return text.decode()


def test_colours_are_for_terminals_and_never_with_no_color(api: FakeApi, tmp_path: Path) -> None:
    api.objects = [failed()]
    kubeconfig = str(tmp_path / "kubeconfig")
    assert "\x1b[31m" in on_a_terminal("status", KUBECONFIG=kubeconfig)
    plain = on_a_terminal("status", KUBECONFIG=kubeconfig, NO_COLOR="1")
    assert "tcomp/nightly" in plain
    assert "\x1b" not in plain


def test_compact_shows_its_progress_on_a_terminal_only(tmp_path: Path) -> None:
    table = Path(shutil.copytree(FIXTURES / "hive-3.1.3/table_txn_001/before", tmp_path / "table_txn_001"))
    before = Path(shutil.copytree(table, tmp_path / "again"))
    options = ("--type", "major", "--write-ids", THREE)
    shown = on_a_terminal("compact", "--location", str(table), *options, stream="stderr")
    assert "merging" in shown
    assert "100%" in shown
    assert "merging" not in verb("compact", "--location", str(before), *options).stderr
    assert tree(table) == tree(before)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_the_script_that_completes(shell: str) -> None:
    done = verb("completion", shell)
    assert done.returncode == 0
    assert "_COMPACTION_OPERATOR_COMPLETE" in done.stdout


def test_the_script_gets_verbs() -> None:
    done = python(
        MAIN, _COMPACTION_OPERATOR_COMPLETE="bash_complete", COMP_WORDS="compaction-operator su", COMP_CWORD="1"
    )
    assert done.stdout == "plain,suspend\n"


def test_kubectl_gets_verbs_and_options(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As `kubectl __complete` hands them on: a line each, and a directive in the end."""
    for words, expected in ((["sta"], "status\tShow what runs"), (["status", "--js"], "--json\tThe same as")):
        monkeypatch.setattr("sys.argv", ["kubectl_complete-compaction", *words])
        entry.complete()
        first, last = capsys.readouterr().out.splitlines()
        assert first.startswith(expected)
        assert last == ":4"


def test_the_page_has_every_verb_and_every_field() -> None:
    for verbs in entry.SECTIONS.values():
        assert all(f"`{name}`" in PAGE or f"`{name} " in PAGE for name in verbs)
    for model in (Standing, Finding):
        fields = (field.alias or name for name, field in model.model_fields.items())
        assert [name for name in fields if f"`{name}`" not in PAGE] == []
