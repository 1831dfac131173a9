"""Stand-ins for a metastore."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.unit.metastore.stub import StubMetastore


@pytest.fixture
def stub() -> Iterator[Callable[..., StubMetastore]]:
    """Make stand-ins that answer the named calls; they are closed after the test."""
    with ExitStack() as stack:

        def make(**answers: Any) -> StubMetastore:
            return stack.enter_context(closing(StubMetastore(**answers)))

        yield make
