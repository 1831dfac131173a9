"""Options of Hudi's write client: the table's own settings, the user's options, and fixed options."""

import logging
import re
from collections.abc import Mapping, Sequence

from compaction_operator.api.compaction import UPKEEP_TYPES, CompactionType
from compaction_operator.api.hudi import HudiMode, HudiOptions
from compaction_operator.api.stores import S3_SCHEMES, scheme_of
from compaction_operator.hudi.errors import NoLockProviderError, RefusedOptionError
from compaction_operator.hudi.merging import merge_mode_of
from compaction_operator.hudi.properties import HudiTable, bundle_for

log = logging.getLogger(__name__)

THRESHOLD = "hoodie.log.compaction.blocks.threshold"
METADATA_THRESHOLD = "hoodie.metadata.log.compaction.blocks.threshold"
DEFAULT_THRESHOLD = 5
"""The default of HoodieCompactionConfig and HoodieMetadataConfig."""

CONCURRENCY_MODE = "hoodie.write.concurrency.mode"
SINGLE_WRITER = "single_writer"

LOCK_PROVIDER = "hoodie.write.lock.provider"
_STRATEGIES = "org.apache.hudi.table.action.compact.strategy."
_LOCKS = "org.apache.hudi.client.transaction.lock."
NOT_ACROSS_PROCESSES = frozenset({f"{_LOCKS}InProcessLockProvider", f"{_LOCKS}NoopLockProvider"})
FILE_SYSTEM_LOCKS = f"{_LOCKS}FileSystemBasedLockProvider"
LOCK_FOLDER = "hoodie.write.lock.filesystem.path"
"""Where that provider has its lock file; by default in the table."""

STATUS_STORAGE = "hoodie.write.status.storage.level"

ALWAYS = {
    "hoodie.write.auto.upgrade": "false",
    # NB: a client of 1.0 would otherwise commit before the checks.
    "hoodie.auto.commit": "false",
    # NB: another one may let a commit pass although a writer has added to the file group since it was planned.
    "hoodie.write.lock.conflict.resolution.strategy": (
        "org.apache.hudi.client.transaction.SimpleConcurrentFileWritesConflictResolutionStrategy"
    ),
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.embed.timeline.server": "false",
    # Hudi falls back to these without that server, with a warning for each write.
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.table.services.enabled": "true",
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "false",
    "hoodie.log.compaction.inline": "false",
    "hoodie.clustering.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.clean.async.enabled": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.archive.async": "false",
    # NB: otherwise a client that does not know an index of the metadata table deletes it (HoodieTable).
    "hoodie.metadata.auto.delete.partitions": "false",
    "hoodie.metadata.log.compaction.enable": "false",
    # The client checks before the commit that every record was written, so the metadata table is written at commit.
    "hoodie.metadata.streaming.write.enabled": "false",
}
"""Options that no user may change: table services run only on request, and never change the table version."""

REFUSED_PREFIXES = (
    "hoodie.base.path",
    "hoodie.table.",
    "hoodie.datasource.",
    "hoodie.payload.",
    "hoodie.record.merge.",
    "hoodie.write.record.merge.",
    "hoodie.compaction.payload.class",
    "hoodie.compaction.record.merger.strategy",
    "hoodie.write.table.version",
    CONCURRENCY_MODE,
    "hoodie.write.commit.callback.",
    "hoodie.avro.schema",
    "hoodie.write.schema",
    "hoodie.schema.",
    "hoodie.internal.schema",
    "hoodie.populate.meta.fields",
    "hoodie.client.init.callback.",
    "hoodie.index.",
    "hoodie.bootstrap.",
    "hoodie.timeline.",
    "hoodie.metrics.",
    "hoodie.cleaner.policy.failed.writes",
    "hoodie.clean.async",
    "hoodie.metadata.enable",
    "hoodie.metadata.index.",
    "hoodie.metadata.record.",
    "hoodie.metadata.global.record.",
    "hoodie.metadata.write.concurrency.mode",
    "hoodie.metadata.table.service.manager.",
)
"""Options that the table decides, or that could redirect writes; former names of Hudi's options included."""

