"""Write one image of an OCI layout as a tar archive without the blobs that its receiver holds already.

`oci_archive.py LAYOUT IMAGE KNOWN`: KNOWN is a file with one digest a line; the archive goes to standard output.
A changed operator image so costs its last small layer, not the hundreds of megabytes below.
"""

import io
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Descriptor = dict[str, Any]


def blob_path(layout: Path, digest: str) -> Path:
    """Return where the layout keeps the blob of that digest ("sha256:...")."""
    return layout / "blobs" / digest.replace(":", "/")


def find_manifest(layout: Path, image: str) -> Descriptor:
    """Return the descriptor of the image's manifest; LookupError when the layout has no image of that name."""
    for descriptor in json.loads((layout / "index.json").read_text())["manifests"]:
        if descriptor.get("annotations", {}).get("org.opencontainers.image.ref.name") == image:
            return {**descriptor, "annotations": {"io.containerd.image.name": image}}
    raise LookupError(f"{layout} has no image {image}")


def digests(layout: Path, manifest: Descriptor) -> Iterator[str]:
    """Yield the digests of all that the image is made of, its manifest first."""
    yield manifest["digest"]
    content = json.loads(blob_path(layout, manifest["digest"]).read_text())
    yield content["config"]["digest"]
    for layer in content["layers"]:
        yield layer["digest"]


def add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    """Add a file of that name and content."""
    data = text.encode()
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def write_archive(layout: Path, image: str, known: set[str]) -> None:
    """Write the archive to standard output; LookupError when the layout has no such image."""
    manifest = find_manifest(layout, image)
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        add_text(archive, "oci-layout", (layout / "oci-layout").read_text())
        for digest in dict.fromkeys(digests(layout, manifest)):
            if digest not in known:
                archive.add(blob_path(layout, digest), arcname=f"blobs/{digest.replace(':', '/')}")
        add_text(archive, "index.json", json.dumps({"schemaVersion": 2, "manifests": [manifest]}))


if __name__ == "__main__":
    write_archive(Path(sys.argv[1]), sys.argv[2], set(Path(sys.argv[3]).read_text().split()))
