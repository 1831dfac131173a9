"""The mark of this folder's tests."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/soak/storm/test_storm" in item.path.as_posix():
            item.add_marker(pytest.mark.storm)
