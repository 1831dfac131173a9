"""The controller's process: it stands for the lease, leads, and gives the lease back. kopf only watches resources."""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import kopf
import yaml
from pydantic import ValidationError

from compaction_operator import logs
from compaction_operator.api import cleanup as cleanup_api
from compaction_operator.api import compaction as compaction_api
from compaction_operator.api import policy as policy_api
from compaction_operator.api.cleanup import LABEL_COMPACTION_UID
from compaction_operator.api.config import PROBES, OperatorConfig
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.clock import boot_seconds
from compaction_operator.controller.compaction import PREFLIGHTS
from compaction_operator.controller.election import RETRY_SECONDS, Election
from compaction_operator.controller.forecasting import forecasts_of
from compaction_operator.controller.health import Vitals, liveness, readiness
from compaction_operator.controller.kube.client import PAGE, THREADS, KubeError, connect, own_namespace
from compaction_operator.controller.kube.cluster import Pools
from compaction_operator.controller.kube.lease import LeaseStore
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.controller.kube.times import utc_now
from compaction_operator.controller.kube.watches import connections
from compaction_operator.controller.kube.watching import connect_watches
from compaction_operator.controller.loop import Controller
from compaction_operator.controller.metrics import Metrics
from compaction_operator.controller.otlp import Exporter
from compaction_operator.controller.page import Seen, Site, Unseen
from compaction_operator.controller.traces import Traces
from compaction_operator.controller.web import serve, serve_page, serve_probes
from compaction_operator.controller.work import Work, opener
from compaction_operator.metastore import MetastoreClient
from compaction_operator.permit import Permit, always

log = logging.getLogger(__name__)

PREFIX = "compaction.dev"
TABLE_THREADS = 4
STOP_SECONDS = 20.0
"""How long calls may go on after SIGTERM. The kubelet kills the process after 30."""
BAD_CONFIGURATION = 2
"""Exit code for an unusable configuration file."""


def run(config_path: str) -> NoReturn:
    """Stand for the lease, if there is an election, then run the controller until it is stopped.

    Exits with code 2, after one line on standard error, if the configuration file is unusable, no cluster is
    configured, or a port is taken. A leader that may have lost its lease exits at once: see Election.
    """
    try:
        config = load_config(Path(config_path))
        logs.write_as(config.log.format)
        election = _election(config)
        controller, pools = _controller(config, election)
    except (ValueError, OSError, KubeError) as error:
        sys.stderr.write(f"compaction-operator run: {error}\n")
        sys.exit(BAD_CONFIGURATION)
    _quieten()
    code = _exit_code(partial(_lead, controller, pools, election))
    _leave(code, pools, election)


def _election(config: OperatorConfig) -> Election | None:
    """Return this process's part in the election, None if there is none. Raises ValueError and KubeError."""
    if config.leader_election is None:
        return None
    namespace = own_namespace()
    if not namespace:
        raise ValueError("leaderElection: the lease lies in the pod's namespace, and this is no pod; leave it out")
    leases = LeaseStore(namespace, config.leader_election.lease)
    return Election(leases, identity=f"{socket.gethostname()}_{uuid.uuid4()}")


def _controller(config: OperatorConfig, election: Election | None) -> tuple[Controller, Pools]:
    """Return the controller with its threads; metrics, answers and probes are served already. Raises OSError."""
    permit = election.require if election else always
    metrics = Metrics()
    pools = Pools.of(
        (warehouse.name for warehouse in config.warehouses),
        kube=THREADS,
        tables=TABLE_THREADS,
        preflights=PREFLIGHTS,
        polling=config.cleanup.threads,
        deletion=config.cleanup.deletion_threads,
    )
    controller = Controller(
        config,
        kube=connect(permit=permit),
        watching=connect_watches(connections(watched)) if (watched := config.watched()) else None,
        work=_work(config, permit),
        pools=pools,
        clock=utc_now,
        ticks=time.monotonic,
        metrics=metrics,
        identity=own_namespace(),
        forecasts=forecasts_of(config),
        traces=_traces(config),
    )
    metrics.leader.set_function(lambda: election is None or election.leads)
    if config.metrics.enabled:
        serve(config.metrics.port, registry=metrics.registry, why=controller.why)
    if config.ui.enabled:
        site = Site(partial(_look, controller, election), clock=utc_now)
        serve_page(config.ui.port, site, hosts=config.ui.hosts)
    look = partial(_vitals, controller, pools, election)
    serve_probes(PROBES, {"/healthz": lambda: liveness(look()), "/readyz": lambda: readiness(look())})
    return controller, pools


