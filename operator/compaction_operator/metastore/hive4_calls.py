"""Thrift structs and calls that Hive 4 adds to Hive 3's interface, as far as a compactor needs them.

Field ids are those of hive-standalone-metastore-common 4.0.1. The behaviour of each call was read in TxnHandler and
CompactionTxnHandler, and verified on a real metastore. A Hive 3 metastore ignores unknown fields and answers unknown
calls with an error.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hmsclient.genthrift.hive_metastore import ttypes
from thrift.protocol.TBase import TBase
from thrift.Thrift import TApplicationException, TMessageType, TType

Spec = tuple[tuple[Any, ...] | None, ...]
ThriftType = tuple[int, Any]

I64 = (TType.I64, None)
ENUM = (TType.I32, None)
STRING = (TType.STRING, "UTF8")
NUMBERS = (TType.MAP, (TType.STRING, "UTF8", TType.I64, None, False))

COMPACTION_TXN = 3
"""Hive's TxnType.COMPACTION."""


def struct(type_: Any) -> ThriftType:
    """Return the field kind of a struct."""
    return (TType.STRUCT, [type_, type_.thrift_spec])


def spec_of(fields: Mapping[int, tuple[str, ThriftType]], *, base: Any = None) -> Spec:
    """Return the `thrift_spec` of a struct: its fields at the positions of their ids, merged with those of `base`."""
    known = dict(enumerate(base.thrift_spec)) if base else {}
    added = {id_: (id_, kind, name, detail, None) for id_, (name, (kind, detail)) in fields.items()}
    return tuple((known | added).get(id_) for id_ in range(max(known | added, default=-1) + 1))


class Struct(TBase):  # type: ignore[misc]  # Thrift has no types
    """A Thrift struct described by `thrift_spec`. A field that was not set, or not sent, is None."""

    thrift_spec: Spec = ()

    def __init__(self, **values: Any) -> None:
        for name in (field[2] for field in self.thrift_spec if field):
            setattr(self, name, values.pop(name, None))
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(values)}")


class OpenTxnRequest(Struct):
    """Hive 3's struct plus the transaction type."""

    thrift_spec = spec_of({7: ("txn_type", ENUM)}, base=ttypes.OpenTxnRequest)


class CompactionRequest(Struct):
    """Hive 3's struct plus the initiator and the pool of workers."""

    thrift_spec = spec_of({7: ("initiatorId", STRING), 9: ("poolName", STRING)}, base=ttypes.CompactionRequest)


class FindNextCompactRequest(Struct):
    """A worker's request for an entry of a pool."""

    thrift_spec = spec_of({1: ("workerId", STRING), 3: ("poolName", STRING)})


class CompactionInfoStruct(Struct):
    """A queue entry in the form that a worker receives and returns."""

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
        }
    )


class OptionalCompactionInfoStruct(Struct):
    """An optional queue entry."""

    thrift_spec = spec_of({1: ("ci", struct(CompactionInfoStruct))})


class ShowCompactRequest(Struct):
    """A filter for lines of SHOW COMPACTIONS. Hive 3 ignores it and returns all lines."""

    thrift_spec = spec_of({2: ("poolName", STRING), 3: ("dbName", STRING), 4: ("tbName", STRING)})


class ShowCompactResponseElement(Struct):
    """Hive 3's line plus error, enqueue time, pool, transaction and commit time."""

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
    """The lines of SHOW COMPACTIONS."""

    thrift_spec = spec_of({1: ("compacts", (TType.LIST, (*struct(ShowCompactResponseElement), False)))})


class LatestCompactionRequest(Struct):
    """The table whose latest compactions are requested."""

    thrift_spec = spec_of({1: ("dbname", STRING), 2: ("tablename", STRING)})


class LatestCompactionResponse(Struct):
    """The table's latest compactions. This project does not read them."""


class TableStruct(Struct):
    """Hive 3's struct plus the table id."""

    thrift_spec = spec_of({25: ("id", I64)}, base=ttypes.Table)


class GetTableResult(Struct):
    """The reply of get_table_req."""

    thrift_spec = spec_of({1: ("table", struct(TableStruct))})


class GetTablesResult(Struct):
    """The reply of get_table_objects_by_name_req."""

    thrift_spec = spec_of({1: ("tables", (TType.LIST, (*struct(TableStruct), False)))})


class Call:
    """One call of the interface: its name, the kinds of its arguments, its result and its declared errors."""

    def __init__(self, name: str, *arguments: ThriftType, returns: Any = None, errors: Sequence[Any] = ()) -> None:
        self._name = name
        self._arguments = _anonymous(dict(enumerate(arguments, 1)))
        declared = {number: struct(error) for number, error in enumerate(errors, 1)}
        self._returns_nothing = returns is None
        self._result = _anonymous(declared if returns is None else declared | {0: struct(returns)})

    def __call__(self, client: Any, *arguments: Any) -> Any:
        """Make the call on the connection of a generated client of Hive 3's interface.

        Raises the declared errors, and TApplicationException, with UNKNOWN_METHOD if the metastore lacks the call.
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


def _anonymous(kinds: Mapping[int, ThriftType]) -> type[Struct]:
    """Return a struct with fields of those ids, named field1, field2 and so on."""
    spec = spec_of({id_: (f"field{id_}", kind) for id_, kind in kinds.items()})
    return type("Fields", (Struct,), {"thrift_spec": spec})


open_txns = Call("open_txns", struct(OpenTxnRequest), returns=ttypes.OpenTxnsResponse)
get_table_req = Call(
    "get_table_req",
    struct(ttypes.GetTableRequest),
    returns=GetTableResult,
    errors=(ttypes.MetaException, ttypes.NoSuchObjectException),
)
get_table_objects_by_name_req = Call(
    "get_table_objects_by_name_req",
    struct(ttypes.GetTablesRequest),
    returns=GetTablesResult,
    errors=(ttypes.MetaException, ttypes.InvalidOperationException, ttypes.UnknownDBException),
)
show_compact = Call("show_compact", struct(ShowCompactRequest), returns=ShowCompactResponse)
compact2 = Call("compact2", struct(CompactionRequest), returns=ttypes.CompactionResponse)
find_next_compact2 = Call(
    "find_next_compact2",
    struct(FindNextCompactRequest),
    returns=OptionalCompactionInfoStruct,
    errors=(ttypes.MetaException,),
)
update_compactor_state = Call("update_compactor_state", struct(CompactionInfoStruct), I64)
add_write_ids_to_min_history = Call("add_write_ids_to_min_history", I64, NUMBERS, errors=(ttypes.MetaException,))
set_hadoop_jobid = Call("set_hadoop_jobid", STRING, I64)
mark_compacted = Call("mark_compacted", struct(CompactionInfoStruct), errors=(ttypes.MetaException,))
mark_failed = Call("mark_failed", struct(CompactionInfoStruct), errors=(ttypes.MetaException,))
mark_refused = Call("mark_refused", struct(CompactionInfoStruct), errors=(ttypes.MetaException,))
mark_cleaned = Call("mark_cleaned", struct(CompactionInfoStruct), errors=(ttypes.MetaException,))
get_latest_committed_compaction_info = Call(
    "get_latest_committed_compaction_info", struct(LatestCompactionRequest), returns=LatestCompactionResponse
)
