"""Entry point of the driver pod.

It reads a request from the environment, runs one compaction and writes the result to the termination message.
"""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from compaction_operator import logs
from compaction_operator.api.compaction import Format
from compaction_operator.api.request import (
    REQUEST_VARIABLE,
    SUCCESS_REASONS,
    TERMINATION_MESSAGE_PATH,
    DriverResult,
    JobRequest,
    Reason,
    Stage,
)
from compaction_operator.cleanup.places import misplaced, require_allowed
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hadoop import hadoop
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.driver_locks import Locks
from compaction_operator.driver.hive.flow import HiveCompaction, identity_of
from compaction_operator.driver.hive.hive3 import Hive3
from compaction_operator.driver.hive.hive4 import Hive4
from compaction_operator.driver.hive.journal import Journal
from compaction_operator.driver.hive.protocol import HiveProtocol
from compaction_operator.driver.kube import KubernetesJournals, KubernetesLeases, OwnPod
from compaction_operator.driver.merge.placement import EXECUTOR_WAIT_SECONDS, Limits
from compaction_operator.driver.merge.runner import PlacedRunner, SparkRunner
from compaction_operator.driver.merge.tasks import task_bytes
from compaction_operator.driver.progress import ProgressReporter
from compaction_operator.driver.spark import hudi_session, slots, spark_context
from compaction_operator.driver.stages import Stages
from compaction_operator.hudi import HudiError
from compaction_operator.metastore import (
    Generation,
    MetastoreClient,
    MetastoreError,
    MetastoreUnavailable,
    Refused,
    hudi_table,
    require_one_compactor,
    resolve,
)

log = logging.getLogger(__name__)


def main(environment: Mapping[str, str] = os.environ) -> int:
    """Run the compaction that the environment requests; return the exit code (0 when everything is published)."""
    stages = Stages()
    result = _guarded(environment, stages).model_copy(update={"stages": stages.times()})
    log.info("%s: %s", result.reason, result.message)
    _write_termination_message(result)
    return 0 if result.reason in SUCCESS_REASONS else 1


def _guarded(environment: Mapping[str, str], stages: Stages) -> DriverResult:
    """Turn every outcome of the compaction into a result: tracebacks go to the log, one line to the condition."""
    try:
        request = JobRequest.model_validate_json(environment[REQUEST_VARIABLE])
        logs.write_as(request.log_format, request.subject())
        return compact(request, pod_uid=environment["POD_UID"], environment=environment, stages=stages)
    except JobError as error:
        return DriverResult(reason=error.reason, message=str(error))
    except (Refused, HudiError) as error:
        log.info("refused", exc_info=error)
        return DriverResult(reason=error.reason, message=str(error))
    except MetastoreUnavailable as error:
        return DriverResult(reason=Reason.METASTORE_UNAVAILABLE, message=str(error))
    except MetastoreError as error:
        log.exception("the metastore refused a call")
        return DriverResult(reason=Reason.DRIVER_FAILED, message=f"metastore: {error}")
    except Exception as error:
        log.exception("the driver failed")
        return DriverResult(reason=Reason.DRIVER_FAILED, message=f"{type(error).__name__}: {error}")


def compact(
    request: JobRequest, *, pod_uid: str, environment: Mapping[str, str], stages: Stages | None = None
) -> DriverResult:
    """Compact a Hive or Hudi table; raises JobError, HudiError, Refused or MetastoreError.

    `stages` gets the stages of a Hive table's compaction.
    """
    if request.type.table_format is Format.HUDI:
        return _compact_hudi(request, pod_uid=pod_uid, environment=environment)
    return _compact_hive(request, pod_uid=pod_uid, environment=environment, stages=stages or Stages())


