"""A minor compaction that stays in the middle of its work for as long as a test wants."""

from typing import Any

from sandbox.harness import expected
from sandbox.harness.tables import TABLE_TXN_001, fourth_write

from tests.e2e.scene import Scene

SOON = {"maxAttempts": 3, "backoff": "1s"}
MOST = 300.0
"""Seconds for two attempts, with a restart of what was killed in between."""


class Minor:
    """A minor compaction of a table with deletes.

    While a reader has a lock its driver waits for an exclusive one, with all files written and the journal created:
    so it stays in the middle for as long as the test wants.
    """

    def __init__(self, scene: Scene, **spec: Any) -> None:
        self.scene = scene
        self.table = scene.table(TABLE_TXN_001)
        scene.warehouse.writer.write(self.table, fourth_write())
        self.rows = scene.warehouse.rows(self.table)
        self.lock = scene.lock(self.table)
        self.name = scene.compact(self.table, "Minor", retry=SOON, **spec)

    def wait_in_the_middle(self) -> str:
        """Wait until the journal is there, and nothing is published; return the journal's name."""
        cleanup = self.scene.wait_cleanup_of(self.name)
        names = self.scene.names(self.table)[""]
        staging = {name for name in names if name.startswith("_compaction_")}
        assert len(staging) == 1
        assert names - staging == expected.INSERTS | expected.UPDATE
        return cleanup

    def check_end(self, *, most_attempts: int) -> None:
        """Check the state in which every one of these compactions ends, once its readers have gone."""
        status = self.scene.compactions.wait_succeeded(self.name, timeout=MOST)
        assert status.attempt <= most_attempts
        assert self.scene.verdict(self.name).reason == "Compacted"
        self.scene.cleaned(self.name)
        assert self.scene.names(self.table) == {"": expected.AFTER_UPDATE_MINOR}
        assert self.scene.warehouse.rows(self.table) == self.rows
