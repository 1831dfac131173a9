"""H13: a metastore that misbehaves during a call causes no deletion and hides no reader.

The tests try each fault at each call that the controller makes for a cleanup: settling, looking for readers, deleting.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sandbox.harness.wait import wait_until
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.proxy import Fault, MisbehavingProxy
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.config import Metastore, OperatorConfig, Warehouse
from compaction_operator.api.request import agent_info
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.kube.resources import Cleanup, TableKey
from compaction_operator.controller.work import Work
from compaction_operator.metastore import LockKind, LockWish
from tests.unit.controller.sandbox import DELTAS, NOON, cleanup, entry_json

OUTPUT = "delta_0000001_0000003"
OWN = agent_info(uid="uid-default-nightly", attempt=1, pod_uid="pod")
TIMEOUT = 0.5

MOST_TRIES = 60
NO_VALUE = {"unlock"}
"""Calls whose reply holds nothing: an empty one is right."""
EMPTY = {Fault.NO_RESULT, Fault.EMPTY_RESULT}
ASKED_AGAIN = {"get_open_txns_info"}
"""Calls that are sent again when the metastore hangs up, and so get their answer."""
HANGS_UP = {Fault.CLOSE, Fault.HALF_AND_CLOSE}


@dataclass
class Scene:
    """A table that was compacted, its cleanup, and the controller's work with it by way of the proxy."""

    admin: MetastoreAdmin
    proxy: MisbehavingProxy
    database: str
    directory: Path
    journal: Cleanup
    work: Work

    def settle(self) -> Any:
        """Settle while a driver's lock is left to be given back."""
        wish = LockWish(database=self.database, table="t", kind=LockKind.SHARED_READ, agent=OWN)
        self.admin.lock(wish)
        return self.work.settle(self.journal, driver_ended=True)

    def look(self) -> Any:
        """Look at the table and another one."""
        return self.work.look("lake", [self.key, self.other])

    def delete(self) -> Any:
        """Make a deletion pass."""
        return self.work.delete(self.journal, self.journal.spec.partitions, purge=False)

    @property
    def key(self) -> TableKey:
        return TableKey("lake", self.database, "t")

    @property
    def other(self) -> TableKey:
        return TableKey("lake", self.database, "other")

    def fill(self) -> None:
        """Put all that the cleanup records into the table's directory."""
        for name in (*DELTAS, OUTPUT):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
            (self.directory / name / "bucket_00000").write_bytes(b"rows")

    def files(self) -> list[str]:
        """Return what is in the table's directory, hidden names left out."""
        return sorted(path.name for path in self.directory.iterdir() if path.name[0] not in "._")

    def works_again(self) -> bool:
        """Let the metastore behave: the next look sees the reader."""
        self.proxy.behave()

        def reader() -> bool:
            seen = self.look()[self.other]
            return not isinstance(seen, Trouble) and "reader" in {lock.agent for lock in seen.locks}

        # Asked more than once only where this machine is too busy for the time-out.
        return wait_until(reader, timeout=30, what="a look that sees the reader")


@pytest.fixture(scope="module")
def stage(admin: MetastoreAdmin, server: MetastoreServer) -> Iterator[Scene]:
    """A table with three write ids; a reader holds a lock on another one."""
    database, directory = "misbehaving", Path(server.warehouse) / "misbehaving.db" / "t"
    admin.create_database(database, location=f"file:{directory.parent}")
    admin.create_table(database, "t", location=f"file:{directory}", columns=[("id", "int")])
    for _ in range(3):
        txn = admin.open_txn(user="writer", agent="test")
        admin.allocate_write_id(txn, database, "t")
        admin.commit_txn(txn)
    admin.lock(LockWish(database=database, table="other", kind=LockKind.SHARED_READ, agent="reader"))
    host, port = urlsplit(server.uri).hostname or "", urlsplit(server.uri).port or 0
    with MisbehavingProxy(host, port) as proxy:
        settings = Metastore(uris=(proxy.uri,), timeout=TIMEOUT)
        warehouse = Warehouse(name="lake", metastore=settings, namespaces=("default",))
        config = OperatorConfig(warehouses=(warehouse,), profiles=())
        journal = journal_of(admin, database, "t")
        yield Scene(admin, proxy, database, directory, journal, Work(config, clock=lambda: NOON))


@pytest.fixture
def scene(stage: Scene) -> Scene:
    """All that the cleanup records lies there and is obsolete."""
    stage.fill()
    return stage


def journal_of(admin: MetastoreAdmin, database: str, name: str) -> Cleanup:
    found = admin.get_table(database, name)
    identity = {"database": database, "name": name, "createTime": found.create_time, "location": found.location}
    entry = entry_json(location=found.location, createTime=found.create_time, outputs=[OUTPUT])
    status = {"partitions": [{"partition": "", "state": "Published", "remaining": list(DELTAS)}]}
    return cleanup(entries=[entry], table=identity, status=status)


def is_failure(outcome: Any) -> bool:
    """Return whether the controller got an error instead of an answer."""
    if isinstance(outcome, dict):
        return any(isinstance(seen, Trouble) for seen in outcome.values())
    return isinstance(outcome, Trouble)


def told(outcome: Any) -> str:
    """Return the message of the error."""
    if isinstance(outcome, dict):
        return next(seen.message for seen in outcome.values() if isinstance(seen, Trouble))
    return str(outcome.message)


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("operation", [Scene.settle, Scene.look, Scene.delete], ids=lambda done: done.__name__)
def test_a_fault_in_any_call_is_reported_and_deletes_nothing(
    scene: Scene, operation: Callable[[Scene], Any], fault: Fault
) -> None:
    """Disturb one call after the other, until the operation ends before it reaches the call to disturb."""
    before, number = scene.files(), 0
    for _ in range(MOST_TRIES):
        scene.fill()
        scene.proxy.misbehave(fault, at=number)
        outcome = operation(scene)
        calls = list(scene.proxy.calls)
        if len(calls) <= number:
            if not is_failure(outcome):
                break
            continue  # this machine was too busy for the time-out
        if not is_harmless(calls[number], fault):
            assert is_failure(outcome), calls[number]
            assert scene.proxy.uri in told(outcome), calls[number]
        assert scene.files() == before or may_have_deleted(calls, number), calls[number]
        assert scene.works_again()
        number += 1
    assert not is_failure(outcome)
    assert scene.files() == (before if operation is not Scene.delete else [OUTPUT])


def is_harmless(call: str, fault: Fault) -> bool:
    """Return whether the call serves its purpose in spite of the fault."""
    return (call in NO_VALUE and fault in EMPTY) or (call in ASKED_AGAIN and fault in HANGS_UP)


def may_have_deleted(calls: list[str], number: int) -> bool:
    """Return whether the faulty call is the one that releases the EXCLUSIVE lock: it comes after a correct deletion."""
    return calls[number] == "unlock" and "lock" in calls[:number]
