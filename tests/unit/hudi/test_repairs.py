"""Repairs of the timeline: what counts as a file without content."""

from types import SimpleNamespace
from typing import Any

import pytest

from compaction_operator.hudi.jvm.repairs import WRITING_SECONDS, Repairs, is_empty


class Storage:
    """HoodieStorage with one file, which is its own stream, and the meta client that has it."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.closed = False

    def getStorage(self) -> "Storage":  # noqa: N802
        return self

    def open(self, path: Any) -> "Storage":
        assert path == "plan"
        return self

    def read(self) -> int:
        return self._content[0] if self._content else -1

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(("content", "empty"), [(b"", True), (b"\0", False), (b"Obj", False)])
def test_a_file_is_empty_if_nothing_can_be_read_whatever_its_listed_size(content: bytes, empty: bool) -> None:
    """On NFS a listing may show the size from before a live process filled the file."""
    storage = Storage(content)
    assert is_empty("plan", storage) is empty
    assert storage.closed


NOW = 10_000_000


class Written(Repairs):
    """A table on a machine whose clock shows NOW, in milliseconds."""

    def __init__(self) -> None:
        self._jvm = SimpleNamespace(System=SimpleNamespace(currentTimeMillis=lambda: NOW))


def timeline(version: int, **seconds_ago: int) -> Any:
    """The meta client of a table of that version, with a plan of each of these actions, and how old each is."""
    entries = [
        SimpleNamespace(
            getPath=lambda name=f"20.{action}.requested": SimpleNamespace(getName=lambda: name),
            getModificationTime=lambda seconds=seconds: NOW - 1000 * seconds,
        )
        for action, seconds in seconds_ago.items()
    ]
    found = SimpleNamespace(size=lambda: len(entries), get=lambda number: entries[number])
    config = SimpleNamespace(getTableVersion=lambda: SimpleNamespace(versionCode=lambda: version))
    return SimpleNamespace(
        getStorage=lambda: SimpleNamespace(listDirectEntries=lambda _: found),
        getTimelinePath=lambda: "timeline",
        getTableConfig=lambda: config,
    )


@pytest.mark.parametrize(
    ("version", "action", "age", "spared"),
    [
        (8, "clean", 5, True),
        (6, "clean", WRITING_SECONDS - 1, True),
        (8, "clean", WRITING_SECONDS + 1, False),
        (8, "logcompaction", 5, False),
        (9, "clean", 5, False),
    ],
)
def test_the_plan_of_a_clean_may_be_being_written_where_1_0_writes_without_the_lock(
    version: int, action: str, age: int, spared: bool
) -> None:
    found = Written()._unlocked_plans(timeline(version, **{action: age}))
    assert found == ({"20": "20.clean.requested"} if spared else {})
