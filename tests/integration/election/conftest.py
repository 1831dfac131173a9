"""A plane with the election, and two controllers on it: one leads, the other stands by."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from sandbox.harness.wait import wait_until
from sandbox.plane import Plane
from sandbox.plane.processes import PythonProcess

from tests.integration.election import entry
from tests.integration.metastore.fixture_table import FixtureTable, inserted

SECONDS = 200.0
"""What a step may take here: how fast the machine is is not asked."""
VALUES = {
    "replicas": 2,
    "leaderElection": {"enabled": True},
    "cleanup": {"interval": "500ms", "planningTime": "1s"},
}
_numbers = count(1)


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane whose controllers need the lease; none runs yet."""
    made = Plane(tmp_path_factory.mktemp("plane"), spark=False, entry=entry.run, values=VALUES, receipts=True)
    with made as plane:
        plane.controller.kill()
        yield plane


@dataclass
class Pair:
    """Two controllers, each a process that can be killed and stopped."""

    plane: Plane
    folder: Path
    leader: PythonProcess
    standby: PythonProcess

    def stop_after(self, step: str) -> None:
        """Let the leader stop right after the first step whose label begins like that."""
        (self.folder / entry.STOP).write_text(step)

    def steps(self, process: PythonProcess) -> list[entry.Step]:
        """Return what a controller has changed."""
        return entry.steps(self.folder, process.pid)


@pytest.fixture
def pair(plane: Plane) -> Iterator[Pair]:
    """Give a leader that is ready, and a standby that is."""
    folder = plane.controller.log.parent
    (folder / entry.WAREHOUSE).write_text(f"{plane.metastore.warehouse}/")
    plane.forget_lease()
    leader = _start(plane, "leader")
    yield Pair(plane, folder, leader, standby=_start(plane, "standby"))
    plane.controller.kill()


def _start(plane: Plane, role: str) -> PythonProcess:
    plane.controller.start()
    process = plane.controller.lose()
    wait_until(lambda: answer(process, "/readyz").startswith(f"role: {role}\n"), timeout=SECONDS, what=f"a {role}")
    return process


def answer(process: PythonProcess, path: str) -> str:
    """Return what a probe is answered, empty if it fails."""
    with suppress(URLError, ConnectionError), urlopen(f"http://127.0.0.1:{process.launch.port}{path}") as found:
        return str(found.read().decode())
    return ""


@pytest.fixture
def table(plane: Plane) -> Iterator[FixtureTable]:
    """A table of three inserts, which Hive leaves to the operator."""
    with inserted(plane.admin(), plane.metastore, f"db{next(_numbers)}") as made:
        yield made
