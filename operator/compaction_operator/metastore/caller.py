"""Calls to one metastore, with Hive's exceptions translated into this project's."""

import socket
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from hmsclient.genthrift.hive_metastore import ttypes
from thrift.Thrift import TException

from compaction_operator.api.config import Metastore
from compaction_operator.metastore.connection import ConnectionPool
from compaction_operator.metastore.errors import LockLost, MetastoreError, TableNotFound, TransactionLost
from compaction_operator.metastore.generation import Generation, probe
from compaction_operator.permit import Permit, always

Answer = TypeVar("Answer")

_NOT_FOUND = (ttypes.NoSuchObjectException, ttypes.UnknownTableException, ttypes.UnknownDBException)


class Caller:
    """Thread-safe connections to one metastore. Close it, or use it as a context manager.

    Each method sends its call once, after it has asked the permit. It raises MetastoreUnavailable if no reply arrives
    within the timeout; the next call reconnects. It raises MetastoreError if the metastore refuses the call or its
    reply is incomplete.
    """

    def __init__(self, settings: Metastore, *, user: str = "compaction-operator", permit: Permit = always) -> None:
        self._connections = ConnectionPool(settings, user=user, permit=permit)
        self._user = user
        self._host = socket.gethostname()
        self._generation: Generation | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def generation(self) -> Generation:
        """Return the generation of the metastore. It is probed once and then remembered.

        Raises MetastoreError for a metastore without write ids (Hive 2).
        """
        if self._generation is None:
            self._generation = self._call(probe)
        if self._generation is None:
            raise MetastoreError("the metastore has no write ids: it is older than Hive 3")
        return self._generation

    def _call(self, request: Callable[[Any], Answer], *, table: str | None = None) -> Answer:
        try:
            return self._connections.call(request)
        except _NOT_FOUND as error:
            missing = f"table {table} does not exist" if table else _message(error)
            raise TableNotFound(missing) from error
        except ttypes.NoSuchLockException as error:
            raise LockLost(_message(error)) from error
        except (ttypes.NoSuchTxnException, ttypes.TxnAbortedException) as error:
            raise TransactionLost(_message(error)) from error
        except TException as error:
            raise MetastoreError(f"{type(error).__name__}: {_message(error)}") from error


def _message(error: TException) -> str:
    return getattr(error, "message", None) or str(error) or type(error).__name__