def _compact_hudi(request: JobRequest, *, pod_uid: str, environment: Mapping[str, str]) -> DriverResult:
    from compaction_operator.driver.hudi import setup as hudi_driver  # noqa: PLC0415 - a Hive table needs none of it
    from compaction_operator.driver.hudi.lease import table_lease  # noqa: PLC0415

    job = hudi_driver.prepare(request, _hudi_location(request))
    jars = hudi_driver.jars(job, environment, image=request.profile.image)
    store = hadoop(job.table.location, request.warehouse.stores, environment)
    leases = KubernetesLeases(request.namespace)
    return hudi_driver.compact(
        job,
        request,
        lease=lambda: table_lease(leases, job.table.location, holder=pod_uid),
        session=lambda: hudi_session(request, environment, jars, store),
        report=ProgressReporter(OwnPod(request.namespace, environment["POD_NAME"]).annotate),
    )


def _hudi_location(request: JobRequest) -> str:
    if request.table.location is not None:
        return request.table.location
    with MetastoreClient(request.warehouse.metastore) as client:
        table = hudi_table(client, request.table)
    require_allowed(table, request.warehouse)
    return table.location


def _compact_hive(request: JobRequest, *, pod_uid: str, environment: Mapping[str, str], stages: Stages) -> DriverResult:
    """Resolve the table, then compact it in this process or, if it is larger, with Spark.

    SIGTERM stops a Hive compaction at the next safe point. A Hudi job still ends immediately.
    """
    interruption.listen()
    table = request.table
    with MetastoreClient(request.warehouse.metastore) as client:
        with stages.during(Stage.PREFLIGHT):
            resolved = resolve(client, table, request.partitions)
            require_allowed(resolved.table, request.warehouse)
            require_one_compactor(client, resolved.table, allowed=request.allow_auto_compaction)
            out_of_place = misplaced(client, resolved, request.warehouse)
        targets = [target for target in resolved.targets if target.partition not in out_of_place]
        refused = [JobError(error.reason, str(error)) for error in out_of_place.values()]
        log.info("%s %s: %d partitions, %d refused", request.type, table, len(targets), len(refused))
        attempt = DriverContext(client, request, pod_uid, identity_of(resolved.table), resolved.table.row_type)
        journal = Journal(KubernetesJournals(), attempt)
        protocol = protocol_of(attempt)
        report = ProgressReporter(OwnPod(request.namespace, environment["POD_NAME"]).annotate)
        batches = -(-len(targets) // protocol.batch_partitions)
        limits = Limits(request.spark.executors, most=request.profile.max_auto_executors, batches=batches)
        with closing(_runner(request, environment, limits, tell=report.tell)) as runner:
            flow = HiveCompaction(protocol, runner=runner, report=report, stages=stages)
            return flow.run(targets, journal, refused=refused)


def _runner(
    request: JobRequest, environment: Mapping[str, str], limits: Limits, *, tell: Callable[[str], None]
) -> PlacedRunner:
    def spark(executors: int) -> SparkRunner:
        asked = request.spark.executors.asked
        return SparkRunner(
            lambda: spark_context(request, environment, executors=executors),
            slots=slots(request, executors=executors),
            task_bytes=task_bytes(request.profile.task_memory),
            patience=(request.profile.start_timeout if asked else EXECUTOR_WAIT_SECONDS) if executors else None,
            replaceable=not asked,
        )

    return PlacedRunner(limits, spark=spark, tell=tell)


def _write_termination_message(result: DriverResult) -> None:
    """Write the result where the kubelet reads it, shortened so that it stays valid JSON within the kubelet's limit."""
    path = Path(TERMINATION_MESSAGE_PATH)
    if path.exists():
        path.write_text(result.shortened().model_dump_json(by_alias=True))


def protocol_of(attempt: DriverContext) -> HiveProtocol:
    """Return the protocol for an attempt; raises MetastoreError when the metastore's generation cannot be detected."""
    protocol = Hive4 if attempt.client.generation() is Generation.HIVE4 else Hive3
    return protocol(attempt, Locks(attempt.client, attempt.table, agent=attempt.agent))
