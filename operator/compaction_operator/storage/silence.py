"""A storage that does not answer is not asked for each of many paths: each would take a call's whole time-out."""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

from compaction_operator.acid.listing import Listing
from compaction_operator.storage.base import Listed, Storage, StorageError, is_passing

_AT_ONCE = 16
ENOUGH = 2
"""Paths in a row without an answer. NB: one is not enough. It may have a trouble of its own, such as a lost block, and
would keep the others from being compacted."""


class Silence:
    """Whether one storage does not answer, by what calls for different paths came to. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errors: dict[str, StorageError] = {}

    @contextmanager
    def asked(self, path: str) -> Iterator[None]:
        """Make calls for a path. Raises a passing StorageError before them if the storage does not answer.

        A passing error of the calls counts as no answer. Any other StorageError, or none, is an answer.
        """
        self._require_answers(path)
        try:
            yield
        except StorageError as error:
            self._note(path, error)
            raise
        self._note(path, None)

    def _require_answers(self, path: str) -> None:
        with self._lock:
            if len(self._errors) < ENOUGH:
                return
            reason = next(iter(self._errors.values()))
        raise StorageError(f"{path}: not asked, because its storage does not answer: {reason}", passing=True)

    def _note(self, path: str, error: StorageError | None) -> None:
        with self._lock:
            if error is None or not is_passing(error):
                self._errors.clear()
            else:
                self._errors[path] = error


class Silences:
    """The silence of each storage that a series of steps uses: another bucket may answer."""

    def __init__(self) -> None:
        self._silences: defaultdict[int, Silence] = defaultdict(Silence)

    def asked(self, storage: Storage, path: str) -> AbstractContextManager[None]:
        """Make calls for a path of a storage; see `Silence.asked`."""
        return self._silences[id(storage)].asked(path)


def list_side_by_side(list_partition: Callable[[str], Listing], paths: Collection[str]) -> dict[str, Listed]:
    """List directories one by one, some of them at the same time, until the storage does not answer."""
    silence = Silence()

    def listed(path: str) -> Listed:
        try:
            with silence.asked(path):
                return list_partition(path)
        except StorageError as error:
            return error

    with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(paths)))) as threads:
        return dict(zip(paths, threads.map(listed, paths), strict=True))
