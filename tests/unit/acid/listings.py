"""Listings for the tests: written down by name, or read from the fixtures."""

from pathlib import Path

from compaction_operator.acid.listing import Directory, File, Listing
from compaction_operator.acid.names import (
    GUARD_BASE,
    METADATA_ACID,
    METADATA_ACID_CONTENT,
    ORC_ACID_VERSION,
    is_union_directory,
    parse_directory,
)
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList

FIXTURES = Path(__file__).parents[2] / "fixtures"

ACID_FILES = (File(ORC_ACID_VERSION, 1), File("bucket_00000", 700))


def metadata(data_format: str) -> File:
    """Make the `_metadata_acid` that Hive writes into a base of that format."""
    content = METADATA_ACID_CONTENT.replace(b"compacted", data_format.encode())
    return File(METADATA_ACID, len(content), content)


def listing(*names: str) -> Listing:
    """Make a listing of names; digits make a file.

    `base_3*` is a compacted base (its `_metadata_acid` says so); `base_3=truncated` is one that TRUNCATE made, empty
    apart from its `_metadata_acid`.
    """
    files = tuple(File(name, 300) for name in names if name[0].isdigit())
    return Listing(tuple(_directory(name) for name in names if not name[0].isdigit()), files)


def _directory(name: str) -> Directory:
    name, _, data_format = name.partition("=")
    if data_format:
        return Directory(name, (metadata(data_format),))
    if name.endswith("*"):
        return Directory(name[:-1], (*ACID_FILES, metadata("compacted")))
    return Directory(name, ACID_FILES)


def recorded_listing(entries: list[str]) -> Listing:
    """Make a listing of recorded entries: names, each with one of its files if that matters (`base_3/_metadata_acid`).

    A directory's name alone stands for one with a bucket file; `000000_0` makes a raw one of it. The guard is empty,
    and so are the bases of TRUNCATE and DROP PARTITION (`base_3/_metadata_acid=truncated`).
    """
    paths = [entry.partition("/") for entry in sorted(entries)]
    files: dict[str, tuple[File, ...]] = {}
    for name, _, inside in paths:
        if not name[0].isdigit():
            files[name] = files.get(name, _usual_files(name, inside)) + ((_recorded_file(inside),) if inside else ())
    directories = tuple(Directory(name, held) for name, held in files.items())
    return Listing(directories, tuple(File(name, 3) for name, _, _ in paths if name[0].isdigit()))


def _recorded_file(inside: str) -> File:
    name, _, data_format = inside.partition("=")
    return metadata(data_format or "compacted") if name == METADATA_ACID else File(name, 48)


def _usual_files(name: str, inside: str) -> tuple[File, ...]:
    if name == GUARD_BASE.name:
        return ACID_FILES[:1]
    if "=" in inside:
        return ()
    return () if is_union_directory(name) or inside[:1].isdigit() else ACID_FILES


def with_files(name: str, *files: str) -> Directory:
    """Make a directory that holds just these files."""
    return Directory(name, tuple(_recorded_file(file) for file in files))


def read_listing(path: Path) -> Listing:
    """List a fixture's directory as the storage layer would."""
    children = [child for child in sorted(path.iterdir()) if not child.name.startswith(("_", "."))]
    return Listing(
        tuple(_read_directory(child) for child in children if child.is_dir()),
        tuple(File(child.name, child.stat().st_size) for child in children if child.is_file()),
    )


def _read_directory(path: Path) -> Directory:
    files = [file for file in sorted(path.rglob("*")) if file.is_file()]
    return Directory(path.name, tuple(_read_file(file, str(file.relative_to(path))) for file in files))


def _read_file(path: Path, name: str) -> File:
    return File(name, path.stat().st_size, path.read_bytes() if name == METADATA_ACID else None)


def write_ids(high: int, *, open: tuple[int, ...] = (), aborted: tuple[int, ...] = ()) -> ValidWriteIdList:
    """Make the write ids 1..high of a table."""
    return ValidWriteIdList(high, frozenset(open), frozenset(aborted), min(open, default=None), table="db.t")


def txns(high: int, *, open: tuple[int, ...] = (), aborted: tuple[int, ...] = ()) -> ValidTxnList:
    """Make the transactions 1..high."""
    return ValidTxnList(high, frozenset(open), frozenset(aborted), min(open, default=None))


def published(before: Listing, names: tuple[str, ...]) -> Listing:
    """Return the listing with outputs added as a compaction writes them."""
    bases = {name for name in names if (found := parse_directory(name)) and found.is_base}
    added = (_directory(f"{name}*" if name in bases else name) for name in names)
    return Listing((*before.directories, *added), before.files)
