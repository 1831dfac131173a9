"""The driver detects the protocol that it follows; it is not configured."""

from pathlib import Path

import pytest

from compaction_operator.api.request import Reason
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.hive3 import Hive3
from compaction_operator.driver.hive.hive4 import Hive4
from compaction_operator.driver.hive.protocol import each
from compaction_operator.driver.main import protocol_of
from compaction_operator.driver.merge.partition import OpenTarget
from compaction_operator.metastore import Generation, MetastoreError
from compaction_operator.storage import StorageError
from tests.support.metastore import FakeMetastore, unavailable
from tests.unit.driver.support import IDENTITY, REQUEST


def attempt(metastore: FakeMetastore) -> DriverContext:
    return DriverContext(metastore.client(), REQUEST, "pod1", IDENTITY)


@pytest.mark.parametrize(("generation", "protocol"), [(Generation.HIVE3, Hive3), (Generation.HIVE4, Hive4)])
def test_each_generation_has_its_own(generation: Generation, protocol: type) -> None:
    assert type(protocol_of(attempt(FakeMetastore(generation)))) is protocol


def test_a_metastore_that_does_not_say_is_not_guessed_at() -> None:
    with pytest.raises(MetastoreError):
        protocol_of(attempt(unavailable()))


def test_a_step_does_not_wait_for_each_partition_of_a_store_that_does_not_answer(tmp_path: Path) -> None:
    """There are hundreds in a batch, under its lock, and each call takes its whole time-out."""
    asked: list[str] = []

    def step(target: OpenTarget) -> None:
        asked.append(target.partition)
        raise StorageError(f"{target.location}: no answer in 60 s", passing=True)

    targets = [OpenTarget(f"p={number}", f"{tmp_path}/p={number}", 100, "_compaction_1") for number in range(9)]
    failed = list(each(targets, step))
    assert asked == ["p=0", "p=1"]
    assert [one.target for one in failed] == targets
    assert {one.error.reason for one in failed} == {Reason.STORAGE_UNAVAILABLE}
