"""A plane and Hive's reader of each generation, for all tests of this folder."""

from collections.abc import Iterator

import pytest

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
    hive = request.param
    folder = tmp_path_factory.mktemp("crash") / hive
    with HiveOracle(int(hive[0])) as oracle, PlanRunner(folder, hive=hive, oracle=oracle, seconds=SECONDS) as runner:
        yield runner
