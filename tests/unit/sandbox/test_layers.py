"""What an image's layers are part of, how large they are, and for which machines their programs are."""

import gzip
import hashlib
import io
import json
import re
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from sandbox.supply.compiled import compiled
from sandbox.supply.layers import PARTS, machine_of, machines, part_of, sizes, table

ROOT = Path(__file__).parents[3]
IMAGE = "localhost/some:1"
X86 = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00"
ARM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\xb7\x00"


def archive(files: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return written.getvalue()


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """An image of two layers with files, one of them compressed, and a step that made no layer."""
    blobs = tmp_path / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(data: bytes, **more: str) -> dict[str, str]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", **more}

    plain = put(archive({"bin/tool": X86, "etc/text": b"words"}), mediaType="layer.tar")
    packed = put(gzip.compress(archive({"lib/arm.so": ARM, "lib/short": b"\x7fELF"})), mediaType="layer.tar+gzip")
    steps = [
        {"created_by": "/bin/sh"},
        {"created_by": "ENV A=1", "empty_layer": True},
        {"created_by": "COPY x in /opt"},
    ]
    config = put(json.dumps({"history": steps}).encode())
    manifest = put(json.dumps({"config": config, "layers": [plain, packed]}).encode())
    named = {**manifest, "annotations": {"org.opencontainers.image.ref.name": IMAGE}}
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [named]}))
    return tmp_path


def test_a_layer_counts_as_a_node_unpacks_it(layout: Path) -> None:
    whole = len(archive({"bin/tool": X86, "etc/text": b"words"}))
    assert sizes(layout, IMAGE) == {"Debian": whole, "The operator": whole}


def test_programs_are_known_by_their_machine(layout: Path) -> None:
    assert machines(layout, IMAGE) == {"x86-64": {"bin/tool"}, "aarch64": {"lib/arm.so"}}


def test_an_unknown_machine_is_a_number() -> None:
    assert machine_of(ARM[:18] + b"\xf3\x00") == "0xf3"


def test_each_step_of_the_build_is_a_part() -> None:
    """Of the Dockerfile's own steps that make a layer; new ones are the operator's unless a pattern says otherwise."""
    text = (ROOT / "operator" / "Dockerfile").read_text().replace("\\\n", " ")
    found = {part_of(step) for step in re.findall(r"^(?:RUN|COPY) .*", text, re.MULTILINE)}
    assert found | {"Debian"} == {*PARTS}
    assert part_of("/bin/sh") == "Debian"


def test_the_table_has_a_column_for_each_image() -> None:
    lines = table({"a": Counter({"Debian": 86_400_000}), "b": Counter({"The operator": 600_000})}).splitlines()
    assert lines[0] == "| MB | `a` | `b` |"
    assert lines[2] == "| Debian | 86 | 0 |"
    assert lines[-1] == "| Sum | 86 | 1 |"


def test_only_what_is_compiled_is_fetched_for_another_machine() -> None:
    lock = "# by uv\nhdfs-native==1 \\\n    --hash=sha256:aa\n    # via x\nkopf==2 \\\n    --hash=sha256:bb\n"
    wheels = ["hdfs_native-1-cp310-abi3-manylinux_2_17_x86_64.whl", "kopf-2-py3-none-any.whl"]
    assert "".join(compiled(lock, wheels)) == "hdfs-native==1 \\\n    --hash=sha256:aa\n    # via x\n"
