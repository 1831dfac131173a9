"""Runs tests both with the compiled kernels and with their references in Python."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from compaction_operator.orc import kernels
from compaction_operator.orc.merge import engine


@pytest.fixture(scope="module", params=["kernels", "references"])
def both_means(request: pytest.FixtureRequest) -> Iterator[None]:
    """A module that uses this runs twice; the kernels must be built."""
    assert kernels.compiled, "the kernels are not built: make venv"
    with patch.object(kernels, "compiled", kernels.compiled if request.param == "kernels" else None):
        yield


@pytest.fixture
def rewriting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stripe is copied: a copy would say nothing of how columns are read and written."""
    monkeypatch.setattr(engine, "joined", lambda sizes: [True] * len(sizes))
