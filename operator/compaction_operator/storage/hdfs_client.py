"""Calls to HDFS by hdfs-native: time-outs, repetition, and errors that name the location and the operation.

hdfs-native has no time-outs. When the connection breaks, or no answer comes, a change may have been carried out. Then
hdfs-native 0.14.7 sends it no second time (measured for `rename2` and `delete`), and a look up to six times; 0.14.1
repeats both.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from hdfs_native import Client

from compaction_operator.api.stores import Hdfs
from compaction_operator.permit import Permit, always
from compaction_operator.storage.base import AlreadyExistsError, NotFoundError, StorageError
from compaction_operator.storage.calls import BoundedCalls, NoAnswer

T = TypeVar("T")

CALLS = 64
"""Maximum calls of one process to one HDFS that are not answered."""
PATIENCE, LEAST = 0.3, 0.2
"""Parts of the time-out: an attempt that may be repeated is given up after the first; none begins in the last."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

OPTIONS = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.base.millis": "20",
    "dfs.client.failover.sleep.max.millis": "200",
}
"""hdfs-native tries the NameNodes of a name service in turn. NB: its defaults take three minutes when all are dead.
This module repeats itself."""
PROVIDER = "dfs.client.failover.proxy.provider"
ACTIVE_ONLY = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
"""NB: the providers for observers let a client list what an observer, which lags behind, knows. hdfs-native asks the
active NameNode for its state only before its first change, so a fence could miss the folder of another driver."""
_NAME_SERVICES = re.compile(
    r"<name>\s*(?:dfs\.ha\.namenodes|dfs\.client\.failover\.proxy\.provider)\.([^<\s]+)\s*</name>"
)
_FILES = ("core-site.xml", "hdfs-site.xml")

_REMOTE = re.compile(r'(?:Fatal)?RPCError\("(?:[\w$]+\.)*([\w$]+)", "(.*)"\)', re.DOTALL)
_REFUSED = frozenset({"StandbyException", "SafeModeException", "RetriableException"})
"""The NameNode has not carried the call out and may do so later (org.apache.hadoop.ipc, …server.namenode)."""
_KERBEROS = re.compile(r'GSSAPIError\(.*, \d+, "(.*)"\)', re.DOTALL)
_REPEATED = re.compile(r"^(DataTransferError|BlocksNotFound|IOError)|Cannot contact any KDC")
"""What is worth a repetition within the call's time."""
_LASTING = re.compile(
    r"^\w*(AccessControl|Authorization|Quota\w*Exceeded|QuotaExceeded|NotDirectory|NotEmptyDirectory|InvalidPath|FSLimit"
    r"|Unresolved|Snapshot|UnsupportedOperation|IllegalArgument|NoSuchMethod|NoSuchProtocol)[\w$]*Exception\b"
    r"|^(ChecksumError|Invalid(Argument|Path)|Unsupported\w+|UrlParseError|XmlParseError|NoSASLMechanism)\b"
    r"|^IOException: .*(must both be directories|encryption zone)"
    r"|SIMPLE authentication|not found in Kerberos database"
)
"""What no later call mends by itself. NB: all else may pass: a NameNode says IOException when no DataNode has space or
time for a block, and a login fails while the clock is wrong or a secret is being replaced."""
_LOGIN = re.compile(r"^(Kerberos|SASLError|NoSASLMechanism)|GSS|SIMPLE authentication", re.IGNORECASE)


_ANSWERS = (FileNotFoundError, FileExistsError, IsADirectoryError)


class _Passing(Exception):  # noqa: N818 # it never leaves this module
    """The call may succeed when it is repeated. If it was `refused`, it was not carried out."""

    def __init__(self, message: str, *, refused: bool) -> None:
        super().__init__(message)
        self.error = StorageError(message, passing=True)
        self.refused = refused


