"""A plane with a pool of the queue, for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.soak.queue.runner import QueueRunner


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/soak/queue/" in item.path.as_posix():
            item.add_marker(pytest.mark.crash)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueRunner]:
    """A runner on Hive 4.0.1."""
    with QueueRunner(tmp_path_factory.mktemp("queue") / "runner") as runner:
        yield runner
