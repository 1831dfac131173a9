"""Checks of a warehouse's folders: can each be listed, and written as publication needs it? Never inside of a table."""

from collections.abc import Callable, Collection, Iterator

from compaction_operator.api.config import Warehouse
from compaction_operator.cli.findings import Finding, Level, Report, Subject
from compaction_operator.storage import Storage, StorageError, is_below, join, probe_renames
from compaction_operator.storage.uri import Location

_RIGHTS = "give the operator's account the right to list, write and delete there, or correct the warehouse's stores"
_BELOW = (
    "nothing, if only Hive's user makes folders there and the operator's account may write the tables' own; otherwise "
    f"{_RIGHTS}"
)
_OUT = (
    "set receipts.location to a folder outside of all tables, and move the receipts that are there: Hudi takes folders "
    "of a table for partitions"
)
_UNFIT = "take another store: docs/storage.md says what a store must do"


def check_storage(warehouse: Warehouse, open_storage: Callable[[str], Storage]) -> Iterator[Finding]:
    """Yield a finding for each folder with tables or receipts. It writes hidden files there and removes them."""
    report = Report(Subject.STORAGE, warehouse.name)
    folders = tuple(dict.fromkeys((*warehouse.allowed_locations, *warehouse.hudi.locations)))
    if not folders:
        change = "set volume, or locations and stores: until then no table of this warehouse is compacted"
        yield report.failed("no folder is configured that can hold tables", change)
    for folder in folders:
        yield _folder(report, folder, open_storage)
    if warehouse.receipts:
        yield _receipts(report, warehouse.receipts.location, open_storage, tables=folders)


def _receipts(
    report: Report, folder: str, open_storage: Callable[[str], Storage], *, tables: Collection[str]
) -> Finding:
    """Probe the folder of receipts, unless it is in a Hudi table, which lies below one of the folders of tables."""
    try:
        storage, above = open_storage(folder), folder.rstrip("/")
        for _ in range(_depth_in(tables, folder)):
            if storage.exists(join(above, ".hoodie")):
                return report.failed(f"{folder} lies in the Hudi table {above}", _OUT)
            above, _, _ = above.rpartition("/")
    except StorageError as error:
        return report.failed(f"{folder}: {error}", _RIGHTS)
    return _folder(report, folder, open_storage, made_later=True)


def _depth_in(tables: Collection[str], folder: str) -> int:
    """Return how many folders there are from the highest folder of tables above a folder down to that, both counted.

    The root is not counted. Raises StorageError for a location that cannot be understood.
    """
    above = [len(Location.parse(one).names) for one in tables if is_below(folder, one)]
    return len(Location.parse(folder).names) + 1 - max(1, min(above)) if above else 0


def _folder(
    report: Report, folder: str, open_storage: Callable[[str], Storage], *, made_later: bool = False
) -> Finding:
    """Probe a folder; of one that the controller makes when it needs it, the parent.

    NB: never a Hudi table's own: what lies in it that is not the table's may be taken for a partition.
    """
    listed, later = False, ""
    try:
        storage = open_storage(folder)
        if made_later and not storage.exists(folder):
            later = f"; the controller makes {folder} when it needs it"
            folder = folder.rpartition("/")[0]
        # NB: object stores have no empty folders, and a new warehouse is empty.
        entries = storage.list(folder) if not storage.uploads or storage.exists(folder) else ()
        listed = True
        if ".hoodie" in (entry.name for entry in entries):
            if made_later:
                return report.failed(f"{folder} is a Hudi table, not a folder for receipts", _OUT)
            return report.ok(f"{folder} can be listed; it is a Hudi table, so nothing is written there for a check")
        why = storage.uploads.probe(folder) if storage.uploads else probe_renames(storage, folder)
    except StorageError as error:
        if listed and error.denied and not made_later:
            return report.found(Level.WARNING, f"{folder} can be listed, not written: {error}", _BELOW)
        return report.failed(f"{folder}: {error}", _RIGHTS)
    if why is not None:
        return report.failed(f"{folder} cannot be published to safely: {why}", _UNFIT)
    return report.ok(f"{folder} can be listed, written and cleaned{later}")