class HdfsClient:
    """The client of one name service or host. Thread-safe.

    A connection that does not answer is replaced: the machine at its other end may be gone, and TCP notices that only
    after a quarter of an hour. `permit` is asked before each call.
    """

    def __init__(self, uri: str, settings: Hdfs | None, *, timeout: float, permit: Permit = always) -> None:
        self._uri = uri
        self._settings = settings
        self._timeout = timeout
        self._permit = permit
        self._calls = BoundedCalls(CALLS)
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._any_order = False

    def ask(self, path: str, operation: str, call: Callable[[Client], T]) -> T:
        """Make a call that changes nothing; repeat it while it fails for a reason that may pass.

        Raises NotFoundError if HDFS says that the path is not there, StorageError for any other reason.
        """
        return self._repeat(path, operation, call, patience=PATIENCE * self._timeout, only_refused=False)

    def change(self, path: str, operation: str, call: Callable[[Client], T]) -> T:
        """Make a call that changes something; repeat it only while HDFS refuses to carry it out.

        Raises NotFoundError, AlreadyExistsError, or StorageError. Then it may have been carried out.
        """
        return self._repeat(path, operation, call, patience=self._timeout, only_refused=True)

    def once(self, path: str, operation: str, call: Callable[[Client], T]) -> T:
        """Make a call that must not be repeated, even if HDFS refused it. Raises as `change` does."""
        try:
            return self._attempt(path, operation, call, self._timeout)
        except _Passing as passing:
            raise passing.error from passing.__cause__

    def _repeat(
        self, path: str, operation: str, call: Callable[[Client], T], *, patience: float, only_refused: bool
    ) -> T:
        """Attempt the call until it succeeds, fails for good, or time is up; an attempt has `patience` seconds."""
        deadline = time.monotonic() + self._timeout
        last_start = deadline - LEAST * self._timeout
        for pause in _pauses():
            try:
                return self._attempt(path, operation, call, min(patience, deadline - time.monotonic()))
            except _Passing as passing:
                if (only_refused and not passing.refused) or time.monotonic() + pause >= last_start:
                    raise passing.error from passing.__cause__
                time.sleep(pause)
        raise AssertionError("pauses do not end")

    def _attempt(self, path: str, operation: str, call: Callable[[Client], T], timeout: float) -> T:
        """Make the call once. NB: making a client may hang, too: it asks the name service and reads files."""
        used: list[Client] = []

        def attempt() -> T:
            used.append(self._connected(path))
            self._permit()
            return call(used[0])

        try:
            return self._calls.make(attempt, timeout=timeout)
        except NoAnswer as error:
            self._forget(used[0] if used else None)
            raise _Passing(f"cannot {operation} {path}: HDFS gave {error}", refused=not error.begun) from error
        except (StorageError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise self._translated(error, path, operation) from error

    def _connected(self, path: str) -> Client:
        """Return the client, making one if there is none. NB: outside the lock, which must never be held for long."""
        with self._lock:
            if self._client is not None:
                return self._client
            any_order = self._any_order
        made = self._connect(path, any_order=any_order)
        with self._lock:
            self._client = self._client or made
            return self._client

    def _forget(self, client: Client | None) -> None:
        """Let the next call make connections of its own and ask any NameNode first: the one asked may be gone."""
        with self._lock:
            if self._client is client:
                self._client, self._any_order = None, True

    def _connect(self, path: str, *, any_order: bool) -> Client:
        """Raises StorageError, and never NotFoundError: a missing configuration says nothing about the path."""
        folder = self._settings.mount_path if self._settings else os.environ.get("HADOOP_CONF_DIR")
        if folder and not any((Path(folder) / name).exists() for name in _FILES):
            raise StorageError(f"cannot reach {path}: {folder} has neither {_FILES[0]} nor {_FILES[1]}", passing=True)
        login = self._settings.kerberos if self._settings else None
        if login and not os.access(login.keytab, os.R_OK):
            raise StorageError(f"cannot reach {path}: the keytab cannot be read{self._identity()}", passing=True)
        try:
            return Client(
                self._uri,
                OPTIONS | self._of_name_services(folder, any_order=any_order),
                folder,
                kerberos_principal=login.client_principal if login else None,
                kerberos_keytab=login.keytab if login else None,
                kerberos_cache=f"MEMORY:{login.client_principal}:{login.keytab}" if login else None,
            )
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            message = f"cannot reach {path}: {self._uri}: {_reason(error)}{self._identity()}"
            raise StorageError(message, passing=_passes(error)) from error

    def _of_name_services(self, folder: str | None, *, any_order: bool) -> dict[str, str]:
        """Return the settings of each name service that the client may reach, also by viewfs or as the default."""
        names = {urlsplit(self._uri).netloc.partition(":")[0], *_name_services(folder or _folder_by_default())} - {""}
        order = {f"dfs.client.failover.random.order.{name}": "true" for name in names} if any_order else {}
        return {f"{PROVIDER}.{name}": ACTIVE_ONLY for name in names} | order

    def _translated(self, error: BaseException, path: str, operation: str) -> StorageError | _Passing:
        """Return the error of the protocol. Only what HDFS itself says is "not there" or "exists already"."""
        reason = _reason(error)
        message = f"cannot {operation} {path}: {reason}"
        if isinstance(error, FileNotFoundError) and not reason.startswith("Path is not a file"):
            return NotFoundError(f"{path} does not exist")
        if isinstance(error, FileExistsError):
            return AlreadyExistsError(f"{path} exists already")
        if _LOGIN.search(reason):
            message += self._identity()
        if (refused := reason.partition(":")[0] in _REFUSED) or _is_repeated(error):
            return _Passing(message, refused=refused)
        return StorageError(message, passing=_passes(error), denied=reason.startswith("AccessControlException:"))

    def _identity(self) -> str:
        login = self._settings.kerberos if self._settings else None
        return f" (as {login.client_principal}, by the keytab {login.keytab})" if login else ""


def _name_services(folder: str) -> set[str]:
    """Return the name services, and the hosts with a proxy provider, in a folder with Hadoop's configuration."""
    files = (Path(folder) / name for name in _FILES)
    return {name for file in files if file.exists() for name in _NAME_SERVICES.findall(file.read_text())}


def _folder_by_default() -> str:
    """Return the folder that hdfs-native reads when none is given."""
    return str(Path(os.environ.get("HADOOP_HOME", os.devnull)) / "etc/hadoop")


def _is_repeated(error: BaseException) -> bool:
    """Whether a connection broke or could not be made, or a DataNode did not serve."""
    if isinstance(error, OSError):
        return not isinstance(error, _ANSWERS)
    return _REPEATED.search(str(error)) is not None


def _passes(error: BaseException) -> bool:
    """Whether a later call may succeed. NB: a panic, and an error of Python, are faults of a program."""
    may = isinstance(error, OSError | RuntimeError) and not isinstance(error, (*_ANSWERS, NotImplementedError))
    return may and _LASTING.search(_reason(error)) is None


def _reason(error: BaseException) -> str:
    """Return one line: the name of the NameNode's exception and its message, without the stack."""
    text = str(error)
    if remote := _REMOTE.fullmatch(text):
        text = f"{remote[1]}: {remote[2]}"
    elif kerberos := _KERBEROS.fullmatch(text):
        text = f"Kerberos: {kerberos[1]}"
    text = text.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")
    return text.partition("\n")[0] or type(error).__name__


def _pauses() -> Iterator[float]:
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)
