"""An earlier version of the operator, from the repository's history."""

import os
import subprocess
from pathlib import Path

from sandbox.harness.chart import ROOT, Release


def earlier(commit: str, folder: Path) -> Release:
    """Return a commit's version, unpacked into an empty folder; the running sandbox has its image afterwards.

    Raises CalledProcessError if git does not know the commit (a shallow clone has few), or the image cannot be made.
    """
    archive = subprocess.run(["git", "-C", ROOT, "archive", commit], stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    for verb in ("build", "load"):
        _images(folder, verb)
    return Release(folder, _images(folder, "name"))


def _images(folder: Path, verb: str) -> str:
    # NB: in these scripts the variable is the name of the current version's image.
    environment = {name: value for name, value in os.environ.items() if name != "SANDBOX_IMAGE"}
    command = [str(folder / "sandbox" / "cluster" / "images.sh"), verb, "operator"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()
