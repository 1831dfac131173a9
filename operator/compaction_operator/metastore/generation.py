"""Hive generation of a metastore, detected by probing which calls it supports."""

from enum import StrEnum
from typing import Any

from hmsclient.genthrift.hive_metastore import ttypes
from thrift.Thrift import TApplicationException

from compaction_operator.metastore import hive4_calls as hive4


class Generation(StrEnum):
    """Hive 3 has write ids and locks. Hive 4 also lets other clients compact, through its queue and transactions."""

    HIVE3 = "Hive3"
    HIVE4 = "Hive4"


def probe(client: Any) -> Generation | None:
    """Return the generation of the metastore of a generated client, or None if it has no write ids (Hive 2).

    It probes with up to two calls that change nothing and need no table.
    """
    if _has(hive4.get_latest_committed_compaction_info, client, _NO_TABLE):
        return Generation.HIVE4
    return Generation.HIVE3 if _has(type(client).get_valid_write_ids, client, _NO_TABLES) else None


_NO_TABLE = hive4.LatestCompactionRequest(dbname="default", tablename="no_such_table")
_NO_TABLES = ttypes.GetValidWriteIdsRequest(fullTableNames=[], validTxnList="0:0::")


def _has(call: Any, client: Any, request: Any) -> bool:
    try:
        call(client, request)
    except TApplicationException as error:
        if error.type == TApplicationException.UNKNOWN_METHOD:
            return False
        raise
    return True
