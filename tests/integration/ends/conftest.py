"""A plane whose drivers can be held, so that a test ends them as Kubernetes does."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from sandbox.plane import Plane
from sandbox.plane.kubelet import Driver

from compaction_operator.api.compaction import TableCompactionStatus
from compaction_operator.api.conditions import SUCCEEDED, find_condition
from tests.integration.ends import entry
from tests.integration.metastore.fixture_table import FixtureTable, inserted

SECONDS = 120.0
"""What a step may take here: how fast the machine is is not asked."""
_numbers = count(1)


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with Plane(tmp_path_factory.mktemp("plane"), spark=False, entry=entry.run) as made:
        yield made


@pytest.fixture
def table(plane: Plane) -> Iterator[FixtureTable]:
    """A table of three inserts, which Hive leaves to the operator."""
    with inserted(plane.admin(), plane.metastore, f"db{next(_numbers)}") as made:
        yield made


@dataclass
class Attempts:
    """The attempts of one compaction, whose drivers do not begin before `go_on`."""

    plane: Plane
    name: str
    hold: Path

    def driver(self, attempt: int) -> Driver:
        """Return the driver of an attempt once it is there."""

        def running() -> Driver | None:
            return next((one for one in self.plane.drivers.current() if one.attempt == attempt), None)

        return self.plane.wait(running, timeout=SECONDS, what=f"the driver of attempt {attempt}")

    def go_on(self) -> None:
        """Let drivers begin."""
        self.hold.unlink()

    def says(self, reason: str) -> TableCompactionStatus:
        """Return the status once it gives that reason."""

        def said() -> TableCompactionStatus | None:
            status = self.plane.compaction(self.name).status
            verdict = find_condition(status.conditions, SUCCEEDED)
            return status if verdict and verdict.reason == reason else None

        return self.plane.wait(said, timeout=SECONDS, what=f"tcomp/{self.name} to say {reason}")


@pytest.fixture
def attempts(plane: Plane, table: FixtureTable) -> Iterator[Attempts]:
    """A compaction of the table."""
    hold = plane.drivers.folder / entry.HOLD
    hold.touch()
    name = plane.compact(f"{table.database}.{table.name}", "Minor", retry={"backoff": "1s"})
    yield Attempts(plane, name, hold)
    hold.unlink(missing_ok=True)
    plane.delete(name)
