"""Repairs of the timeline: what counts as a file without content."""

from typing import Any

import pytest

from compaction_operator.hudi.jvm.repairs import is_empty


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
