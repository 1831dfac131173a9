"""A plane and Hive's reader of each generation, for all tests of this folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sandbox.harness.places import StorageKind
from sandbox.metastore.server import Hive

from tests.integration.oracle.hive import HiveOracle
from tests.soak.crash.runner import PlanRunner

SECONDS = 200.0
"""What a run may take here: how fast the machine is is not asked."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/soak/crash/" in item.path.as_posix():
            item.add_marker(pytest.mark.crash)


@pytest.fixture(scope="module", params=["3.1.3", "4.0.1"])
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlanRunner]:
    """A runner of plans on either generation."""
    with running(request.param, "file", tmp_path_factory.mktemp("crash")) as runner:
        yield runner


@pytest.fixture(scope="module", params=["3.1.3", "4.0.1"])
def runner_on_hdfs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlanRunner]:
    """The same with the tables on HDFS."""
    with running(request.param, "hdfs", tmp_path_factory.mktemp("crash")) as runner:
        yield runner


@pytest.fixture(scope="module")
def runner_on_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlanRunner]:
    """Hive 4, with the tables on S3."""
    with running("4.0.1", "s3", tmp_path_factory.mktemp("crash")) as runner:
        yield runner


@contextmanager
def running(hive: Hive, storage: StorageKind, folder: Path) -> Iterator[PlanRunner]:
    """Start a plane, and Hive's reader of the same generation."""
    with (
        HiveOracle(int(hive[0])) as oracle,
        PlanRunner(folder / hive, hive=hive, oracle=oracle, storage=storage, seconds=SECONDS) as runner,
    ):
        yield runner
