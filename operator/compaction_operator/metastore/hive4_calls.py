"""What Hive 4's Thrift interface has beyond Hive 3's, as far as a compactor needs it: structs and calls.

Field ids are those of hive-standalone-metastore-common 4.0.1. What a metastore does with each call was read in its
TxnHandler and CompactionTxnHandler, and tried on a real one. A Hive 3 metastore skips the fields it does not know and
answers the calls it does not know with an error.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from hmsclient.genthrift.hive_metastore import ttypes
from thrift.protocol.TBase import TBase
from thrift.Thrift import TApplicationException, TMessageType, TType

Spec = tuple[tuple[Any, ...] | None, ...]
Kind = tuple[int, Any]

I64 = (TType.I64, None)
ENUM = (TType.I32, None)
STRING = (TType.STRING, "UTF8")
STRINGS = (TType.LIST, (TType.STRING, "UTF8", False))


class TxnType(IntEnum):
    """What a transaction is for, as far as it matters here."""

    READ_ONLY = 2
    COMPACTION = 3


def struct(type_: Any) -> Kind:
    """Return the kind of a field that is a struct."""
    return (TType.STRUCT, [type_, type_.thrift_spec])


def structs(type_: Any) -> Kind:
    """Return the kind of a field that is a list of structs."""
    return (TType.LIST, (*struct(type_), False))


def spec_of(fields: Mapping[int, tuple[str, Kind]], *, base: Any = None) -> Spec:
    """Return Thrift's description of a struct: its fields at the places of their ids, after those of another."""
    known = dict(enumerate(base.thrift_spec)) if base else {}
    added = {id_: (id_, kind, name, detail, None) for id_, (name, (kind, detail)) in fields.items()}
    return tuple((known | added).get(id_) for id_ in range(max(known | added, default=-1) + 1))


class Struct(TBase):  # type: ignore[misc]  # Thrift has no types
    """A Thrift struct that is described by `thrift_spec`; a field that was not given, or not sent, is None."""

    thrift_spec: Spec = ()

    def __init__(self, **values: Any) -> None:
        for name in (field[2] for field in self.thrift_spec if field):
            setattr(self, name, values.pop(name, None))
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(values)}")


class OpenTxnRequest(Struct):
    """Hive 3's, and what the transaction is for."""

    thrift_spec = spec_of({7: ("txn_type", ENUM)}, base=ttypes.OpenTxnRequest)


class CompactionRequest(Struct):
    """Hive 3's, and who asked and whose workers may take it."""

    thrift_spec = spec_of(
        {7: ("initiatorId", STRING), 8: ("initiatorVersion", STRING), 9: ("poolName", STRING)},
        base=ttypes.CompactionRequest,
    )


class CompactionResponse(Struct):
    """Hive 3's, and why a request was not accepted."""

    thrift_spec = spec_of({4: ("errormessage", STRING)}, base=ttypes.CompactionResponse)


class FindNextCompactRequest(Struct):
    """Which worker wants an entry of which pool."""

    thrift_spec = spec_of({1: ("workerId", STRING), 2: ("workerVersion", STRING), 3: ("poolName", STRING)})


class CompactionInfoStruct(Struct):
    """An entry of the queue as it is handed to a worker and back."""

    thrift_spec = spec_of(
        {
            1: ("id", I64),
            2: ("dbname", STRING),
            3: ("tablename", STRING),
            4: ("partitionname", STRING),
            5: ("type", ENUM),
            6: ("runas", STRING),
            10: ("workerId", STRING),
            12: ("highestWriteId", I64),
            13: ("errorMessage", STRING),
            17: ("poolname", STRING),
        }
    )


class OptionalCompactionInfoStruct(Struct):
    """An entry, or none."""

    thrift_spec = spec_of({1: ("ci", struct(CompactionInfoStruct))})


class ShowCompactRequest(Struct):
    """Which lines are wanted; Hive 3 always answers with all of them."""

    thrift_spec = spec_of({3: ("dbName", STRING), 4: ("tbName", STRING)})


class ShowCompactResponseElement(Struct):
    """Hive 3's line, when it was put in, the pool, the transaction and when that was committed."""

    thrift_spec = spec_of(
        {
            14: ("errorMessage", STRING),
            15: ("enqueueTime", I64),
            20: ("poolName", STRING),
            22: ("txnId", I64),
            23: ("commitTime", I64),
        },
        base=ttypes.ShowCompactResponseElement,
    )


