"""A JVM of each Hive version for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.integration.oracle.hive import HiveOracle


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/integration/oracle/" in item.path.as_posix():
            item.add_marker(pytest.mark.oracle)


@pytest.fixture(scope="session")
def hive3() -> Iterator[HiveOracle]:
    """Hive 3.1.3."""
    with HiveOracle(3) as oracle:
        yield oracle


@pytest.fixture(scope="session")
def hive4() -> Iterator[HiveOracle]:
    """Hive 4.0.1."""
    with HiveOracle(4) as oracle:
        yield oracle


@pytest.fixture(scope="session")
def oracles(hive3: HiveOracle, hive4: HiveOracle) -> dict[int, HiveOracle]:
    """Both, by version."""
    return {3: hive3, 4: hive4}
