"""Many files' tails are read side by side, and what is read is not waited for once it is of no use."""

import threading

import pytest

from compaction_operator.api.request import Reason
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.merge.tails import by_path


class Hanging:
    """A store that answers for some paths only when it is let go."""

    def __init__(self, *paths: str) -> None:
        self.go_on = threading.Event()
        self.reached = threading.Event()
        self.waited_for = False
        self._paths = paths

    def read(self, path: str) -> str:
        if path == "bad":
            raise ValueError(path)
        if path in self._paths:
            self.reached.set()
            self.waited_for = not self.go_on.wait(30)
        return path.upper()


def test_each_path_is_read_once() -> None:
    assert by_path(["b", "a", "b"], Hanging().read) == {"a": "A", "b": "B"}


def test_a_driver_that_has_to_end_waits_for_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Hanging("hangs")
    monkeypatch.setattr(interruption, "STEP_SECONDS", 0.001)

    def told() -> None:
        assert store.reached.wait(30)
        monkeypatch.setattr(interruption._Asked, "yes", True)

    threading.Thread(target=told).start()
    with pytest.raises(JobError) as caught:
        by_path(["hangs", *map(str, range(100))], store.read)
    assert (caught.value.reason, store.waited_for) == (Reason.INTERRUPTED, False)
    store.go_on.set()


def test_an_error_waits_for_no_other_file() -> None:
    store = Hanging("hangs")
    with pytest.raises(ValueError, match="bad"):
        by_path(["bad", "hangs"], store.read)
    assert not store.waited_for
    store.go_on.set()