class ShowCompactResponse(Struct):
    """The lines."""

    thrift_spec = spec_of({1: ("compacts", structs(ShowCompactResponseElement))})


class LatestCompactionRequest(Struct):
    """Which table's compactions are asked for."""

    thrift_spec = spec_of({1: ("dbname", STRING), 2: ("tablename", STRING)})


class LatestCompactionResponse(Struct):
    """Those compactions; nobody here reads them."""


class Table(Struct):
    """Hive 3's table, and its id."""

    thrift_spec = spec_of({25: ("id", I64)}, base=ttypes.Table)


class GetTableResult(Struct):
    """The table."""

    thrift_spec = spec_of({1: ("table", struct(Table))})


class Call:
    """One call of the interface: its name, its arguments' kinds, what it returns and the errors that it declares."""

    def __init__(self, name: str, *arguments: Kind, returns: Any = None, errors: Sequence[Any] = ()) -> None:
        self._name = name
        self._arguments = _anonymous(dict(enumerate(arguments, 1)))
        declared = {number: struct(error) for number, error in enumerate(errors, 1)}
        self._returns_nothing = returns is None
        self._result = _anonymous(declared if returns is None else declared | {0: struct(returns)})

    def __call__(self, client: Any, *arguments: Any) -> Any:
        """Make the call on the connection of a generated client of Hive 3's interface.

        Raises the errors that it declares, and TApplicationException: UNKNOWN_METHOD where there is no such call.
        """
        sent = self._arguments(**{f"field{number}": value for number, value in enumerate(arguments, 1)})
        protocol = client._oprot
        protocol.writeMessageBegin(self._name, TMessageType.CALL, client._seqid)
        sent.write(protocol)
        protocol.writeMessageEnd()
        protocol.trans.flush()
        return self._receive(client._iprot)

    def _receive(self, protocol: Any) -> Any:
        _, kind, _ = protocol.readMessageBegin()
        answer = TApplicationException() if kind == TMessageType.EXCEPTION else self._result()
        answer.read(protocol)
        protocol.readMessageEnd()
        if isinstance(answer, TApplicationException):
            raise answer
        values = {name: value for name, value in vars(answer).items() if value is not None}
        success = values.pop("field0", None)
        for error in values.values():
            raise error
        if success is None and not self._returns_nothing:
            raise TApplicationException(TApplicationException.MISSING_RESULT, f"{self._name} answered with nothing")
        return success


def _anonymous(kinds: Mapping[int, Kind]) -> type[Struct]:
    """Return a struct with fields of those ids, which are called field1, field2..."""
    spec = spec_of({id_: (f"field{id_}", kind) for id_, kind in kinds.items()})
    return type("Fields", (Struct,), {"thrift_spec": spec})


open_txns = Call("open_txns", struct(OpenTxnRequest), returns=ttypes.OpenTxnsResponse)
get_table_req = Call(
    "get_table_req",
    struct(ttypes.GetTableRequest),
    returns=GetTableResult,
    errors=(ttypes.MetaException, ttypes.NoSuchObjectException),
)
show_compact = Call("show_compact", struct(ShowCompactRequest), returns=ShowCompactResponse)
compact2 = Call("compact2", struct(CompactionRequest), returns=CompactionResponse)
find_next_compact2 = Call(
    "find_next_compact2",
    struct(FindNextCompactRequest),
    returns=OptionalCompactionInfoStruct,
    errors=(ttypes.MetaException,),
)
update_compactor_state = Call("update_compactor_state", struct(CompactionInfoStruct), I64)
mark_compacted = Call("mark_compacted", struct(CompactionInfoStruct), errors=(ttypes.MetaException,))
mark_failed = Call("mark_failed", struct(CompactionInfoStruct), errors=(ttypes.MetaException,))
mark_refused = Call("mark_refused", struct(CompactionInfoStruct), errors=(ttypes.MetaException,))
mark_cleaned = Call("mark_cleaned", struct(CompactionInfoStruct), errors=(ttypes.MetaException,))
get_latest_committed_compaction_info = Call(
    "get_latest_committed_compaction_info", struct(LatestCompactionRequest), returns=LatestCompactionResponse
)
