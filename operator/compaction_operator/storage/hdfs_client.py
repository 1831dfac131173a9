"""Calls to HDFS by hdfs-native: time-outs, repetition, and errors that name the location and the operation.

hdfs-native has no time-outs. It sends a call again by itself, once, when the connection breaks: a change may have been
carried out although the answer says that its source is gone.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from hdfs_native import Client

from compaction_operator.api.stores import Hdfs
from compaction_operator.storage.base import AlreadyExistsError, NotFoundError, StorageError
from compaction_operator.storage.calls import BoundedCalls, NoAnswer

T = TypeVar("T")

CALLS = 64
"""Maximum calls of one process to one HDFS that are not answered."""
TRIES = 3
"""A call that may be repeated is given up after this part of the time-out."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

OPTIONS = {"dfs.client.failover.max.attempts": "2"}
"""NB: hdfs-native's default of 15 keeps on for three minutes when a NameNode is dead. This module repeats itself."""
ANY_ORDER = {"dfs.client.failover.random.order": "true"}

_REMOTE = re.compile(r'(?:Fatal)?RPCError\("(?:[\w$]+\.)*([\w$]+)", "(.*)"\)', re.DOTALL)
_REFUSED = frozenset({"StandbyException", "SafeModeException", "RetriableException"})
"""The NameNode has not carried the call out and may do so later (org.apache.hadoop.ipc, …server.namenode)."""
_KERBEROS = re.compile(r'GSSAPIError\(.*, \d+, "(.*)"\)', re.DOTALL)
_PASSING = re.compile(r"^(DataTransferError|BlocksNotFound|IOError)|Cannot contact any KDC")
_LOGIN = re.compile(r"^(Kerberos|SASLError|NoSASLMechanism)|GSS|SIMPLE authentication", re.IGNORECASE)


class NotEmptyError(StorageError):
    """The directory is not empty."""


class _PassingError(StorageError):
    """The call may succeed when it is repeated. If it was `refused`, it was not carried out."""

    def __init__(self, message: str, *, refused: bool) -> None:
        super().__init__(message, passing=True)
        self.refused = refused


class HdfsClient:
    """The client of one name service or host. Thread-safe.

    A connection that does not answer is replaced: the machine at its other end may be gone, and TCP notices that only
    after a quarter of an hour.
    """

    def __init__(self, uri: str, settings: Hdfs | None, *, timeout: float) -> None:
        self._uri = uri
        self._settings = settings
        self._timeout = timeout
        self._calls = BoundedCalls(CALLS)
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._options = OPTIONS

    def ask(self, path: str, operation: str, call: Callable[[Client], T]) -> T:
        """Make a call that changes nothing; repeat it while it fails for a reason that may pass.

        Raises NotFoundError if HDFS says that the path is not there, StorageError for any other reason.
        """
        return self._repeat(path, operation, call, patience=self._timeout / TRIES, only_refused=False)

    def change(self, path: str, operation: str, call: Callable[[Client], T]) -> T:
        """Make a call that changes something; repeat it only while HDFS refuses to carry it out.

        Raises NotFoundError, AlreadyExistsError, or StorageError. Then it may have been carried out.
        """
        return self._repeat(path, operation, call, patience=self._timeout, only_refused=True)

    def _repeat(
        self, path: str, operation: str, call: Callable[[Client], T], *, patience: float, only_refused: bool
    ) -> T:
        """Attempt the call until it succeeds, fails for good, or time is up; an attempt has `patience` seconds."""
        deadline = time.monotonic() + self._timeout
        for pause in _pauses():
            try:
                return self._attempt(path, operation, call, min(patience, deadline - time.monotonic()))
            except _PassingError as error:
                if (only_refused and not error.refused) or time.monotonic() + pause >= deadline:
                    raise
                time.sleep(pause)
        raise AssertionError("pauses do not end")

    def _attempt(self, path: str, operation: str, call: Callable[[Client], T], timeout: float) -> T:
        """Make the call once. NB: making a client may hang, too: it asks the name service and reads files."""
        used: list[Client] = []

        def attempt() -> T:
            used.append(self._connected(path))
            return call(used[0])

        try:
            return self._calls.make(attempt, timeout=timeout)
        except NoAnswer as error:
            self._forget(used[0] if used else None)
            raise _PassingError(f"cannot {operation} {path}: HDFS gave {error}", refused=not error.begun) from error
        except (StorageError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise self._translated(error, path, operation) from error

    def _connected(self, path: str) -> Client:
        with self._lock:
            if self._client is None:
                self._client = self._connect(path)
            return self._client

    def _forget(self, client: Client | None) -> None:
        """Let the next call make connections of its own, and ask another NameNode first: this one may be gone."""
        with self._lock:
            if self._client is client:
                self._client, self._options = None, OPTIONS | ANY_ORDER

    def _connect(self, path: str) -> Client:
        """Raises StorageError, and never NotFoundError: a missing configuration says nothing about the path."""
        folder = self._settings.mount_path if self._settings else None
        if folder and not any((Path(folder) / name).exists() for name in ("core-site.xml", "hdfs-site.xml")):
            raise StorageError(f"cannot reach {path}: {folder} has neither core-site.xml nor hdfs-site.xml")
        login = self._settings.kerberos if self._settings else None
        if login and not os.access(login.keytab, os.R_OK):
            raise StorageError(f"cannot reach {path}: the keytab cannot be read{self._identity()}")
        try:
            return Client(
                self._uri,
                self._options,
                folder,
                kerberos_principal=login.client_principal if login else None,
                kerberos_keytab=login.keytab if login else None,
                kerberos_cache=f"MEMORY:{login.client_principal}:{login.keytab}" if login else None,
            )
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise StorageError(f"cannot reach {path}: {self._uri}: {_reason(error)}{self._identity()}") from error

    def _translated(self, error: BaseException, path: str, operation: str) -> StorageError:
        """Return the error of the protocol. Only what HDFS itself says is "not there" or "exists already"."""
        reason = _reason(error)
        message = f"cannot {operation} {path}: {reason}"
        if isinstance(error, FileNotFoundError) and not reason.startswith("Path is not a file"):
            return NotFoundError(f"{path} does not exist")
        if isinstance(error, FileExistsError):
            return AlreadyExistsError(f"{path} exists already")
        if reason.startswith("PathIsNotEmptyDirectoryException"):
            return NotEmptyError(message)
        if _LOGIN.search(reason):
            message += self._identity()
        if (refused := reason.partition(":")[0] in _REFUSED) or _passes(error):
            return _PassingError(message, refused=refused)
        return StorageError(message)

    def _identity(self) -> str:
        login = self._settings.kerberos if self._settings else None
        return f" (as {login.client_principal}, by the keytab {login.keytab})" if login else ""


def _passes(error: BaseException) -> bool:
    """Whether a later call may succeed: a connection broke or could not be made, or a DataNode did not serve."""
    if isinstance(error, OSError):
        return not isinstance(error, FileNotFoundError | FileExistsError | IsADirectoryError)
    return _PASSING.search(str(error)) is not None


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
