"""Properties of a Hudi table (`.hoodie/hoodie.properties`), and the bundle of Hudi that supports it."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from compaction_operator.hudi.errors import HudiError, NotHudiError, NotMergeOnReadError, UnsupportedVersionError
from compaction_operator.storage import NotFoundError, Storage, join

FILES = ("hoodie.properties", "hoodie.properties.backup")
"""In Hudi's lookup order (HoodieTableConfig): while Hudi changes the first file, only the second is complete."""

BUNDLES: Mapping[str, frozenset[int]] = {"1.0.2": frozenset({6, 8}), "1.2.0": frozenset({6, 8, 9})}
"""The table versions that each bundle supports. The first bundle that fits is the default.

NB: a log compaction with 1.0.2 keeps `_hoodie_commit_time` of the records that it merges. 1.1 and 1.2 do not.
"""

LINES = ("1.0", "1.2")
"""The lines of releases whose classes, and whose way to merge, the operator knows."""

NEW_ORDERING = "hoodie.table.ordering.fields"
OLD_ORDERING = "hoodie.table.precombine.field"
"""The ordering fields of tables that clients of 1.1 and later, or of earlier releases, made, whatever the version."""

NAMES_OF_1_0 = ("hoodie.record.merge.mode", "hoodie.record.merge.strategy.id")
"""Each table that a release from 1.0 on made has one of these properties. A table of version 6 has the second alone."""

_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


PLAIN: Mapping[str, Collection[str]] = {
    "hoodie.table.cdc.enabled": {"false"},
    "hoodie.populate.meta.fields": {"true"},
    "hoodie.table.base.file.format": {"parquet"},
    "hoodie.table.multiple.base.file.formats.enable": {"false"},
    "hoodie.bootstrap.base.path": (),
    "hoodie.table.format": {"native"},
}
"""What these properties may say, in lower case, besides not being there."""


@dataclass(frozen=True)
class HudiTable:
    """A table as its properties describe it.

    `ordering_fields` decide which of two records with one key wins; the tuple is empty under commit-time ordering.
    `has_new_ordering` says that they are there only under the name that Hudi 1.1 gave them, `is_from_1_0` that the
    release that made the table was 1.0 or later, whatever the version.
    `metadata_partitions` are the parts of the metadata table that are ready (files, column_stats, ...); the tuple is
    empty for a table without metadata table. `legacy_payload_class` and `partial_update_mode` are how tables from
    version 9 on keep what a payload class did; `merge_properties` are the names of its settings
    (hoodie.record.merge.property.*). `features` are properties of what a compaction here cannot keep, as they stand in
    the table's file. Properties that a table lacks are None.
    """

    location: str
    name: str
    table_version: int
    is_merge_on_read: bool
    ordering_fields: tuple[str, ...] = ()
    has_new_ordering: bool = False
    is_from_1_0: bool = False
    merge_mode: str | None = None
    merge_strategy: str | None = None
    payload_class: str | None = None
    legacy_payload_class: str | None = None
    partial_update_mode: str | None = None
    merge_properties: tuple[str, ...] = ()
    metadata_partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()

    @property
    def replays_merged_blocks_last(self) -> bool:
        """Whether readers of this version may use Hudi's first scanner of log blocks, as those of 1.0 do.

        The first scanner replays a merged block at its own instant, the second at the position of its newest original.
        NB: the readers' scanner counts, whichever bundle compacts the table.
        """
        return self.table_version < 9

    @property
    def numbers_log_files(self) -> bool:
        """Whether readers order log files by number, that is, as they were written (FSUtils: `.log.<number>`)."""
        return self.table_version < 8

    @property
    def has_completion_times(self) -> bool:
        """Whether the names of completed instants contain the time of their completion."""
        return self.table_version >= 8

    def require_merge_on_read(self) -> None:
        """Raise NotMergeOnReadError for a copy-on-write table."""
        if not self.is_merge_on_read:
            raise NotMergeOnReadError(f"{self.location} is a copy-on-write table: it has no log files to compact")

    @property
    def shares_log_files(self) -> bool:
        """Whether a writer may take a log compaction's file into its own commit, which may break the metadata table.

        NB: before version 8, the writer of 1.0 and 1.2 looks for log files that it may have missed. It names one of
        another client wrong in the metadata table if its own path has no scheme: then no client can list the table.
        """
        return self.numbers_log_files and bool(self.metadata_partitions)

    def require_unshared_log_files(self) -> None:
        """Raise HudiError for a table whose log files must not be compacted beside its metadata table."""
        if self.shares_log_files:
            raise HudiError(
                f"{self.location} has version {self.table_version} and a metadata table: a writer beside a log "
                "compaction could make it unreadable; use type Compaction, or upgrade the table to version 8 or later"
            )

    def require_known_features(self) -> None:
        """Raise HudiError for a table with features that no bundle compacts right, or not in every release."""
        if self.features:
            raise HudiError(
                f"{self.location} has {', '.join(self.features)}, which the operator does not support: "
                "compact the table with the release that its writers use"
            )


