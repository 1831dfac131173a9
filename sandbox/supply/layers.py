"""What the layers of images hold: their sizes as a node unpacks them, and the kind of machine that their programs need.

`layers.py LAYOUT NAME=IMAGE...` prints a table of the sizes in Markdown; LAYOUT is a folder of the OCI format.
"""

import gzip
import json
import re
import struct
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

from sandbox.cluster.oci_archive import blob_path, find_manifest

PARTS = {
    "Debian": r"^/bin/sh\s*$",
    "Debian's packages": "apt-get install",
    "Python's packages": "pip install|dist-packages",
    "Hudi's jars": " /opt/hudi",
    "The operator": "",
}
"""What a layer is part of: the first whose pattern is in the step that made it."""
MACHINES = {0x3E: "x86-64", 0xB7: "aarch64"}
"""By the number in the header of a program or library (ELF's e_machine)."""
CHUNK = 1 << 20


def layers(layout: Path, image: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the step that made each layer of an image, and its open archive; LookupError for an unknown image."""
    manifest = _json(layout, find_manifest(layout, image)["digest"])
    history = _json(layout, manifest["config"]["digest"])["history"]
    steps = [one["created_by"] for one in history if not one.get("empty_layer")]
    for step, layer in zip(steps, manifest["layers"], strict=True):
        path = blob_path(layout, layer["digest"])
        packed = layer["mediaType"].endswith("gzip")
        with path.open("rb") as content:
            yield step, cast("IO[bytes]", gzip.GzipFile(fileobj=content)) if packed else content


def sizes(layout: Path, image: str) -> Counter[str]:
    """Return the bytes of an image's layers, by what they are part of."""
    found = Counter[str]()
    for step, content in layers(layout, image):
        while chunk := content.read(CHUNK):
            found[part_of(step)] += len(chunk)
    return found


def part_of(step: str) -> str:
    """Return what a layer is part of, by the step that made it."""
    return next(part for part, pattern in PARTS.items() if re.search(pattern, step))


def machines(layout: Path, image: str) -> dict[str, set[str]]:
    """Return the paths of an image's programs and libraries by the machine that they need, such as aarch64."""
    found: dict[str, set[str]] = {}
    for _, content in layers(layout, image):
        with tarfile.open(fileobj=content, mode="r|") as archive:
            for member in archive:
                opened = archive.extractfile(member) if member.isreg() else None
                machine = machine_of(opened.read(20)) if opened else None
                if machine is not None:
                    found.setdefault(machine, set()).add(member.name)
    return found


def machine_of(head: bytes) -> str | None:
    """Return the machine that a program with these first 20 bytes needs; None for another kind of file."""
    if not head.startswith(b"\x7fELF") or len(head) < 20:
        return None
    number = struct.unpack_from("<H" if head[5] == 1 else ">H", head, 18)[0]
    return MACHINES.get(number, hex(number))


def table(found: Mapping[str, Counter[str]]) -> str:
    """Return the sizes of images by name as a table in Markdown, in MB."""
    rows = [[part, *(f"{size[part] / 1e6:.0f}" for size in found.values())] for part in PARTS]
    rows.append(["Sum", *(f"{size.total() / 1e6:.0f}" for size in found.values())])
    head = [f"| MB | {' | '.join(f'`{name}`' for name in found)} |", f"|---|{'--:|' * len(found)}"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)])


def _json(layout: Path, digest: str) -> Any:
    return json.loads(blob_path(layout, digest).read_text())


if __name__ == "__main__":
    names = dict(argument.split("=", 1) for argument in sys.argv[2:])
    print(table({name: sizes(Path(sys.argv[1]), image) for name, image in names.items()}))
