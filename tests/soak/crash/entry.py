"""What controller and drivers are in a crash test: the product, with each operation on the outside counted and broken.

Counted are the changes of the warehouse's files (and each task), the calls of the metastore, and what is written to
the API server: before each the process says so, and does what the orders say of it.
"""

import faulthandler
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from botocore.client import BaseClient
from hdfs_native import Client
from kubernetes.client.rest import RESTClientObject
from sandbox.harness.wait import wait_until
from sandbox.plane.pod import move_in
from sandbox.plane.processes import Launch
from thrift.protocol.TBinaryProtocol import TBinaryProtocol

from compaction_operator import cli
from compaction_operator.driver.merge import runner
from compaction_operator.storage import local
from tests.soak.crash.plan import Action, Fault, Moment, Role, Step
from tests.soak.crash.signals import BIRTH_VARIABLE, FOLDER_VARIABLE, Orders, Report, Signals

WAIT_SECONDS = 60.0
WAITED_FOR = frozenset({Action.METASTORE, Action.STORE, Action.STALL, Action.RENAME, Action.WORKER})
"""What the runner does while the process waits."""
_S3_CHANGES = frozenset(
    {
        "PutObject",
        "DeleteObjects",
        "CreateMultipartUpload",
        "UploadPart",
        "UploadPartCopy",
        "CompleteMultipartUpload",
        "AbortMultipartUpload",
    }
)
_NAMES_OF_ONE_RUN = (
    (re.compile(r"\.[0-9a-f]{32}"), ".x"),
    (re.compile(r"_compaction_[A-Za-z0-9-]{36}-([0-9]+)-[A-Za-z0-9]{8}"), r"_compaction_\1"),
    (re.compile(r"(_compaction_quarantine/)[^/]+"), r"\1x"),
    (re.compile(r"_v[0-9]+"), "_v"),
)

P = ParamSpec("P")
R = TypeVar("R")


def run(launch: Launch) -> None:
    """Be the command line, under observation. SIGUSR1 writes into the log what each thread is doing."""
    move_in(launch)
    faulthandler.register(signal.SIGUSR1)
    role = Role.DRIVER if "job" in launch.arguments else Role.CONTROLLER
    environment = launch.environment
    signals = Signals(Path(environment[FOLDER_VARIABLE]))
    observe(Observer(signals, role, birth=int(environment[BIRTH_VARIABLE])))
    cli.main()


class Observes(Protocol):
    """What learns of each step of a process; only files below `warehouse` count."""

    @property
    def warehouse(self) -> str:
        """The folder whose files count."""
        ...

    def step(self, label: str) -> AbstractContextManager[None]:
        """Do one operation within."""
        ...

    def begin(self, label: str) -> Callable[[], None]:
        """Take note of an operation that is about to be done; return what is to be called once it is done."""
        ...


class Observer:
    """Counts the steps of this process, by the orders as they are now."""

    def __init__(self, signals: Signals, role: Role, *, birth: int) -> None:
        self._signals = signals
        self._role = role
        self._birth = birth
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._stamp = signals.stamp()
        self._orders = signals.orders()

    @property
    def warehouse(self) -> str:
        """The folder whose files count."""
        return self._orders.warehouse

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """Do one operation within: it is counted and, if so ordered, broken before or after."""
        finish = self.begin(label)
        yield
        finish()

    def begin(self, label: str) -> Callable[[], None]:
        """Count an operation that is about to be done; return what is to be called once it is done."""
        for pattern, replacement in _NAMES_OF_ONE_RUN:
            label = pattern.sub(replacement, label)
        with self._lock:
            self._refresh()
            self._counts[label] += 1
            step = Step(role=self._role, label=label, number=self._counts[label])
            orders = self._orders
            life = self._birth - orders.born[self._role]
        self._signals.report(Report(run=orders.run, life=life, step=step))
        self._break(orders, step, life, Moment.BEFORE)
        return lambda: self._break(orders, step, life, Moment.AFTER)

    def _refresh(self) -> None:
        stamp = self._signals.stamp()
        if stamp != self._stamp:
            self._stamp, self._orders = stamp, self._signals.orders()
            self._counts.clear()

    def _break(self, orders: Orders, step: Step, life: int, moment: Moment) -> None:
        for index, fault in enumerate(orders.faults):
            if (fault.step, fault.life, fault.moment) == (step, life, moment):
                self._signals.report(Report(run=orders.run, life=life, step=step, fault=index))
                self._do(fault, orders.run, index)

    def _do(self, fault: Fault, run_: str, index: int) -> None:
        if fault.action in WAITED_FOR:
            allowed = partial(self._signals.allowed, run_, index)
            wait_until(allowed, timeout=WAIT_SECONDS, what="what happens meanwhile", poll=0.01)
        elif fault.action is Action.TERMINATE:
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            os.killpg(0, signal.SIGSTOP if fault.action is Action.PAUSE else signal.SIGKILL)


