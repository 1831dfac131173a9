"""Say from what an image was built: a predicate of SLSA's provenance v1, on standard output.

`provenance.py NAME SOURCE REVISION VERSION`, in the repository's root. It has what is known, and nothing else: the
commit, the pinned inputs of the build, and who built it (the environment's BUILDER).
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BUILD_TYPE = "https://compaction.dev/supply-chain/release-images/v1"
BUILDER = "https://compaction.dev/supply-chain/builder/local"
"""Who built it, unless the release's environment names its own builder."""
INPUTS = {
    "compaction-operator": ("operator/Dockerfile", "operator/requirements.lock", "sandbox/hudi/pom.xml"),
    "compaction-operator-hive": ("operator/Dockerfile", "operator/requirements.lock"),
    "compaction-operator-controller": ("operator/Dockerfile", "operator/requirements.lock"),
}
"""By the image: the files that pin what it is built from."""


def predicate(
    name: str, *, source: str, revision: str, version: str, builder: str, inputs: Mapping[str, bytes]
) -> dict[str, Any]:
    """Return the predicate for an image, whose inputs are given by their paths."""
    pinned = [{"name": path, "digest": {"sha256": hashlib.sha256(data).hexdigest()}} for path, data in inputs.items()]
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"image": name, "version": version},
            "resolvedDependencies": [{"uri": f"git+{source}", "digest": {"gitCommit": revision}}, *pinned],
        },
        "runDetails": {"builder": {"id": builder}},
    }


def main(name: str, source: str, revision: str, version: str) -> None:
    """Print the predicate. Raises KeyError for an unknown image."""
    inputs = {path: Path(path).read_bytes() for path in INPUTS[name]}
    builder = os.environ.get("BUILDER") or BUILDER
    found = predicate(name, source=source, revision=revision, version=version, builder=builder, inputs=inputs)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(*sys.argv[1:])