def read_table(storage: Storage, location: str) -> HudiTable:
    """Return the table at a location.

    Raises NotHudiError, naming the file that is missing or incomplete, and StorageError when the location cannot be
    read.
    """
    for name in FILES:
        try:
            found = parse_properties(storage.read(join(location, ".hoodie", name)).decode("utf-8", "replace"))
        except NotFoundError:
            continue
        if "hoodie.table.name" in found and "hoodie.table.version" in found:
            return table_of(location, found)
    raise NotHudiError(f"{location} is no Hudi table: it has no .hoodie/{FILES[0]} with table name and version")


def bundle_for(table: HudiTable, wanted: str | None) -> str:
    """Return the version of the bundle to use: the wanted one, else the first that supports the table.

    Raises UnsupportedVersionError when the wanted bundle does not support the table, or no bundle does.
    """
    for version in BUNDLES:
        if wanted in (None, version) and _supports(version, table):
            return version
    what = f"{table.location} has table version {table.table_version}"
    if table.has_new_ordering:
        what += " and an ordering field as Hudi 1.1 and later names it (hoodie.table.ordering.fields)"
    served = "; ".join(f"{name}: {', '.join(map(str, sorted(fits)))}" for name, fits in BUNDLES.items())
    problem = "no bundle supports it"
    if wanted is not None:
        problem = f"hudi.bundle {wanted} {'does not support it' if wanted in BUNDLES else 'is unknown'}"
    raise UnsupportedVersionError(f"{what}: {problem} (supported table versions by bundle: {served})")


def line_of(bundle: str) -> str:
    """Return the line of releases that a bundle belongs to. Raises UnsupportedVersionError for one of no known line.

    NB: the classes and the merging of another release are unknown, so it is never taken for the one that is nearest.
    """
    line = ".".join(bundle.split(".")[:2])
    if line not in LINES or line == bundle:
        raise UnsupportedVersionError(f"Hudi {bundle} is of no line that the operator knows ({', '.join(LINES)})")
    return line


def is_1_0(bundle: str) -> bool:
    """Whether a bundle is of a release 1.0, whose classes and merging differ from the later ones'."""
    return line_of(bundle) == "1.0"


def _supports(bundle: str, table: HudiTable) -> bool:
    """Whether a bundle of BUNDLES reads the table right.

    NB: 1.0 does not know the new name of the ordering field. It would let late records win, for good.
    """
    knows_ordering = not (table.has_new_ordering and is_1_0(bundle))
    return knows_ordering and table.table_version in BUNDLES[bundle]


def parse_properties(text: str) -> dict[str, str]:
    """Return the keys and values of a file as java.util.Properties writes it, that is, without continuation lines."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and line[0] not in "#!")
    unescaped = partial(_ESCAPE.sub, _character)
    return {unescaped(key.strip()): unescaped(value.strip()) for key, _, value in pairs}


def _character(found: re.Match[str]) -> str:
    escaped = found[1]
    return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _CONTROLS.get(escaped, escaped)


def table_of(location: str, found: Mapping[str, str]) -> HudiTable:
    """Return a table by its location and properties. Raises NotHudiError for a version that is no number."""
    get, version = found.get, found["hoodie.table.version"]
    if not version.isascii() or not version.isdecimal():
        raise NotHudiError(f"{location}/.hoodie/{FILES[0]}: hoodie.table.version is {version!r}, not a number")
    return HudiTable(
        location=location,
        name=found["hoodie.table.name"],
        table_version=int(version),
        is_merge_on_read=get("hoodie.table.type") == "MERGE_ON_READ",
        ordering_fields=_listed(get(NEW_ORDERING) or get(OLD_ORDERING)),
        has_new_ordering=bool(get(NEW_ORDERING)) and not get(OLD_ORDERING),
        is_from_1_0=any(key in found for key in NAMES_OF_1_0),
        merge_mode=get("hoodie.record.merge.mode"),
        merge_strategy=get("hoodie.record.merge.strategy.id", get("hoodie.compaction.record.merger.strategy")),
        payload_class=get("hoodie.compaction.payload.class"),
        legacy_payload_class=get("hoodie.table.legacy.payload.class"),
        partial_update_mode=get("hoodie.table.partial.update.mode"),
        merge_properties=tuple(sorted(key for key in found if key.startswith("hoodie.record.merge.property."))),
        metadata_partitions=_listed(get("hoodie.table.metadata.partitions")),
        features=tuple(_features(found)),
    )


def _features(found: Mapping[str, str]) -> Iterator[str]:
    """Yield the properties that are not as in a plain table of Parquet base files.

    NB: with change capture a full compaction leaves files that no client of 1.2 plans again. Without meta fields a
    client of 1.0 leaves its plan inflight for ever. Both block their file group.
    """
    for key, plain in PLAIN.items():
        value = found.get(key, "")
        if value and value.lower() not in plain:
            yield f"{key}={value}"
    kind = found.get("hoodie.compaction.payload.type", "OVERWRITE_LATEST_AVRO")
    if "hoodie.compaction.payload.class" not in found and kind != "OVERWRITE_LATEST_AVRO":
        yield f"hoodie.compaction.payload.type={kind}"


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