INDEXES = {
    "hoodie.metadata.index.column.stats.enable": "column_stats",
    "hoodie.metadata.index.partition.stats.enable": "partition_stats",
    "hoodie.metadata.index.bloom.filter.enable": "bloom_filters",
    "hoodie.metadata.record.index.enable": "record_index",
    "hoodie.metadata.global.record.level.index.enable": "record_index",
}
"""The indexes of the metadata table, by the option that enables each."""


def bundle_and_options(
    table: HudiTable,
    type_: CompactionType,
    own: HudiOptions,
    *,
    warehouse: Mapping[str, str],
    partitions: Sequence[str],
) -> tuple[str, dict[str, str]]:
    """Return the bundle for a compaction of a table and its `write_options`; controller and driver check the same.

    Raises HudiError for a table that this type does not compact, that no bundle or not the chosen one serves, and what
    `write_options` raises.
    """
    table.require_merge_on_read()
    if type_ is CompactionType.LOG_COMPACTION and not own.metadata_table:
        table.require_unshared_log_files()
    bundle = bundle_for(table, own.bundle)
    return bundle, write_options(table, warehouse=warehouse, own=own, partitions=partitions)


def write_options(
    table: HudiTable, *, warehouse: Mapping[str, str], own: HudiOptions, partitions: Sequence[str]
) -> dict[str, str]:
    """Return the options of a write client for the table. The compaction's own options override the warehouse's.

    With `partitions` (paths or leading parts of them; empty for all) Hudi plans a compaction of these only.

    Raises RefusedOptionError naming an option that the user may not set, NoLockProviderError when no lock works across
    processes and the compaction does not declare itself the only writer, and HudiError for a table with features that
    are not supported, or that releases of Hudi merge differently (`merge_mode_of`).
    """
    table.require_known_features()
    merge_mode_of(table)
    given = {**warehouse, **own.options}
    mode = SINGLE_WRITER if own.single_writer else "optimistic_concurrency_control"
    fixed = {**ALWAYS, **_of_table(table), CONCURRENCY_MODE: mode, **_within(partitions)}
    if own.metadata_table:
        fixed["hoodie.metadata.log.compaction.enable"] = "true"
    for key, value in given.items():
        _refuse(key, value, fixed)
    threshold(given, of_metadata_table=own.metadata_table)
    _require_kept_statuses(given)
    _require_fitting(own, table, partitions)
    if not own.single_writer:
        _require_lock_provider(given.get(LOCK_PROVIDER), place=given.get(LOCK_FOLDER, table.location))
    return {**given, **fixed}


def lock_provider(options: Mapping[str, str]) -> str | None:
    """Return the lock provider of a client with such `write_options`, None if it takes no lock."""
    return None if options[CONCURRENCY_MODE] == SINGLE_WRITER else options[LOCK_PROVIDER]


def require_fitting_type(type_: CompactionType, own: HudiOptions, *, partitions: Sequence[str]) -> None:
    """Raise RefusedOptionError naming a field that does not apply to upkeep (types Clean and Archive)."""
    if type_ not in UPKEEP_TYPES:
        return
    refused = {
        "partitions": bool(partitions),
        "hudi.mode": own.mode is not HudiMode.SCHEDULE_AND_EXECUTE,
        "hudi.maxLogFileSizeToMerge": own.max_log_file_size_to_merge is not None,
        "hudi.metadataTable": own.metadata_table,
        "hudi.clean": own.clean and type_ is CompactionType.ARCHIVE,
    }
    for field, is_set in refused.items():
        if is_set:
            raise RefusedOptionError(f"{field} does not apply to type {type_}: remove it")


def threshold(options: Mapping[str, str], *, of_metadata_table: bool) -> int:
    """Return the least number of blocks for a log compaction; RefusedOptionError unless it is a number >= 2."""
    key = METADATA_THRESHOLD if of_metadata_table else THRESHOLD
    text = options.get(key, str(DEFAULT_THRESHOLD))
    if not text.isascii() or not text.isdecimal() or int(text) < 2:
        raise RefusedOptionError(f"hudi.options[{key}] is {text!r}: set a number of blocks, 2 or more")
    return int(text)


def _require_kept_statuses(given: Mapping[str, str]) -> None:
    """Raise RefusedOptionError unless Spark keeps what a run wrote: what it drops, it writes a second time."""
    level = given.get(STATUS_STORAGE, "MEMORY_AND_DISK_SER")
    if "DISK" not in level.upper():
        raise RefusedOptionError(f"hudi.options[{STATUS_STORAGE}] is {level!r}: set a level with DISK, or remove it")


