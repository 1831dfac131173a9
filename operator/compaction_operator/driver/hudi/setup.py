"""Set-up of a driver for a Hudi table: its properties, bundle, options, lease and Spark session around the flow."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.hudi import HudiMode, HudiStatus
from compaction_operator.api.request import DriverResult, JobRequest, Reason
from compaction_operator.api.stores import S3_SCHEMES, scheme_of
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hudi.flow import HudiCompaction
from compaction_operator.driver.hudi.lease import HeldLease
from compaction_operator.driver.progress import Report
from compaction_operator.hudi import (
    EVENT_TIME,
    Choice,
    HudiTable,
    RefusedOptionError,
    UnsupportedVersionError,
    bundle_and_options,
    keeps_deletes,
    lies_in,
    lock_provider,
    merge_mode_of,
    merges_partial_records,
    read_table,
    require_fitting_type,
    threshold,
)
from compaction_operator.hudi.jvm import HudiClient
from compaction_operator.storage import StorageError, normal, open_storage

log = logging.getLogger(__name__)

BUNDLES_VARIABLE = "HUDI_BUNDLES"
"""The environment variable with the folder of Hudi's bundles, one jar for each version; by default BUNDLES_FOLDER."""

BUNDLES_FOLDER = "/opt/hudi"

S3_JARS = ("hadoop-aws-*.jar", "aws-java-sdk-*.jar", "jmespath-java-*.jar")
"""Hadoop's connector to S3, and what it needs of AWS's SDK: in the same folder."""

CLOCK_TOLERANCE = 600.0
LARGEST_TIME_ZONE = 27 * 3600.0
"""In seconds. NB: the files of a copied table may be newer than their instants by any time."""


@dataclass(frozen=True)
class HudiJob:
    """The table, bundle and write options of one job, determined before Spark starts."""

    table: HudiTable
    bundle: str
    options: Mapping[str, str]


def prepare(request: JobRequest, location: str) -> HudiJob:
    """Return the job for the table at a location; raises HudiError, or JobError when the table cannot be read."""
    if request.type is CompactionType.CLEAN and request.cleaner_held:
        raise JobError(Reason.SUSPENDED, "the operator's cleanup.suspend is set: Hudi's cleaner does not run")
    require_fitting_type(request.type, request.hudi, partitions=request.partitions)
    if request.hudi.metadata_table:
        _require_at_once(request)
    table, given = _read_table(location), request.warehouse.hudi.options
    bundle, options = bundle_and_options(
        table, request.type, request.hudi, warehouse=given, partitions=request.partitions
    )
    return HudiJob(table, bundle, options)


def _read_table(location: str) -> HudiTable:
    try:
        place = normal(location)
    except StorageError as unknown:
        raise JobError(Reason.UNSUPPORTED_TABLE, str(unknown)) from unknown
    try:
        return read_table(open_storage(place), place)
    except StorageError as error:
        raise JobError(Reason.STORAGE_UNAVAILABLE, str(error)) from error


def jars(job: HudiJob, environment: Mapping[str, str], *, image: str) -> list[Path]:
    """Return the jars that a job needs: its bundle and, on S3, Hadoop's connector.

    Raises UnsupportedVersionError, naming the path and this pod's image, when one is missing.
    """
    folder = Path(environment.get(BUNDLES_VARIABLE, BUNDLES_FOLDER))
    bundle = folder / f"hudi-spark3.5-bundle_2.12-{job.bundle}.jar"
    if not bundle.is_file():
        raise _missing(f"the bundle of Hudi {job.bundle}", bundle, image)
    return [bundle, *(s3_jars(folder, image=image) if scheme_of(job.table.location) in S3_SCHEMES else ())]


def s3_jars(folder: Path, *, image: str) -> list[Path]:
    """Return the jars of Hadoop's connector to S3; raises UnsupportedVersionError when it is missing."""
    if not any(folder.glob(S3_JARS[0])):
        raise _missing("the connector to S3", folder / S3_JARS[0], image)
    return sorted(jar for pattern in S3_JARS for jar in folder.glob(pattern))


def _missing(what: str, path: Path, image: str) -> UnsupportedVersionError:
    return UnsupportedVersionError(
        f"{what} is not in the image {image}: there is no {path}; "
        "name an image with Hudi's jars in a profile, as docs/install.md says, and create a new TableCompaction"
    )


