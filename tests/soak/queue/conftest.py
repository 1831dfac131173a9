"""A plane with a pool of the queue, for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox.metastore.server import CLEANER

from tests.soak.queue.runner import QueueRunner

INITIATOR = {
    "metastore.compactor.initiator.on": "true",
    "hive.compactor.check.interval": "1s",
    "hive.compactor.delta.num.threshold": "2",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/soak/queue/" in item.path.as_posix():
            item.add_marker(pytest.mark.crash)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[QueueRunner]:
    """A runner on Hive 4.0.1."""
    with QueueRunner(tmp_path / "runner") as runner:
        yield runner


@pytest.fixture(scope="module")
def runner_with_hives_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueRunner]:
    """The same with Hive's own Initiator and Cleaner."""
    overrides = {**CLEANER, **INITIATOR}
    with QueueRunner(tmp_path_factory.mktemp("queue") / "runner", overrides=overrides) as runner:
        yield runner
