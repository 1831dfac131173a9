"""`make audit` fails when a vulnerability is known, and when a question gets no answer. Its only server is its own."""

import json
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "sandbox" / "supply" / "audit.sh")
LOCKS = ("operator/requirements.lock", "requirements.lock", "sandbox/supply/tools.lock")


def pin(lock: str, name: str) -> str:
    found = re.search(rf"^{name}==(\S+)", (ROOT / lock).read_text(), re.MULTILINE)
    assert found
    return found[1]


def audit(folder: Path, *names: str, options: tuple[str, ...] = (), **end: str) -> subprocess.CompletedProcess[str]:
    """Run it while an advisory is known of each package, for versions from 0 on unless an end is given."""
    for number, name in enumerate(names):
        ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, *([end] if end else [])]}]
        affected = [{"package": {"name": name, "ecosystem": "PyPI"}, "ranges": ranges}]
        known = {"id": f"PYSEC-{number}", "details": "It breaks.", "affected": affected}
        (folder / f"PYSEC-{number}.json").write_text(json.dumps(known))
    environment = {**os.environ, "ADVISORIES": str(folder)}
    return subprocess.run([SCRIPT, *options], env=environment, capture_output=True, text=True, check=False)


def test_a_known_vulnerability_of_any_lock_is_named(tmp_path: Path) -> None:
    names = ("kopf", "hypothesis", "cyclonedx-bom")
    done = audit(tmp_path, *names)
    assert (done.returncode, "Found 3 known vulnerabilities in 3 packages" in done.stderr) == (1, True)
    for number, (lock, name) in enumerate(zip(LOCKS, names, strict=True)):
        assert re.search(rf"^{name} +{re.escape(pin(lock, name))} +PYSEC-{number}\b", done.stdout, re.MULTILINE)


def test_what_is_fixed_in_the_pinned_version_is_none(tmp_path: Path) -> None:
    done = audit(tmp_path, "kopf", fixed=pin("operator/requirements.lock", "kopf"))
    assert (done.returncode, "No known vulnerabilities found" in done.stderr) == (0, True)


def test_a_package_without_an_answer_fails_the_audit(tmp_path: Path) -> None:
    """As all are where PyPI's advisories cannot be reached: they must not count as clean."""
    unknown = tmp_path / "unknown.txt"
    unknown.write_text(f"thing @ https://example.invalid/thing-1.0-py3-none-any.whl --hash=sha256:{'0' * 64}\n")
    done = audit(tmp_path, "other", options=("-r", str(unknown)))
    assert (done.returncode, "thing: " in done.stderr, "No known" in done.stderr) == (1, True, False)


def test_a_question_without_an_answer_does_not_pass(tmp_path: Path) -> None:
    done = audit(tmp_path, "kopf", fixed="no version")
    assert (done.returncode != 0, "No known" in done.stderr) == (True, False)


def test_a_folder_without_advisories_is_refused_in_one_line(tmp_path: Path) -> None:
    done = audit(tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"ADVISORIES: no advisory in OSV's format is in {tmp_path}"
