"""The receipts of one warehouse in a folder of any store: one file each, named by its number, never changed.

A file is created only if its name is free. So the next number belongs to exactly one writer, and the chain cannot fork,
even if two controllers write: the store decides, as a metastore or a lock would. Nothing is appended to, because S3
cannot append.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from compaction_operator.receipts.chain import Head
from compaction_operator.receipts.receipt import DamagedReceiptError, Kind, Receipt, digest
from compaction_operator.storage import AlreadyExistsError, EntryKind, NotFoundError, Storage, join

FOLDER_SIZE = 10_000
"""Receipts in a folder: one listing of folders and one of the newest folder find the head."""
KEPT = 500
"""Receipts in memory. Older ones are read again."""
INDEXED = 100_000
"""Receipts whose time, and the compaction that ended, are in memory: about 10 MB."""
READERS = 16
"""Receipts that are read at a time."""

_FOLDER, _FILE = re.compile(r"[0-9]{5,}"), re.compile(r"([0-9]{9,})\.json")

log = logging.getLogger(__name__)

Make = Callable[[Sequence[Receipt]], Receipt | None]
"""Returns the receipt to append, given those that are there since a number; None if there is nothing to add to them."""


End = tuple[str, int]
"""A compaction that ended, by its UID, and its last attempt."""


class Ledger:
    """The writer of one warehouse's receipts. Thread-safe.

    `now` returns the time as RFC 3339. Methods raise StorageError, and DamagedReceiptError if a receipt that they must
    know cannot be read.
    """

    def __init__(self, storage: Storage, location: str, *, now: Callable[[], str]) -> None:
        self._storage = storage
        self._location = location
        self._now = now
        self._lock = threading.Lock()
        self._head: Head | None = None
        self._known: dict[int, Receipt] = {}
        self._index: dict[int, tuple[str, End | None]] = {}

    def head(self) -> Head:
        """Return the newest receipt that is known. The first call looks for it."""
        with self._lock:
            return self._find_head()

    def append(self, make: Make, *, after: int) -> None:
        """Append what `make` returns, given the receipts with a number above `after`.

        It is called again if another writer was faster, or if an earlier call has written and did not learn of it.
        """
        with self._lock:
            while True:
                head = self._find_head()
                receipt = make([self._receipt(number) for number in range(after + 1, head.number + 1)])
                if receipt is None or self._write(receipt, head):
                    return
                self._read_on()

    def append_end(self, receipt: Receipt, *, since: str) -> None:
        """Append the receipt of a compaction's end, unless a receipt since a time (RFC 3339) is about its end.

        An end with a later attempt is another one: what ended the compaction before did not reach its status.
        """
        end = receipt.compaction_uid, receipt.attempt
        with self._lock:
            while not self._has(end, since, head := self._find_head()):
                if self._write(receipt, head):
                    return
                self._read_on()

    def _has(self, end: End, since: str, head: Head) -> bool:
        """Whether a receipt is about an end. The first older one ends the search: times ascend along the chain."""
        for number in range(head.number, 0, -1):
            time, found = self._indexed(number)
            if found == end or time < since:
                return found == end
        return False

    def _indexed(self, number: int) -> tuple[str, End | None]:
        """Return the time of a receipt, and the end that it is about, if it is about one."""
        return self._index.get(number) or _entry_of(self._receipt(number))

    def _write(self, draft: Receipt, head: Head) -> bool:
        """Write a draft as the next receipt. Return False if another has that number.

        NB: its time is taken after the receipt before was read. So times ascend, as far as the writers' clocks agree,
        whatever a writer waited for in between.
        """
        place = {"number": head.number + 1, "previous": head.digest, "time": self._now()}
        receipt = draft.model_copy(update=place)
        line, path = receipt.line(), _path(self._location, receipt.number)
        if receipt.number == 1:
            self._storage.make_directory(self._location)
        if receipt.number == 1 or receipt.number % FOLDER_SIZE == 0:
            self._storage.make_directory(path.rpartition("/")[0])
        try:
            self._storage.write(path, line)
        except AlreadyExistsError:
            return False
        self._head = Head(receipt.number, digest(line))
        self._remember(receipt.number, receipt)
        log.info("receipt %s in %s", self._head, self._location)
        return True

    def _read_on(self) -> None:
        """Read what follows the head."""
        with suppress(NotFoundError):
            while True:
                number = self._find_head().number + 1
                line = self._storage.read(_path(self._location, number))
                self._head = Head(number, digest(line))

    def _find_head(self) -> Head:
        if self._head is None:
            number = _newest(self._storage, self._location)
            line = self._storage.read(_path(self._location, number)) if number else None
            self._head = Head() if line is None else Head(number, digest(line))
        return self._head

    def _receipt(self, number: int) -> Receipt:
        if number not in self._known:
            path = _path(self._location, number)
            try:
                receipt = Receipt.parse(self._storage.read(path))
            except DamagedReceiptError as error:
                raise DamagedReceiptError(f"{path}: {error}; restore it, or name another folder") from error
            self._remember(number, receipt)
        return self._known[number]

    def _remember(self, number: int, receipt: Receipt) -> None:
        self._known[number], self._index[number] = receipt, _entry_of(receipt)
        for memory, most in ((self._known, KEPT), (self._index, INDEXED)):
            if len(memory) > most:
                del memory[next(iter(memory))]


def _entry_of(receipt: Receipt) -> tuple[str, End | None]:
    is_end = receipt.kind is Kind.COMPACTION
    return receipt.time, (receipt.compaction_uid, receipt.attempt) if is_end else None


def stored(storage: Storage, location: str) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the line of each receipt of a folder, as it is stored, from the oldest one on.

    Raises StorageError, also if the folder does not exist.
    """
    storage.list(location)
    with ThreadPoolExecutor(READERS) as pool:
        for folder in _folders(storage, location):
            files = _files_of(storage, join(location, folder))
            lines = pool.map(storage.read, [path for _, path in files])
            yield from zip((number for number, _ in files), lines, strict=True)


def _newest(storage: Storage, location: str) -> int:
    """Return the highest number, 0 for none. NB: a folder is empty if its maker died right then."""
    for folder in reversed(_folders(storage, location)):
        if files := _files_of(storage, join(location, folder)):
            return files[-1][0]
    return 0


def _folders(storage: Storage, location: str) -> list[str]:
    try:
        entries = storage.list(location)
    except NotFoundError:
        return []
    found = (entry.name for entry in entries if entry.kind is EntryKind.DIRECTORY)
    return sorted((name for name in found if _FOLDER.fullmatch(name)), key=int)


def _files_of(storage: Storage, folder: str) -> list[tuple[int, str]]:
    found = ((_FILE.fullmatch(entry.name), entry.name) for entry in storage.list(folder))
    return sorted((int(match[1]), join(folder, name)) for match, name in found if match)


def _path(location: str, number: int) -> str:
    return join(location, f"{number // FOLDER_SIZE:05d}", f"{number:09d}.json")
