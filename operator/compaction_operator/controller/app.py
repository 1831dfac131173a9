"""Connects the controller to kopf: kopf watches resources and answers the liveness probe, all else is our own code."""

import asyncio
import logging
import sys
import time
from pathlib import Path
from typing import Any

import kopf
import yaml
from pydantic import ValidationError

from compaction_operator import logs
from compaction_operator.api import cleanup as cleanup_api
from compaction_operator.api import compaction as compaction_api
from compaction_operator.api import policy as policy_api
from compaction_operator.api.cleanup import LABEL_COMPACTION_UID
from compaction_operator.api.config import OperatorConfig
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.controller.compaction import PREFLIGHTS
from compaction_operator.controller.kube.client import PAGE, THREADS, Kube, KubeError, connect, own_namespace
from compaction_operator.controller.kube.cluster import Pools
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.controller.kube.times import utc_now
from compaction_operator.controller.loop import Controller
from compaction_operator.controller.metrics import Metrics
from compaction_operator.controller.web import serve
from compaction_operator.controller.work import Work

log = logging.getLogger(__name__)

LIVENESS = "http://0.0.0.0:8080/healthz"
PREFIX = "compaction.dev"
TABLE_THREADS = 4
BAD_CONFIGURATION = 2
"""Exit code for an unusable configuration file."""


def run(config_path: str) -> None:
    """Run the controller until it is stopped.

    Exits with code 2, after one line on standard error, if the configuration file is unusable, no cluster is
    configured, or the metrics port is taken.
    """
    try:
        config = load_config(Path(config_path))
        logs.write_as(config.log.format)
        controller, pools = _controller(config, connect())
    except (ValueError, OSError, KubeError) as error:
        sys.stderr.write(f"compaction-operator run: {error}\n")
        sys.exit(BAD_CONFIGURATION)
    registry, settings = kopf.OperatorRegistry(), operator_settings()
    register(registry, controller, pools)
    _quieten()
    kopf.run(registry=registry, settings=settings, standalone=True, clusterwide=True, liveness_endpoint=LIVENESS)


def _controller(config: OperatorConfig, kube: Kube) -> tuple[Controller, Pools]:
    """Return the controller with its threads; metrics and answers are served already. Raises OSError."""
    metrics = Metrics()
    pools = Pools.of(
        (warehouse.name for warehouse in config.warehouses),
        kube=THREADS,
        tables=TABLE_THREADS,
        preflights=PREFLIGHTS,
        polling=config.cleanup.threads,
        deletion=config.cleanup.deletion_threads,
    )
    work = Work(config, clock=utc_now)
    controller = Controller(
        config,
        kube=kube,
        work=work,
        pools=pools,
        clock=utc_now,
        ticks=time.monotonic,
        metrics=metrics,
        identity=own_namespace(),
    )
    if config.metrics.enabled:
        serve(config.metrics.port, registry=metrics.registry, why=controller.why)
    return controller, pools


def load_config(path: Path) -> OperatorConfig:
    """Load the configuration from a YAML file. Raises ValueError (one line) or OSError, naming the file."""
    try:
        return OperatorConfig.model_validate(yaml.safe_load(path.read_text()))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise ValueError(f"{path}: {_problems(error)}") from error


def operator_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: own prefixes, no events from logs, and watches limited to our Jobs and drivers."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.persistence.finalizer = f"{PREFIX}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX)
    settings.persistence.diffbase_storage = _NoDiffs(prefix=PREFIX)
    settings.watching.label_selectors["batch", "jobs"] = LABEL_COMPACTION_UID
    settings.watching.label_selectors["", "pods"] = LABEL_COMPACTION_UID
    settings.watching.chunk_size = PAGE
    return settings


class _NoDiffs(kopf.AnnotationsDiffBaseStorage):
    """Compares nothing: event handlers read no differences, and a copy of each object is half the cost of its event."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None


def register(registry: kopf.OperatorRegistry, controller: Controller, pools: Pools) -> None:
    """Register the kopf handlers.

    NB: use event handlers only: change handlers and timers would write to the resources.
    """
    tasks: list[asyncio.Task[None]] = []

    @kopf.on.login(registry=registry)
    def login(**options: Any) -> Any:
        return kopf.login_via_client(**options)

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:
        tasks.append(asyncio.get_running_loop().create_task(_watched(controller)))

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:
        for task in tasks:
            task.cancel()
        pools.shut_down()

    @kopf.on.event(GROUP, VERSION, compaction_api.PLURAL, registry=registry)
    async def compaction(event: kopf.RawEvent, **_: Any) -> None:
        controller.on_event(ResourceKind.COMPACTION, event["type"], event["object"])

    @kopf.on.event(GROUP, VERSION, cleanup_api.PLURAL, registry=registry)
    async def cleanup(event: kopf.RawEvent, **_: Any) -> None:
        controller.on_event(ResourceKind.CLEANUP, event["type"], event["object"])

    @kopf.on.event(GROUP, VERSION, policy_api.PLURAL, registry=registry)
    async def policy(event: kopf.RawEvent, **_: Any) -> None:
        controller.on_event(ResourceKind.POLICY, event["type"], event["object"])

    @kopf.on.event("batch", "v1", "jobs", labels={LABEL_COMPACTION_UID: kopf.PRESENT}, registry=registry)
    async def job(event: kopf.RawEvent, **_: Any) -> None:
        controller.on_event(ResourceKind.JOB, event["type"], event["object"])

    @kopf.on.event("", "v1", "pods", labels={LABEL_COMPACTION_UID: kopf.PRESENT}, registry=registry)
    async def pod(event: kopf.RawEvent, **_: Any) -> None:
        controller.on_event(ResourceKind.POD, event["type"], event["object"])


async def _watched(controller: Controller) -> None:
    """Run the controller's loop. If it ever fails, end the process, so that the kubelet starts a new one."""
    try:
        await controller.run()
    except asyncio.CancelledError:
        raise
    except BaseException:
        log.exception("the controller's loop failed")
        sys.exit(1)


def _quieten() -> None:
    """Reduce the log to notable events: no line per watch event or liveness probe."""
    for name in ("kopf.objects", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _problems(error: ValidationError) -> str:
    found = error.errors()
    first = ".".join(str(part) for part in found[0]["loc"]) or "the file"
    more = f" (and {len(found) - 1} more problems)" if len(found) > 1 else ""
    return f"{first}: {found[0]['msg']}{more}"