def _traces(config: OperatorConfig) -> Traces:
    """Return what makes traces, which go nowhere unless there is an endpoint."""
    endpoint = config.tracing.endpoint
    return Traces(Exporter(endpoint, namespace=own_namespace()).send) if endpoint else Traces()


def _look(controller: Controller, election: Election | None) -> Seen | Unseen:
    """Return what the web page shows."""
    if election is not None and not election.leads:
        return Unseen(standby=True, leader=election.leader)
    return controller.seen() or Unseen(standby=False)


def _work(config: OperatorConfig, permit: Permit) -> Work:
    """Return the work with metastores and storages, which ask the permit before each change."""
    connect, stores = partial(MetastoreClient, permit=permit), partial(opener, config, permit=permit)
    return Work(config, clock=utc_now, connect=connect, stores=stores)


def _vitals(controller: Controller, pools: Pools, election: Election | None) -> Vitals:
    loads = {(warehouse, pool): load for warehouse, pool, load in pools.loads()}
    return Vitals(
        leads=election is None or election.leads,
        loaded=controller.loaded,
        step=None if controller.stepped is None else time.monotonic() - controller.stepped,
        heard=None if election is None or election.heard is None else boot_seconds() - election.heard,
        kube=loads.pop(("", "kube")),
        pools=loads,
        hidden=controller.sight.hidden(),
    )


def _lead(controller: Controller, pools: Pools, election: Election | None) -> None:
    """Wait for the lease, then run until SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))  # until kopf has handlers of its own
    if election:
        while not election.stand():
            time.sleep(RETRY_SECONDS)
        election.lead()
    registry, settings = kopf.OperatorRegistry(), operator_settings(whole=controller.sight.whole)
    register(registry, controller, pools)
    kopf.run(registry=registry, settings=settings, standalone=True, clusterwide=True)


def _exit_code(work: Callable[[], None]) -> int:
    """Do the work and return the exit code that fits its end."""
    try:
        work()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        log.exception("the controller failed")
        return 1
    return 0


def _leave(code: int, pools: Pools, election: Election | None) -> NoReturn:
    """Let running calls end, give the lease back, and exit. NB: a call that hangs must not keep the process."""
    if not pools.end(STOP_SECONDS):
        log.warning("calls have not ended after %g s: the lease, if there is one, expires by itself", STOP_SECONDS)
    elif election:
        election.release()
    logging.shutdown()
    os._exit(code)


def load_config(path: Path) -> OperatorConfig:
    """Load the configuration from a YAML file. Raises ValueError (one line) or OSError, naming the file."""
    try:
        return OperatorConfig.model_validate(yaml.safe_load(path.read_text()))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise ValueError(f"{path}: {_problems(error)}") from error


def operator_settings(*, whole: bool = True) -> kopf.OperatorSettings:
    """Return kopf's settings: own prefixes, no events from logs, and watches limited to our Jobs and drivers.

    Without the `whole` cluster in sight, kopf does not look for new CRDs, which takes a right in the cluster.
    """
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.persistence.finalizer = f"{PREFIX}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX)
    settings.persistence.diffbase_storage = _NoDiffs(prefix=PREFIX)
    settings.watching.label_selectors["batch", "jobs"] = LABEL_COMPACTION_UID
    settings.watching.label_selectors["", "pods"] = LABEL_COMPACTION_UID
    settings.watching.chunk_size = PAGE
    if not whole:
        settings.scanning.disabled = True
    return settings


class _NoDiffs(kopf.AnnotationsDiffBaseStorage):
    """Compares nothing: event handlers read no differences, and a copy of each object is half the cost of its event."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None


def register(registry: kopf.OperatorRegistry, controller: Controller, pools: Pools) -> None:
    """Register the kopf handlers: those of the process, and those of events, unless single namespaces are watched."""
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

    if controller.sight.whole:
        _register_events(registry, controller)


def _register_events(registry: kopf.OperatorRegistry, controller: Controller) -> None:
    """Let kopf watch the whole cluster.

    NB: use event handlers only: change handlers and timers would write to the resources.
    """

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
    """Run the controller. If it ever fails, end the process, so that the kubelet starts a new one."""
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
