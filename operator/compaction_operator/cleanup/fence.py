"""The fence: stops a paused or lost driver from publishing, and completes the pair that it half-published.

The fence first renames every staging folder of another owner. A concurrent rename out of the folder then fails, or
happened before and is visible to every later listing. Everything here can be repeated from any point, also
concurrently. Where the store cannot rename, it only removes the folders: uploads publish there, and have ids to abort.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from compaction_operator.acid.names import parse_directory
from compaction_operator.cleanup.staging import INTENT, StagingFolder, parse_staging
from compaction_operator.storage import AlreadyExistsError, EntryKind, NotFoundError, Storage, StorageError, join


@dataclass(frozen=True, slots=True)
class FenceReport:
    """Result of a fence in one directory: removed folders, and outputs published to complete a pair."""

    removed: tuple[str, ...]
    rolled_forward: tuple[str, ...]


def fence(storage: Storage, location: str, *, keep: str | None) -> FenceReport:
    """Remove every staging folder in a table's or partition's directory except `keep`; complete half-published pairs.

    A directory that does not exist has nothing to fence. Raises StorageError if a folder cannot be removed or if a
    pair's other half is uncertain; nothing is lost then, and the fence must be run again.
    """
    return fence_those(storage, location, lambda folder: folder.name != keep)


def fence_those(storage: Storage, location: str, chosen: Callable[[StagingFolder], bool]) -> FenceReport:
    """Do what `fence` does for the chosen staging folders only; leave the others to their owners."""
    rolled_forward: list[str] = []
    removed: list[str] = []
    for folder in filter(chosen, _folders(storage, location)):
        rolled_forward += _end(storage, location, folder)
        removed.append(folder.name)
    return FenceReport(tuple(removed), tuple(rolled_forward))


def retire(storage: Storage, location: str, name: str) -> None:
    """Give up one's own staging folder, as a fence does with those of others.

    NB: it touches no other folder: a driver that fails because it was superseded must not fence its successor.
    """
    folder = parse_staging(name)
    if folder is None:
        raise ValueError(f"{name} is not the name of a staging folder")
    _end(storage, location, folder)


def _end(storage: Storage, location: str, folder: StagingFolder) -> list[str]:
    """End a staging folder; return what was published to complete its pair.

    NB: a store that cannot rename publishes nothing from it directly: the uploads that copied its files are ended by
    their ids (`end_attempt`).
    """
    if not storage.abilities.atomic_directory_rename:
        storage.delete_tree(join(location, folder.name))
        return []
    return _shut(storage, location, folder) + _settle(storage, location, folder.fenced_name)


def _folders(storage: Storage, location: str) -> list[StagingFolder]:
    try:
        entries = storage.list(location)
    except NotFoundError:
        return []
    parsed = [parse_staging(entry.name) for entry in entries if entry.kind is EntryKind.DIRECTORY]
    return [folder for folder in parsed if folder is not None]


def _shut(storage: Storage, location: str, folder: StagingFolder) -> list[str]:
    """Rename a folder away from its owner; return what settling an earlier fenced folder of its name published."""
    if folder.fenced:
        return []
    source, target = join(location, folder.name), join(location, folder.fenced_name)
    with suppress(NotFoundError):
        try:
            storage.rename(source, target)
        except AlreadyExistsError:
            rolled_forward = _settle(storage, location, folder.fenced_name)
            storage.rename(source, target)
            return rolled_forward
    return []


def _settle(storage: Storage, location: str, name: str) -> list[str]:
    """Roll a fenced folder's pair forward if it was begun, then delete the folder; return what was published."""
    fenced = join(location, name)
    intent = join(fenced, INTENT)
    rolled_forward = _roll_forward(storage, location, fenced) if storage.exists(intent) else []
    # NB: the intent goes first: a half-deleted folder must never look like a half-published pair.
    storage.delete_tree(intent)
    storage.delete_tree(fenced)
    return rolled_forward


def _roll_forward(storage: Storage, location: str, fenced: str) -> list[str]:
    try:
        outputs = _intended(storage.read(join(fenced, INTENT)), fenced)
    except NotFoundError:
        return []
    waiting = [name for name in outputs if storage.exists(join(fenced, name))]
    if len(waiting) in {0, len(outputs)}:
        return []
    for name in outputs:
        if name not in waiting and not storage.exists(join(location, name)):
            if storage.exists(join(fenced, INTENT)):
                raise StorageError(f"{fenced}: {name} is neither here nor published; the rest of its pair is kept")
            return []  # another fence is deleting this folder
    for name in waiting:
        _publish(storage, source=join(fenced, name), target=join(location, name))
    return waiting


def _publish(storage: Storage, *, source: str, target: str) -> None:
    """Publish the other half; another fence may be faster, but no other writer may have taken its name."""
    try:
        storage.publish(source, target)
    except NotFoundError:
        if not storage.exists(target):
            raise
    except AlreadyExistsError as error:
        raise StorageError(f"{target} does not belong to the pair of {source}; the pair is left as it is") from error


def _intended(content: bytes, fenced: str) -> list[str]:
    """Return the outputs of an intent record. Raises StorageError unless all are directory names of the grammar."""
    try:
        record: Any = json.loads(content)
        outputs = record["outputs"]
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{fenced}/{INTENT} cannot be read: {error}") from error
    if not isinstance(outputs, list) or not all(isinstance(name, str) and parse_directory(name) for name in outputs):
        raise StorageError(f"{fenced}/{INTENT} names something that is not an output directory: {outputs!r}")
    return outputs
