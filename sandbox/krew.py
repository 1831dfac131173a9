"""Writes krew's archive and manifest of the plugin `kubectl compaction`: `python -m sandbox.krew`."""

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import yaml

from compaction_operator import __version__

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "manifests" / "krew"
MANIFEST = FOLDER / "compaction.yaml"
ARCHIVE = ROOT / "build" / "krew" / f"kubectl-compaction-{__version__}.zip"
FILES = (FOLDER / "kubectl-compaction", ROOT / "LICENSE")
HOME = "https://github.com/YOUR/compaction-operator"
HEAD = "# The plugin for krew, written by `make krew`: kubectl krew install --manifest=… --archive=…\n"
DESCRIPTION = (
    "Shows which compactions and cleanups of Hive ACID and Hudi tables run, wait or have failed, and what to do. "
    "Approves deletions, suspends and resumes. Checks the metastore, storage, rights and settings of the operator."
)
CAVEATS = "It needs the Python package compaction-operator on the PATH. docs/command-line.md says how to install it."


def write_archive(path: Path) -> None:
    """Write the plugin's files. NB: the same bytes on each machine, as the manifest holds their checksum."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for file in FILES:
            entry = zipfile.ZipInfo(file.name)
            entry.create_system = 3
            entry.external_attr = (0o100755 if file.name == "kubectl-compaction" else 0o100644) << 16
            archive.writestr(entry, file.read_bytes())


def manifest(archive: Path) -> str:
    """Return the manifest for an archive."""
    platform = {
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]},
        "uri": f"{HOME}/releases/download/v{__version__}/{ARCHIVE.name}",
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "bin": "kubectl-compaction",
    }
    plugin: dict[str, Any] = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "compaction"},
        "spec": {
            "version": f"v{__version__}",
            "homepage": HOME,
            "shortDescription": "See and steer compactions of Hive and Hudi tables",
            "description": DESCRIPTION,
            "caveats": CAVEATS,
            "platforms": [platform],
        },
    }
    return HEAD + yaml.safe_dump(plugin, sort_keys=False, width=110)


if __name__ == "__main__":
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    write_archive(ARCHIVE)
    MANIFEST.write_text(manifest(ARCHIVE))
