"""Receipts of deletions: what goes away in a pass is written into the warehouse's ledger exactly once.

Before a pass its notice is written into the folder `pending` beside the receipts: the names that are there, and the
number of the newest receipt. After the pass, what is gone becomes one receipt, unless a receipt since then has it, and
the notice is removed. So a process may die at any point. The next one finds the notice, looks what is gone, and writes
what no receipt has. Two that do so at the same time cannot both write: the second finds the number taken, and reads the
first one's receipt.
"""

import hashlib
import json
import logging
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from pydantic import ValidationError

from compaction_operator.acid.listing import Listing
from compaction_operator.api.cleanup import CompactionRef, ObsoleteEntry, PartitionEntry
from compaction_operator.api.model import ReadModel
from compaction_operator.cleanup.deletion import Deletions, JournalPass, PartitionDeletion
from compaction_operator.cleanup.identity import volume_of
from compaction_operator.cleanup.quarantine import QUARANTINE, quarantine_name
from compaction_operator.cleanup.recorded import Now, list_directory
from compaction_operator.cleanup.staging import TRASH_PREFIX
from compaction_operator.errors import OperatorError
from compaction_operator.receipts import DamagedReceiptError, DeletedName, Kind, Ledger, Part, Receipt
from compaction_operator.storage import Entry, EntryKind, NotFoundError, Storage, StorageError, join

PENDING = "pending"
"""The folder of notices. It is empty while nothing is being deleted."""

STORAGE_ERROR = "StorageError"

log = logging.getLogger(__name__)

OpenStorage = Callable[[str], Storage]


class ReceiptNotWrittenError(OperatorError):
    """A receipt cannot be written now. What it is about waits."""


class Notice(ReadModel):
    """What a pass may delete: its receipt if all of that goes away, and the number of the newest receipt before it.

    `volumes` has the directory without which a part's content is unknown, for each part.
    """

    after: int
    receipt: Receipt
    volumes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """What a pass may delete, and the pass over those entries alone. `skipped` are the results of the others."""

    receipt: Receipt
    volumes: tuple[str, ...]
    given: JournalPass
    skipped: Deletions


class ReceiptBook:
    """The receipts of a warehouse. Thread-safe.

    `now` returns the time as RFC 3339. Methods raise ReceiptNotWrittenError if a receipt, or what must be known for it,
    cannot be read or written.
    """

    def __init__(self, open_storage: OpenStorage, location: str, *, now: Callable[[], str]) -> None:
        self._open_storage = open_storage
        self._storage = open_storage(location)
        self._location = location
        self._pending = join(location, PENDING)
        self._lock = threading.Lock()
        self._known = False
        self._open: dict[str, Notice] = {}
        self._chain = Ledger(self._storage, location, now=now)

    def record(self, receipt: Receipt, *, since: str) -> None:
        """Write the receipt of a compaction that ends, unless a receipt since a time (RFC 3339) has it."""
        with _as_not_written():
            self._chain.append_end(receipt, since=since)

    def recorded(self, make_draft: Callable[[], Draft], delete: Callable[[JournalPass], Deletions]) -> Deletions:
        """Do what deletes between the notice and the receipt. Nothing is deleted if the notice cannot be written.

        A receipt that cannot be written afterwards is written before the cleanup ends: its status needs the results.
        NB: the chain is read before the draft: a receipt that another cleanup writes in between has what is gone then.
        """
        with _as_not_written():
            after = self._chain.head().number
        draft = make_draft()
        if not draft.receipt.parts:
            return (*delete(draft.given), *draft.skipped)
        with _as_not_written():
            self._settle_left()
            path = self._announced(draft) or self._announce(draft, after=after)
        over = False
        try:
            results = delete(draft.given)
            # NB: a call that was given up may still delete.
            over = all(result.reason != STORAGE_ERROR for result in results)
        finally:
            self._try_to_settle(path, over=over)
        return (*results, *draft.skipped)

    def close(self, cleanup_uid: str, *, dropped: Collection[str] = ()) -> None:
        """Write what a cleanup's passes deleted and no receipt has: the cleanup may end only after this.

        `dropped` are the partitions that are not the recorded ones any more: their directories may be missing.
        """
        with _as_not_written():
            self._settle_left()
            for path, notice in [*self._open.items()]:
                if notice.receipt.cleanup_uid == cleanup_uid:
                    self._settle(path, notice, over=True, dropped=dropped)

    def _announced(self, draft: Draft) -> str | None:
        """Return the notice of an earlier pass that meant to delete the same and could not, None without one."""
        meant = _meant(draft.receipt)
        with self._lock:
            known = list(self._open.items())
        return next((path for path, one in known if _meant(one.receipt) == meant), None)

    def _announce(self, draft: Draft, *, after: int) -> str:
        notice = Notice(after=after, receipt=draft.receipt, volumes=draft.volumes)
        path = join(self._pending, f"{draft.receipt.cleanup_uid}.{uuid.uuid4().hex}.json")
        self._storage.make_directory(self._location)
        self._storage.make_directory(self._pending)
        self._storage.write(path, json.dumps(notice.to_json()).encode())
        self._open[path] = notice
        return path

    def _settle_left(self) -> None:
        """Settle once what an earlier process left. What cannot be settled yet waits for its cleanup's end."""
        with self._lock:
            if self._known:
                return
            left = dict(self._stored())
            self._open |= left
            self._known = True
        for path in left:
            self._try_to_settle(path, over=False)

    def _stored(self) -> Iterator[tuple[str, Notice]]:
        with suppress(NotFoundError):
            for entry in self._storage.list(self._pending):
                path = join(self._pending, entry.name)
                with suppress(NotFoundError):  # another controller has just settled it
                    if not entry.name.startswith("."):
                        yield path, _read_notice(path, self._storage.read(path))

    def _try_to_settle(self, path: str, *, over: bool) -> None:
        notice = self._open.get(path)
        if notice is None:  # another thread was faster
            return
        try:
            self._settle(path, notice, over=over)
        except (StorageError, DamagedReceiptError) as error:
            log.warning("the receipt of cleanup %s is not written yet: %s", notice.receipt.cleanup, error)

    def _settle(self, path: str, notice: Notice, *, over: bool, dropped: Collection[str] = ()) -> None:
        """Write the receipt for what is gone. The notice stays while something that is still there may go away."""
        meant = notice.receipt.parts
        for part, volume in zip(meant, notice.volumes, strict=True):
            if part.partition not in dropped and not self._open_storage(part.location).exists(volume):
                raise StorageError(f"{volume} does not exist: is its volume there?")
        gone = tuple(map(self._gone, meant))
        if any(part.deleted for part in gone):
            self._chain.append(lambda since: _unwritten(notice.receipt, gone, since), after=notice.after)
        if over or all(len(part.deleted) == len(whole.deleted) for part, whole in zip(gone, meant, strict=True)):
            self._storage.delete_tree(path)
            self._open.pop(path, None)

    def _gone(self, part: Part) -> Part:
        """Return a part with the names that are gone now."""
        storage = self._open_storage(part.location)
        there, listing = _present(storage, part.location), list_directory(storage, part.location)
        deleted = tuple(one for one in part.deleted if one.name not in there)
        return part.model_copy(update={"deleted": deleted, "listing_after": checksum(listing)})


