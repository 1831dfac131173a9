"""krew's plugin: its manifest is that of its archive, and what it installs starts the Python package's program."""

import os
import subprocess
import zipfile
from pathlib import Path

from sandbox import krew


def test_the_manifest_is_that_of_the_archive(tmp_path: Path) -> None:
    """`make krew` writes both."""
    krew.write_archive(tmp_path / "plugin.zip")
    assert krew.MANIFEST.read_text() == krew.manifest(tmp_path / "plugin.zip")
    with zipfile.ZipFile(tmp_path / "plugin.zip") as archive:
        assert {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()} == {
            "kubectl-compaction": 0o755,
            "LICENSE": 0o644,
        }


def run(*arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    command = [str(krew.FOLDER / "kubectl-compaction"), *arguments]
    return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False)


def test_it_starts_the_plugin_beside_the_program(tmp_path: Path) -> None:
    for name in ("compaction-operator", "kubectl-compaction"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (tmp_path / name).chmod(0o755)
    done = run("status", "a b", path=f"{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout) == (0, "kubectl-compaction status a b\n")


def test_without_the_program_it_says_what_to_install() -> None:
    done = run("status", path="/usr/bin:/bin")
    assert (done.returncode, done.stdout) == (127, "")
    assert "install the Python package compaction-operator first" in done.stderr
