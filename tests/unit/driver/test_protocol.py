"""The driver detects the protocol that it follows; it is not configured."""

import pytest

from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.hive3 import Hive3
from compaction_operator.driver.hive.hive4 import Hive4
from compaction_operator.driver.main import protocol_of
from compaction_operator.metastore import Generation, MetastoreError
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
