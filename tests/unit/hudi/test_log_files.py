"""What a log file costs to look at: a size and headers, asked for again only where they may have changed."""

from types import SimpleNamespace
from typing import Any

import pytest

from compaction_operator.hudi.jvm.log_files import LogFiles

NAME = ".f1_20.log.1_0-1-1"


class Storage:
    """Hudi's storage, with files that are one byte longer at each look."""

    def __init__(self) -> None:
        self.looks = 0

    def getPathInfo(self, path: Any) -> Any:  # noqa: N802
        self.looks += 1
        return SimpleNamespace(getLength=lambda: self.looks)


class Headers(LogFiles):
    """Log files without a block."""

    def _headers(self, partition: str, name: str) -> list[Any]:
        return []


def opened(storage: Storage, *, names_have_instants: bool) -> LogFiles:
    block = SimpleNamespace(HoodieLogBlock=SimpleNamespace(HeaderMetadataType=None))
    log = SimpleNamespace(table=SimpleNamespace(log=SimpleNamespace(block=block)))
    hudi = SimpleNamespace(common=log, storage=SimpleNamespace(StoragePath=str))
    return Headers(hudi, storage, "/t", names_have_instants=names_have_instants)


@pytest.mark.parametrize(("names_have_instants", "looks"), [(True, 1), (False, 2)])
def test_a_file_of_one_instant_is_asked_for_its_size_once(names_have_instants: bool, looks: int) -> None:
    """The second draft of a plan is made under the table's lock."""
    storage = Storage()
    files = opened(storage, names_have_instants=names_have_instants)
    assert [files.read("", NAME).size for _ in range(2)] == [1, looks]
    assert storage.looks == looks