def _within(partitions: Sequence[str]) -> dict[str, str]:
    if not partitions:
        return {}
    paths = "|".join(re.escape(partition.strip("/")) for partition in partitions)
    return {
        "hoodie.compaction.strategy": f"{_STRATEGIES}PartitionRegexBasedCompactionStrategy",
        "hoodie.compaction.partition.path.regex": f"^({paths})(/.*)?$",
    }


def _require_fitting(own: HudiOptions, table: HudiTable, partitions: Sequence[str]) -> None:
    if own.metadata_table and partitions:
        raise RefusedOptionError("hudi.metadataTable works only without partitions: remove one of the two")
    if own.metadata_table and not table.metadata_partitions:
        raise RefusedOptionError(f"hudi.metadataTable: {table.location} has no metadata table")
    # NB: before version 8 a log file may hold blocks of many commits. The metadata table's instants are then those of
    # the table's commits, and a pending commit forbids its compaction (HoodieBackedTableMetadataWriter).
    newer = {"metadataTable": own.metadata_table, "maxLogFileSizeToMerge": own.max_log_file_size_to_merge is not None}
    for field, asked in newer.items():
        if asked and table.table_version < 8:
            raise RefusedOptionError(
                f"hudi.{field} is for tables from version 8 on, but {table.location} has version "
                f"{table.table_version}: remove the field"
            )


def _of_table(table: HudiTable) -> dict[str, str]:
    """Return the options that repeat the table's own properties.

    NB: a client of 1.0.2 does not read the ordering field from the table. Without the option, its full compaction would
    let a late record with a smaller ordering value permanently overwrite a newer one.
    """
    field = ",".join(table.ordering_fields) or None
    has_metadata = bool(table.metadata_partitions)
    found = {
        # Without this option a client refuses a table older than those that it creates itself.
        "hoodie.write.table.version": str(table.table_version),
        "hoodie.payload.ordering.field": field,
        "hoodie.payload.event.time.field": field,
        "hoodie.datasource.write.precombine.field": field,
        "hoodie.record.merge.mode": table.merge_mode,
        "hoodie.compaction.payload.class": table.payload_class,
        "hoodie.datasource.write.payload.class": table.payload_class,
        "hoodie.metadata.enable": str(has_metadata).lower(),
    }
    found |= {key: str(index in table.metadata_partitions).lower() for key, index in INDEXES.items()}
    return {key: value for key, value in found.items() if value is not None}


def _refuse(key: str, value: str, fixed: Mapping[str, str]) -> None:
    if key in fixed and fixed[key].lower() == value.strip().lower():
        return
    if not key.startswith("hoodie."):
        raise RefusedOptionError(f"hudi.options[{key}] is not an option of Hudi: their names begin with hoodie.")
    if key in fixed or key.startswith(REFUSED_PREFIXES):
        why = f"it is always {fixed[key]!r} here" if key in fixed else "the table or the operator determines it"
        raise RefusedOptionError(f"hudi.options[{key}] cannot be set: {why}; remove it")


def _require_lock_provider(provider: str | None, *, place: str) -> None:
    """Raise HudiError unless the provider's locks hold between processes; `place` is where a lock file would be."""
    if provider is None or provider in NOT_ACROSS_PROCESSES:
        what = f"{LOCK_PROVIDER} is not set" if provider is None else f"{provider} works within one process only"
        raise NoLockProviderError(
            f"{what}: name the lock provider that the table's writers use in the warehouse's hudi.options or in "
            "hudi.options, or set hudi.singleWriter if no other client writes meanwhile"
        )
    if provider == FILE_SYSTEM_LOCKS and scheme_of(place) in S3_SCHEMES:
        # NB: hoodie.fs.atomic_creation.support makes Hudi use it there, but does not make the creation atomic.
        raise RefusedOptionError(
            f"hudi.options[{LOCK_PROVIDER}]: {provider} does not lock at {place}: on S3 two clients may create one "
            "lock file; use another provider here and in the table's writers, such as ZookeeperBasedLockProvider"
        )
    if provider == FILE_SYSTEM_LOCKS:
        log.warning("%s: a client that fails to get the lock deletes it: two clients may hold it at once", provider)
