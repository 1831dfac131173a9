"""Publication of images against a local registry: what is signed and attested, and that nothing else passes for it.

`make test-supply` runs it, and CI does not: the first build of cosign takes minutes, and so does another build of the
controller's image. The only server of the others is the registry.
"""

import base64
import hashlib
import json
import os
import re
import shlex
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sandbox.supply.provenance import BUILD_TYPE, BUILDER, predicate

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "supply-chain.md").read_text()
PASSWORD = "of the release's environment"
DONE = subprocess.CompletedProcess[str]


def program(name: str) -> str:
    command = [str(ROOT / "sandbox" / "program.sh"), f"supply/{name}"]
    return f"{subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()}/{name}"


@dataclass
class Registry:
    """A registry on this machine, and a home without any key or cache of Sigstore's."""

    address: str
    home: Path
    cosign: str = field(default_factory=lambda: program("cosign"))
    crane: str = field(default_factory=lambda: program("crane"))

    def run(self, *command: str, **environment: str) -> DONE:
        """Run a command whose only network is the registry's."""
        nowhere = dict.fromkeys(("https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:9")
        settings = {**os.environ, "TUF_ROOT": str(self.home / "tuf"), "COSIGN_PASSWORD": PASSWORD, **nowhere}
        return subprocess.run(
            command, env={**settings, **environment}, cwd=self.home, capture_output=True, text=True, check=False
        )

    def publish(
        self, layout: Path, documents: Path, *, repository: str = "images/operator", tag: str = "1.0", **given: str
    ) -> DONE:
        """Publish an image, as 1.0 unless a tag is given."""
        given = {"COSIGN_KEY": str(self.home / "cosign.key"), **given}
        script = str(ROOT / "sandbox" / "supply" / "publish.sh")
        return self.run(script, str(layout), f"{self.address}/{repository}", tag, str(documents), **given)

    def join(self, repository: str, **given: str) -> DONE:
        """Join the images 1.0-amd64 and 1.0-arm64 as 1.0."""
        given = {"COSIGN_KEY": str(self.home / "cosign.key"), **given}
        script = str(ROOT / "sandbox" / "supply" / "index.sh")
        return self.run(script, f"{self.address}/{repository}", "1.0", "amd64", "arm64", **given)

    def verify(self, image: str, *, verb: str = "verify", key: str = "cosign.pub", **options: str) -> DONE:
        """Verify an image as users do."""
        more = [part for name, value in options.items() for part in (f"--{name}", value)]
        return self.run(self.cosign, verb, "--key", key, "--insecure-ignore-tlog=true", *more, image)

    def attested(self, image: str, type_: str) -> dict[str, Any]:
        """Return the statement of that type."""
        done = self.verify(image, verb="verify-attestation", type=type_)
        assert done.returncode == 0, done.stderr
        statement: dict[str, Any] = json.loads(base64.b64decode(json.loads(done.stdout)["payload"]))
        return statement

    def tags(self, repository: str) -> list[str]:
        return self.run(self.crane, "ls", f"{self.address}/{repository}").stdout.split()


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Serve a registry, and make a key pair for the release and one of another person."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home = tmp_path_factory.mktemp("home")
    made = Registry(f"127.0.0.1:{port}", home)
    with subprocess.Popen(
        [made.crane, "registry", "serve", "--address", made.address], stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            assert "serving" in server.stderr.readline()
            threading.Thread(target=server.stderr.read, daemon=True).start()  # it logs each request
            for prefix in "cosign", "other":
                done = made.run(made.cosign, "generate-key-pair", "--output-key-prefix", prefix)
                assert done.returncode == 0, done.stderr
            yield made
        finally:
            server.terminate()


@pytest.fixture
def image(tmp_path: Path) -> Callable[..., Path]:
    """Make a tiny image that has a label, for a kind of machine; return its OCI layout."""

    def make(label: str, architecture: str = "amd64") -> Path:
        layout = tmp_path / label
        (layout / "blobs" / "sha256").mkdir(parents=True)

        def put(content: bytes, type_: str) -> dict[str, Any]:
            digest = hashlib.sha256(content).hexdigest()
            (layout / "blobs" / "sha256" / digest).write_bytes(content)
            return {
                "mediaType": f"application/vnd.oci.image.{type_}",
                "digest": f"sha256:{digest}",
                "size": len(content),
            }

        def put_json(content: dict[str, Any], type_: str) -> dict[str, Any]:
            return put(json.dumps(content).encode(), f"{type_}+json")

        layer = put(b"\0" * 1024, "layer.v1.tar")
        roots = {"type": "layers", "diff_ids": [layer["digest"]]}
        labels = {"Labels": {"label": label}}
        config = put_json({"architecture": architecture, "os": "linux", "config": labels, "rootfs": roots}, "config.v1")
        type_ = "application/vnd.oci.image.manifest.v1+json"
        manifest = put_json(
            {"schemaVersion": 2, "mediaType": type_, "config": config, "layers": [layer]}, "manifest.v1"
        )
        (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
        return layout

    return make


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """What `make sbom` and provenance.py write, in small."""
    found = {
        "provenance": predicate(
            "compaction-operator",
            source="https://git.example/operator",
            revision="c0ffee",
            version="1.0",
            builder=BUILDER,
            inputs={"operator/requirements.lock": b"kopf==1"},
        ),
        "spdx": {
            "spdxVersion": "SPDX-2.3",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": "compaction-operator",
            "packages": [],
        },
        "cyclonedx": {"bomFormat": "CycloneDX", "specVersion": "1.6", "components": []},
    }
    for kind, content in found.items():
        (tmp_path / f"operator.{kind}.json").write_text(json.dumps(content))
    return tmp_path / "operator"


def test_what_is_published_is_signed_and_attested(
    registry: Registry, image: Callable[..., Path], documents: Path
) -> None:
    """By its digest, under the key of the release; the tag leads to it."""
    done = registry.publish(image("good"), documents)
    assert done.returncode == 0, done.stderr
    published = done.stdout.strip()
    assert re.fullmatch(rf"{registry.address}/images/operator@sha256:[0-9a-f]{{64}}", published)
    digest = published.partition("@")[2]
    assert registry.run(registry.crane, "digest", f"{registry.address}/images/operator:1.0").stdout.strip() == digest
    assert registry.verify(published).returncode == 0

    statement = registry.attested(published, "slsaprovenance1")
    assert [one["digest"] for one in statement["subject"]] == [{"sha256": digest.removeprefix("sha256:")}]
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    definition = statement["predicate"]["buildDefinition"]
    assert definition["buildType"] == BUILD_TYPE
    commit, lock = definition["resolvedDependencies"]
    assert commit == {"uri": "git+https://git.example/operator", "digest": {"gitCommit": "c0ffee"}}
    assert lock["digest"] == {"sha256": hashlib.sha256(b"kopf==1").hexdigest()}
    assert registry.attested(published, "spdxjson")["predicate"]["spdxVersion"] == "SPDX-2.3"
    assert registry.attested(published, "cyclonedx")["predicate"]["bomFormat"] == "CycloneDX"


def test_the_commands_of_the_page_verify_it(
    registry: Registry, image: Callable[..., Path], documents: Path, tmp_path: Path
) -> None:
    """Each of them, as it is written there, with this image."""
    published = registry.publish(image("paged"), documents, repository="images/paged").stdout.strip()
    _, _, section = PAGE.partition("## Verify an image\n")
    commands = re.findall(r"^(cosign .*?[^\\])$", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    assert len(commands) == 4
    for command in commands:
        words = shlex.split(command.partition(" | ")[0].replace("\\\n", " ").replace("$IMAGE", published))
        done = registry.run(registry.cosign, *words[1:])
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", ["verify", "verify-attestation"])
def test_another_key_or_another_image_does_not_pass(
    registry: Registry, image: Callable[..., Path], documents: Path, verb: str
) -> None:
    published = registry.publish(image("mine"), documents, repository=f"images/{verb}").stdout.strip()
    options = {} if verb == "verify" else {"type": "slsaprovenance1"}
    assert registry.verify(published, verb=verb, **options).returncode == 0
    assert registry.verify(published, verb=verb, key="other.pub", **options).returncode != 0
    layout, repository = image("forged"), published.partition("@")[0]
    registry.run(registry.crane, "push", str(layout), f"{repository}:1.0")
    forged = registry.run(registry.crane, "digest", f"{repository}:1.0").stdout.strip()
    assert registry.verify(f"{repository}@{forged}", verb=verb, **options).returncode != 0


def test_the_attestations_of_another_image_do_not_pass(
    registry: Registry, image: Callable[..., Path], documents: Path
) -> None:
    """One who may write to the registry can put them beside any image: they name the digest that they are about."""
    published = registry.publish(image("original"), documents, repository="images/moved").stdout.strip()
    repository, _, digest = published.partition("@")
    registry.run(registry.crane, "push", str(image("copy")), f"{repository}:copy")
    copy = registry.run(registry.crane, "digest", f"{repository}:copy").stdout.strip()
    beside = [f"{repository}:{one.replace(':', '-')}" for one in (digest, copy)]
    moved = registry.run(registry.crane, "copy", *beside)
    assert moved.returncode == 0, moved.stderr
    for verb, options in ("verify", {}), ("verify-attestation", {"type": "slsaprovenance1"}):
        refused = registry.verify(f"{repository}@{copy}", verb=verb, **options)
        assert (refused.returncode != 0, "does not match any digest" in refused.stderr) == (True, True)


@pytest.mark.parametrize(
    ("given", "missing", "says"),
    [
        ({"COSIGN_KEY": ""}, "", "COSIGN_KEY is not set"),
        ({"COSIGN_PASSWORD": "another"}, "", "COSIGN_KEY cannot be used"),
        ({"COSIGN_KEY": "/nowhere"}, "", "COSIGN_KEY cannot be used"),
        ({}, "provenance", "operator.provenance.json is missing or empty"),
        ({}, "spdx", "operator.spdx.json is missing or empty"),
    ],
)
def test_without_a_key_or_a_document_nothing_is_pushed(
    registry: Registry,
    image: Callable[..., Path],
    documents: Path,
    *,
    given: dict[str, str],
    missing: str,
    says: str,
) -> None:
    if missing:
        documents.with_name(f"operator.{missing}.json").unlink()
    done = registry.publish(image("never"), documents, repository="images/never", **given)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr
    assert registry.tags("images/never") == []


def test_a_tag_that_is_taken_is_not_moved_unless_forced(
    registry: Registry, image: Callable[..., Path], documents: Path
) -> None:
    """Nodes that take the tag would run another image under the version that was tested."""
    first = registry.publish(image("first"), documents, repository="images/taken").stdout.strip()
    repository, _, digest = first.partition("@")
    refused = registry.publish(image("second"), documents, repository="images/taken")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"{repository}:1.0 is {digest} already" in refused.stderr
    assert registry.run(registry.crane, "digest", f"{repository}:1.0").stdout.strip() == digest
    assert [tag for tag in registry.tags("images/taken") if tag != "1.0"] == [digest.replace(":", "-")]
    forced = registry.publish(image("third"), documents, repository="images/taken", FORCE="1").stdout.strip()
    assert registry.run(registry.crane, "digest", f"{repository}:1.0").stdout.strip() == forced.partition("@")[2]


def test_a_release_can_be_repeated(registry: Registry, image: Callable[..., Path], documents: Path) -> None:
    """A later step may have failed: the tag leads to this very image."""
    layout = image("same")
    first, again = (registry.publish(layout, documents, repository="images/same") for _ in range(2))
    assert (again.returncode, again.stdout) == (0, first.stdout)


@pytest.fixture
def silent(registry: Registry) -> Iterator[Registry]:
    """The same registry by another address, where it does not say whether the tag 1.0 exists."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith("/manifests/1.0"):
                self.send_error(403)
                return
            inner = HTTPConnection(registry.address)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            inner.request(self.command, self.path, body, {**self.headers, "Host": registry.address})
            answer = inner.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            self.do_GET()

        def do_PUT(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield replace(registry, address=f"127.0.0.1:{running.server_port}")
        running.shutdown()


def test_a_tag_that_the_registry_does_not_speak_of_is_not_set(
    registry: Registry, silent: Registry, image: Callable[..., Path], documents: Path
) -> None:
    """An unknown answer is no no."""
    layout = image("there")
    assert registry.publish(layout, documents, repository="images/there").returncode == 0
    refused = silent.publish(layout, documents, repository="images/there")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "does not say whether" in refused.stderr


def test_what_cannot_be_attested_gets_no_tag(registry: Registry, image: Callable[..., Path], documents: Path) -> None:
    """A tag must not lead to an image that lacks a part."""
    documents.with_name("operator.cyclonedx.json").write_text("no JSON")
    done = registry.publish(image("half"), documents, repository="images/half")
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert "1.0" not in registry.tags("images/half")


def test_one_name_leads_each_machine_to_its_image(
    registry: Registry, image: Callable[..., Path], documents: Path
) -> None:
    """The index is signed itself, and the images that it leads to are those that were published and attested."""
    own = {}
    for arch in "amd64", "arm64":
        done = registry.publish(image(arch, arch), documents, repository="images/both", tag=f"1.0-{arch}")
        own[arch] = done.stdout.strip().partition("@")[2]
    joined = registry.join("images/both")
    assert joined.returncode == 0, joined.stderr
    repository, _, digest = joined.stdout.strip().partition("@")
    assert registry.run(registry.crane, "digest", f"{repository}:1.0").stdout.strip() == digest
    assert registry.verify(f"{repository}@{digest}").returncode == 0
    index = json.loads(registry.run(registry.crane, "manifest", f"{repository}:1.0").stdout)
    assert {one["platform"]["architecture"]: one["digest"] for one in index["manifests"]} == own
    for arch, one in own.items():
        led = registry.run(registry.crane, "digest", "--platform", f"linux/{arch}", f"{repository}:1.0")
        assert led.stdout.strip() == one
    again = registry.join("images/both")
    assert (again.returncode, again.stdout) == (0, joined.stdout)


def test_an_image_that_is_not_signed_or_not_there_is_not_joined(
    registry: Registry, image: Callable[..., Path], documents: Path
) -> None:
    registry.publish(image("signed"), documents, repository="images/part", tag="1.0-amd64")
    refused = registry.join("images/part")
    assert (refused.returncode, "1.0-arm64 is not in the registry" in refused.stderr) == (1, True)
    registry.run(registry.crane, "push", str(image("foreign", "arm64")), f"{registry.address}/images/part:1.0-arm64")
    refused = registry.join("images/part")
    assert (refused.returncode, "1.0-arm64 is not signed by this key" in refused.stderr) == (1, True)
    assert "1.0" not in registry.tags("images/part")


def test_the_controllers_image_made_again_is_the_same() -> None:
    """From nothing but the base image: another build of this commit can be compared by its digest."""
    script = str(ROOT / "sandbox" / "cluster" / "images.sh")
    done = subprocess.run([script, "again"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"sha256:[0-9a-f]{64}\n", done.stdout)
