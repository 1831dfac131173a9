"""The web page of a real controller in a browser: a table from its debt to the reader that its cleanup waits for."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from sandbox.harness.browser import Browser
from sandbox.harness.chart import RELEASE
from sandbox.harness.cluster import CommandError
from sandbox.harness.forward import PortForward
from sandbox.harness.settings import WAREHOUSE
from sandbox.harness.tables import TABLE_TXN_001, HiveTable
from sandbox.harness.wait import wait_until

from compaction_operator.api.config import UiSettings
from compaction_operator.api.model import GROUP, VERSION
from tests.e2e.scene import READER, Scene

POLICY = "page"
PORT = UiSettings().port


@dataclass(frozen=True)
class Shown:
    """A browser, the page's address, and a table that is compacted while a reader holds a lock on it."""

    browser: Browser
    address: str
    table: HiveTable
    compaction: str

    def text(self, path: str) -> str:
        """Open a page and return its text."""
        self.browser.open(f"{self.address}{path}")
        found: str = self.browser.ask("document.body.innerText")
        return found


@pytest.fixture(scope="module")
def shown(shared_scene: Scene) -> Iterator[Shown]:
    scene = shared_scene
    compacted, due = scene.table(TABLE_TXN_001), scene.table(TABLE_TXN_001, "due")
    scene.lock(compacted)
    name = scene.compact(compacted, "Minor")
    # The policy only looks. Its looks measure the table that is due, and the compacted one after its compaction.
    spec = {"warehouse": WAREHOUSE, "tables": {"include": [f"{scene.database}.*"]}, "interval": "10s", "dryRun": True}
    metadata = {"name": POLICY}
    scene.compactions.apply(
        {"apiVersion": f"{GROUP}/{VERSION}", "kind": "CompactionPolicy", "metadata": metadata, "spec": spec}
    )
    scene.compactions.wait_succeeded(name)
    forward = PortForward(
        scene.cluster, namespace=scene.stage.operator.namespace, target=f"service/{RELEASE}", port=PORT
    )
    try:
        with forward, Browser() as browser:
            found = Shown(browser, f"http://127.0.0.1:{forward.port}/ui/", compacted, name)
            wait_until(
                lambda: f"{scene.database}.{due.name}" in found.text("tables"), timeout=120, what="the table's debt"
            )
            yield found
    finally:
        scene.cluster.kubectl("delete", "tcp", POLICY, "-n", scene.namespace, "--timeout=60s")


def test_whom_a_cleanup_waits_for(shown: Shown, shared_scene: Scene) -> None:
    cleanup = shared_scene.cleanup_of(shown.compaction)
    text = wait_until(
        lambda: text if f"of {READER}@" in (text := shown.text(f"cleanups?q={shown.table.database}")) else None,
        timeout=60,
        what="the reader's name on the page",
    )
    assert f"{shared_scene.namespace}/{cleanup}" in text
    assert "WaitingForReaders" in text


def test_what_has_ended_says_what_was_before_and_after(shown: Shown, shared_scene: Scene) -> None:
    assert f"{shared_scene.namespace}/{shown.compaction}" in shown.text("compactions")
    assert "3 → 1" in shown.browser.ask("document.querySelector('main').innerText")


def test_a_table_before_now_and_after(shown: Shown) -> None:
    text = shown.text(f"tables/{WAREHOUSE}/{shown.table.database}.{shown.table.name}")
    for says in ("3 deltas", "delta_0000001_0000001_0000", "obsolete, still there", f"of {READER}@", "page (warehouse"):
        assert says in text, says
    due = shown.text(f"tables/{WAREHOUSE}/{shown.table.database}.due")
    assert "3 deltas, with delete deltas, 3 files" in due
    assert "one base" in due


def test_it_fits_a_phone(shown: Shown) -> None:
    shown.browser.shape(390, 800, phone=True)
    for path in ("", "tables", "compactions", "cleanups", f"tables/{WAREHOUSE}/{shown.table.database}.due"):
        shown.text(path)
        assert shown.browser.ask("document.documentElement.scrollWidth") == 390, path
    assert shown.browser.messages == []


def test_only_the_role_lets_a_user_see_it(scene: Scene) -> None:
    """By the API server's proxy. The role for `why` does not suffice."""
    namespace = scene.stage.operator.namespace
    path = f"/api/v1/namespaces/{namespace}/services/{RELEASE}:ui/proxy/ui/"
    bindings = [("rolebinding", f"viewer-{name}", "-n", namespace) for name in ("why", "ui")]
    roles = [f"--role={RELEASE}-{name}" for name in ("why", "ui")]
    scene.cluster.kubectl("create", *bindings[0], roles[0], "--user=viewer")
    try:
        with pytest.raises(CommandError, match="Forbidden"):
            scene.cluster.kubectl("get", "--raw", path, "--as", "viewer")
        scene.cluster.kubectl("create", *bindings[1], roles[1], "--user=viewer")
        assert "<h1>Fleet</h1>" in scene.cluster.kubectl("get", "--raw", path, "--as", "viewer")
    finally:
        scene.cluster.kubectl("delete", *bindings[0])
        scene.cluster.kubectl("delete", *bindings[1], "--ignore-not-found")