def compact(
    job: HudiJob,
    request: JobRequest,
    *,
    lease: Callable[[], AbstractContextManager[HeldLease]],
    session: Callable[[], AbstractContextManager[Any]],
    report: Report,
) -> DriverResult:
    """Compact the table under its lease, with a Spark session that has the bundle; raises JobError or HudiError."""
    log.info("%s %s: version %d, Hudi %s", request.type, job.table.location, job.table.table_version, job.bundle)
    with lease() as held, session() as spark, _opened(job, spark) as hudi:
        _require_same_clock(hudi.clock_skew(), job.table)
        if request.partitions:
            _require_partitions(request.partitions, hudi.partitions(), job.table.location)
        if not request.hudi.metadata_table:
            return _flow(job, request, hudi, held, report).run()
        with hudi.metadata_table() as metadata, hudi.locked():
            # NB: the metadata table has one writer at a time: the holder of the data table's lock.
            return _flow(job, request, metadata, held, report).run()


def _opened(job: HudiJob, spark: Any) -> HudiClient:
    lock = lock_provider(job.options)
    return HudiClient.open(spark, job.table, job.options, bundle=job.bundle, lock_provider=lock)


def _flow(job: HudiJob, request: JobRequest, client: HudiClient, held: HeldLease, report: Report) -> HudiCompaction:
    own = request.hudi
    choice = Choice(
        threshold=threshold(job.options, of_metadata_table=own.metadata_table),
        limit=own.max_log_file_size_to_merge,
        partitions=request.partitions,
        newest_only=job.table.replays_merged_blocks_last,
        keeps_deletes=own.metadata_table or keeps_deletes(job.table, job.bundle),
        by_event_time=not own.metadata_table and merge_mode_of(job.table) == EVENT_TIME,
    )
    status = HudiStatus(table_version=job.table.table_version, bundle=job.bundle)
    return HudiCompaction(
        client,
        request,
        choice=choice,
        lease=held,
        report=report,
        status=status,
        numbered=job.table.numbers_log_files,
        may_merge=not job.table.shares_log_files,
        whole_records=not own.metadata_table and not merges_partial_records(job.table, job.bundle),
    )


def _require_same_clock(skew: float, table: HudiTable) -> None:
    """Raise JobError when this driver's instants would be hours before or after the writers'.

    A compaction with an instant in the future would count later writes as already merged. NB: a writer of 1.0 takes its
    instant before its query. Without completion times a long query looks like a clock that is behind: only time tells.
    """
    if not CLOCK_TOLERANCE < abs(skew) < LARGEST_TIME_ZONE:
        return
    may_be_slow = skew > 0 and not table.has_completion_times
    but = "if the writers' queries took that long, the run waits for an instant that was quick; otherwise "
    raise JobError(
        Reason.WAITING_FOR_INSTANT if may_be_slow else Reason.UNSUPPORTED_TABLE,
        f"instants of this driver are {skew:.0f} s ahead of those of {table.location}'s last writers: "
        f"{but if may_be_slow else ''}set the same time zone for both (-Duser.timezone in "
        "spark.driver.extraJavaOptions of the profile, or the table's hoodie.table.timeline.timezone=UTC) and correct "
        "the clocks; write to a copied table once before",
    )


def _require_partitions(wanted: Sequence[str], partitions: Collection[str], location: str) -> None:
    """Raise JobError naming the first path that is neither a partition nor a leading part of one."""
    for one in wanted:
        if not any(lies_in(partition, one) for partition in partitions):
            known = f"it has {', '.join(sorted(partitions)[:3])}, ..." if any(partitions) else "it is not partitioned"
            raise JobError(Reason.PARTITION_NOT_FOUND, f"{location} has no partition path {one!r}: {known}")


def _require_at_once(request: JobRequest) -> None:
    """Raise RefusedOptionError unless this driver both plans and executes the metadata table's log compaction."""
    if request.type is not CompactionType.LOG_COMPACTION or request.hudi.mode is not HudiMode.SCHEDULE_AND_EXECUTE:
        raise RefusedOptionError(
            "hudi.metadataTable works only with type LogCompaction and mode ScheduleAndExecute: a plan left pending "
            "there prevents the table's writers from compacting their metadata"
        )
    if request.spark.executors.asked:
        raise RefusedOptionError("hudi.metadataTable works only with spark.executors.instances: 0 or Auto")