def observe(observer: Observes) -> None:
    """Put the observer around everything by which the process changes the world, or asks the metastore."""
    _observe_files(observer)
    _observe_hdfs(observer)
    _observe_s3(observer)
    _observe_metastore(observer)
    request = RESTClientObject.request

    def observed(self: Any, method: str, url: str, *args: Any, **options: Any) -> Any:
        if method == "GET":
            return request(self, method, url, *args, **options)
        with observer.step(f"{method} {_resource(url)}"):
            return request(self, method, url, *args, **options)

    RESTClientObject.request = observed


def _observe_files(observer: Observes) -> None:
    rename = local.rename_no_replace  # type: ignore[attr-defined]

    def observed_rename(source: str, target: str, *, directory: int | None = None) -> None:
        options = {} if directory is None else {"directory": directory}
        with observer.step(f"rename {_short(source, directory)} to {_short(target, directory)}"):
            rename(source, target, **options)

    local.rename_no_replace = observed_rename  # type: ignore[attr-defined]
    for name in ("mkdir", "unlink", "rmdir"):
        setattr(os, name, _observed_file_call(observer, name, getattr(os, name)))
    open_ = os.open

    def observed_open(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if not flags & os.O_CREAT or not _is_inside(observer, path, options.get("dir_fd")):
            return open_(path, flags, *args, **options)
        with observer.step(f"create {_short(path, options.get('dir_fd'))}"):
            return open_(path, flags, *args, **options)

    os.open = observed_open
    task = runner._run

    def observed_task(piece: Any, *args: Any, **options: Any) -> Any:
        with observer.step(f"task {_short(piece.output, None)}"):
            return task(piece, *args, **options)

    runner._run = observed_task  # type: ignore[assignment]


def _observe_hdfs(observer: Observes) -> None:
    """All that a client may change. NB: files outside the table are not distinguished, as HDFS has none."""
    for name in ("rename", "mkdirs", "delete", "create", "set_owner", "set_permission", "set_acl"):
        setattr(Client, name, _observed_hdfs_call(observer, name, getattr(Client, name)))


def _observed_hdfs_call(observer: Observes, name: str, call: Callable[..., R]) -> Callable[..., R]:
    def observed(self: Client, path: str, *args: Any, **options: Any) -> R:
        target = f" to {_short(args[0], None)}" if name == "rename" else ""
        with observer.step(f"{name} {_short(path, None)}{target}"):
            return call(self, path, *args, **options)

    return observed


def _observe_s3(observer: Observes) -> None:
    """All requests that change something. NB: one of many keys bears the name of the first."""
    call = BaseClient._make_api_call  # type: ignore[attr-defined]

    def observed(self: BaseClient, operation: str, params: Any) -> Any:
        if operation not in _S3_CHANGES:
            return call(self, operation, params)
        key = params.get("Key") or params["Delete"]["Objects"][0]["Key"]
        path = f"s3a://{params['Bucket']}/{key}"
        if not _is_inside(observer, path, None):
            return call(self, operation, params)
        with observer.step(f"{operation} {_short(path, None)}"):
            return call(self, operation, params)

    BaseClient._make_api_call = observed  # type: ignore[attr-defined]


def _observed_file_call(observer: Observes, name: str, call: Callable[P, R]) -> Callable[P, R]:
    def observed(*args: P.args, **options: P.kwargs) -> R:
        if not _is_inside(observer, args[0], options.get("dir_fd")):
            return call(*args, **options)
        with observer.step(f"{name} {_short(args[0], options.get('dir_fd'))}"):
            return call(*args, **options)

    return observed


def _observe_metastore(observer: Observes) -> None:
    """A call is sent when its message is written to the end, and done when its reply is read to the end."""
    begin, end = TBinaryProtocol.writeMessageBegin, TBinaryProtocol.readMessageEnd

    def observed_begin(self: Any, name: str, *args: Any) -> Any:
        self.finish_step = observer.begin(f"metastore {name}")
        return begin(self, name, *args)

    def observed_end(self: Any) -> Any:
        result = end(self)
        self.finish_step()
        return result

    TBinaryProtocol.writeMessageBegin = observed_begin
    TBinaryProtocol.readMessageEnd = observed_end


def _whole(path: Any, directory: Any) -> str:
    text = os.fsdecode(path)
    if directory is None or text.startswith("/"):
        return text
    return f"{Path(f'/proc/self/fd/{directory}').readlink()}/{text}"


def _is_inside(observer: Observes, path: Any, directory: Any) -> bool:
    return _whole(path, directory).startswith(observer.warehouse)


def _short(path: Any, directory: Any) -> str:
    """Return a place below its table's directory: the database has another name in each run."""
    return _whole(path, directory).partition(".db/")[2].partition("/")[2] or "."


def _resource(url: str) -> str:
    """Return the kind that a URL is about, with the sub-resource; names differ from run to run."""
    _, _, path = url.partition("/namespaces/")
    parts = path.partition("?")[0].split("/")[1:]
    return "/".join([parts[0], *parts[2:]]) if parts else url
