"""An archive of an image leaves out what its receiver holds, and is complete otherwise."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from sandbox.cluster.oci_archive import find_manifest, write_archive

IMAGE = "localhost/some:1"


def add_blob(layout: Path, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    (layout / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
    (layout / "blobs" / "sha256" / digest).write_bytes(data)
    return f"sha256:{digest}"


@pytest.fixture
def layout(tmp_path):
    layers = [{"digest": add_blob(tmp_path, data)} for data in (b"large", b"small")]
    content = {"config": {"digest": add_blob(tmp_path, b"{}")}, "layers": layers}
    manifest = {
        "digest": add_blob(tmp_path, json.dumps(content).encode()),
        "annotations": {"org.opencontainers.image.ref.name": IMAGE},
    }
    (tmp_path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    (tmp_path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return tmp_path


def contents(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: (archive.extractfile(member) or io.BytesIO()).read() for member in archive}


def test_archive_holds_every_blob_of_the_image(layout, capsysbinary):
    write_archive(layout, IMAGE, set())
    written = contents(capsysbinary.readouterr().out)
    assert {b"large", b"small", b"{}"} <= set(written.values())
    assert json.loads(written["index.json"])["manifests"][0]["annotations"] == {"io.containerd.image.name": IMAGE}


def test_archive_leaves_out_known_blobs(layout, capsysbinary):
    write_archive(layout, IMAGE, {"sha256:" + hashlib.sha256(b"large").hexdigest()})
    written = contents(capsysbinary.readouterr().out)
    assert b"large" not in written.values()
    assert b"small" in written.values()


def test_unknown_image_is_named(layout):
    with pytest.raises(LookupError, match="localhost/other:1"):
        find_manifest(layout, "localhost/other:1")