@contextmanager
def _as_not_written() -> Iterator[None]:
    try:
        yield
    except (StorageError, DamagedReceiptError) as error:
        raise ReceiptNotWrittenError(f"the receipt cannot be written: {error}") from error


def _meant(receipt: Receipt) -> tuple[str | None, set[tuple[str, str]]]:
    """Return whose receipt it is, and what is deleted: the location and name of each."""
    return receipt.cleanup_uid, {(part.location, one.name) for part in receipt.parts for one in part.deleted}


def _read_notice(path: str, content: bytes) -> Notice:
    try:
        return Notice.model_validate_json(content)
    except ValidationError as error:
        raise DamagedReceiptError(f"{path} is damaged; look what its cleanup deleted, then remove the file") from error


def draft_of(given: JournalPass, *, receipt: Receipt, purge: bool) -> Draft:
    """Return what a pass may delete: the recorded names that are there, also those that an earlier pass hid.

    With `purge` it looks where that pass deletes: into the quarantine, if the store has one. Raises the metastore's
    errors.
    """
    found: dict[str, Part] = {}

    def visit(storage: Storage, _: Now, entry: PartitionEntry) -> PartitionDeletion:
        found[entry.partition] = _part(storage, given.spec.compaction, entry, purge=purge)
        return PartitionDeletion(entry.partition)

    skipped = tuple(result for result in given.visit_entries(visit) if result.skipped is not None)
    entries = tuple(entry for entry in given.spec.partitions if entry.partition in found)
    meant = [entry for entry in entries if found[entry.partition].deleted]
    return Draft(
        receipt=receipt.with_parts(tuple(found[entry.partition] for entry in meant)),
        volumes=tuple(volume_of(entry.location, given.spec.table.location) for entry in meant),
        given=replace(given, spec=given.spec.model_copy(update={"partitions": entries})),
        skipped=skipped,
    )


def checksum(listing: Listing) -> str:
    """Return the SHA-256 of a directory's visible paths and their sizes in bytes."""
    found = [[file.name, file.size] for file in listing.files]
    for directory in listing.directories:
        found += [
            [f"{directory.name}/", 0],
            *([f"{directory.name}/{file.name}", file.size] for file in directory.files),
        ]
    return hashlib.sha256(json.dumps(sorted(found), separators=(",", ":")).encode()).hexdigest()


def _part(storage: Storage, compaction: CompactionRef, entry: PartitionEntry, *, purge: bool) -> Part:
    location = entry.location
    if purge and storage.abilities.atomic_directory_rename:
        location = join(location, QUARANTINE, quarantine_name(compaction))
    there, listing = _present(storage, location), list_directory(storage, location)
    names = tuple(_name(storage, location, there[one.name], one) for one in entry.obsolete if one.name in there)
    return Part(partition=entry.partition, location=location, deleted=names, listing_before=checksum(listing))


def _name(storage: Storage, location: str, found: Entry, recorded: ObsoleteEntry) -> DeletedName:
    sizes = [found.size]
    if found.kind is EntryKind.DIRECTORY:
        below = list_directory(storage, join(location, found.name))
        sizes = [file.size for file in (*below.files, *(file for one in below.directories for file in one.files))]
    return DeletedName(name=recorded.name, reason=recorded.reason, files=len(sizes), size=sum(sizes))


def _present(storage: Storage, location: str) -> dict[str, Entry]:
    """Return the entries of a directory by name; one that a pass has hidden, and not deleted yet, is there, too."""
    try:
        return {entry.name.removeprefix(TRASH_PREFIX): entry for entry in storage.list(location)}
    except NotFoundError:
        return {}


def _unwritten(receipt: Receipt, gone: Sequence[Part], since: Sequence[Receipt]) -> Receipt | None:
    """Return the receipt for what is gone, without what other receipts have; None if these have all of it."""
    others = [one for one in since if one.kind is Kind.DELETION]
    written = {(part.location, name.name) for one in others for part in one.parts for name in part.deleted}
    parts = []
    for part in gone:
        names = tuple(name for name in part.deleted if (part.location, name.name) not in written)
        parts += [part.model_copy(update={"deleted": names})] if names else []
    return receipt.with_parts(tuple(parts)) if parts else None
