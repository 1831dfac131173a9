"""What only tests and the demo do in a metastore: tables made, writers and readers played."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from hmsclient.genthrift.hive_metastore import ttypes
from thrift.Thrift import TType

from compaction_operator.api.compaction import CompactionType
from compaction_operator.metastore import ORC_INPUT_FORMAT, ORC_SERDE, Generation, LockState, MetastoreClient, Table
from compaction_operator.metastore.client import BATCH
from compaction_operator.metastore.hive4_calls import I64, STRING, Call, Struct, get_table_req, spec_of, struct
from compaction_operator.metastore.partition_specs import escape
from compaction_operator.metastore.replies import lock_state_of, required

Operation = Literal["INSERT", "UPDATE", "DELETE"]

CAPABILITIES = ["HIVEFULLACIDREAD", "HIVEFULLACIDWRITE", "HIVEMANAGEDINSERTREAD", "HIVEMANAGEDINSERTWRITE"]
"""What a Hive 4 metastore requires of a client that creates an ACID table."""

ORC_OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat"
STRINGS = (TType.LIST, (TType.STRING, "UTF8", False))


def name_of(keys: Sequence[str], values: Sequence[str]) -> str:
    """Return the name of the partition with those values (Hive's Warehouse.makePartName)."""
    return "/".join(f"{key.lower()}={escape(value)}" for key, value in zip(keys, values, strict=True))


class CreateTableRequest(Struct):
    """A new table, and what its creator can do."""

    thrift_spec = spec_of(
        {1: ("table", struct(ttypes.Table)), 9: ("processorCapabilities", STRINGS), 10: ("processorIdentifier", STRING)}
    )


create_table_req = Call(
    "create_table_req",
    struct(CreateTableRequest),
    errors=(
        ttypes.AlreadyExistsException,
        ttypes.InvalidObjectException,
        ttypes.MetaException,
        ttypes.NoSuchObjectException,
    ),
)


class TruncateTableRequest(Struct):
    """What is to be truncated, by whose write id."""

    thrift_spec = spec_of(
        {
            1: ("dbName", STRING),
            2: ("tableName", STRING),
            3: ("partNames", STRINGS),
            4: ("writeId", I64),
            5: ("validWriteIdList", STRING),
            6: ("environmentContext", struct(ttypes.EnvironmentContext)),
        }
    )


class TruncateTableResponse(Struct):
    """Nothing."""


truncate_table_req = Call(
    "truncate_table_req",
    struct(TruncateTableRequest),
    returns=TruncateTableResponse,
    errors=(ttypes.MetaException,),
)

FULL_ACID = {"transactional": "true", "transactional_properties": "default"}


class Formats(NamedTuple):
    """The classes by which Hive reads and writes a table's files."""

    input_format: str
    output_format: str
    serde: str


ORC = Formats(ORC_INPUT_FORMAT, ORC_OUTPUT_FORMAT, ORC_SERDE)
HUDI = Formats(
    "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
)
"""What Hudi's sync writes down for a merge-on-read table."""


class MetastoreAdmin(MetastoreClient):
    """A metastore client that can change things."""

    def database_names(self) -> tuple[str, ...]:
        """Return the names of all databases."""
        return tuple(self._call(lambda client: client.get_all_databases()))

    def create_database(self, name: str, *, location: str) -> None:
        """Create a database; its directory is made when it is missing."""
        database = ttypes.Database(name=name, description="", locationUri=location, parameters={})
        self._call(lambda client: client.create_database(database))

    def drop_database(self, name: str) -> None:
        """Drop a database with its tables and all their directories."""
        self._call(lambda client: client.drop_database(name, True, True))

    def create_table(
        self,
        database: str,
        name: str,
        *,
        location: str,
        columns: Sequence[tuple[str, str]],
        partition_keys: Sequence[tuple[str, str]] = (),
        parameters: Mapping[str, str] | None = None,
        formats: Formats = ORC,
    ) -> None:
        """Create a managed table, one of ORC files and full ACID unless formats and parameters say otherwise."""
        table = ttypes.Table(
            tableName=name,
            dbName=database,
            owner=self._user,
            sd=_descriptor(location, columns, formats),
            partitionKeys=_fields(partition_keys),
            parameters=dict(FULL_ACID if parameters is None else parameters),
            tableType="MANAGED_TABLE",
            createTime=0,
            lastAccessTime=0,
            retention=0,
        )
        if self.generation() is Generation.HIVE3:
            self._call(lambda client: client.create_table(table))
        else:
            request = CreateTableRequest(table=table, processorCapabilities=CAPABILITIES, processorIdentifier="sandbox")
            self._call(lambda client: create_table_req(client, request))

    def drop_table(self, database: str, name: str) -> None:
        """Drop a table and its directory."""
        self._call(lambda client: client.drop_table(database, name, True), table=f"{database}.{name}")

    def rename_table(self, database: str, name: str, *, to: str) -> None:
        """Give a table another name; a managed one's directory goes with it when it has the default place."""

        def rename(client: Any) -> None:
            capabilities = ttypes.ClientCapabilities([ttypes.ClientCapability.INSERT_ONLY_TABLES])
            request = ttypes.GetTableRequest(dbName=database, tblName=name, capabilities=capabilities)
            table = get_table_req(client, request).table
            table.tableName = to
            client.alter_table(database, name, table)

        self._call(rename, table=f"{database}.{name}")

    def add_partitions(self, database: str, name: str, partitions: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Add partitions of those values, in batches, each in the directory of its name; returns the names."""
        table = self.get_table(database, name)
        named = [(name_of(table.partition_keys, values), list(values)) for values in partitions]
        for start in range(0, len(named), BATCH):
            batch = [_partition(table, *entry) for entry in named[start : start + BATCH]]
            self._add_partitions(batch)
        return tuple(partition for partition, _ in named)

    def add_partition_at(self, database: str, name: str, values: Sequence[str], *, location: str) -> None:
        """Add a partition whose directory is that one."""
        partition = _partition(self.get_table(database, name), "", list(values))
        partition.sd.location = location
        self._add_partitions([partition])

    def _add_partitions(self, partitions: Sequence[Any]) -> None:
        self._call(lambda client: client.add_partitions(partitions))

    def drop_partition(self, database: str, name: str, values: Sequence[str]) -> None:
        """Drop a partition and its directory."""
        self._call(lambda client: client.drop_partition(database, name, list(values), True))

    def truncate(self, database: str, name: str, *, write_id: int, partitions: Sequence[str] | None = None) -> None:
        """Do what HiveServer2 has the metastore do for TRUNCATE: on Hive 4 a base of that write id, on Hive 3 deletion.

        Without partitions it is the whole table.
        """
        names = None if partitions is None else list(partitions)
        if self.generation() is Generation.HIVE3:
            self._call(lambda client: client.truncate_table(database, name, names))
            return
        context = ttypes.EnvironmentContext({"truncateSkipDataDeletion": "true"})
        request = TruncateTableRequest(
            dbName=database,
            tableName=name,
            partNames=names,
            writeId=write_id,
            validWriteIdList=str(self.valid_write_ids(database, name)),
            environmentContext=context,
        )
        self._call(lambda client: truncate_table_req(client, request))

    def drop_partition_by_base(self, database: str, name: str, partition: str, *, write_id: int) -> None:
        """Do what HiveServer2 has a Hive 4 metastore do for DROP PARTITION: a base of that write id stays behind."""
        request = ttypes.DropPartitionsRequest(
            dbName=database,
            tblName=name,
            parts=ttypes.RequestPartsSpec(names=[partition]),
            deleteData=False,
            environmentContext=ttypes.EnvironmentContext({"writeId": str(write_id)}),
        )
        self._call(lambda client: client.drop_partitions_req(request))

    def compact(
        self,
        database: str,
        table: str,
        *,
        partition: str | None = None,
        type_: CompactionType = CompactionType.MAJOR,
    ) -> int:
        """Ask for a compaction, as ALTER TABLE ... COMPACT does; return the id of its entry in the queue."""
        kind = getattr(ttypes.CompactionType, type_.name)
        request = ttypes.CompactionRequest(database, table, partition, kind)
        reply = self._call(lambda client: client.compact2(request))
        queue_id: int = required(reply, "id", "compact2")
        return queue_id

    def open_txn(self, *, user: str, agent: str) -> int:
        """Open a transaction and return its id."""
        request = ttypes.OpenTxnRequest(num_txns=1, user=user, hostname=self._host, agentInfo=agent)
        reply = self._call(lambda client: client.open_txns(request))
        txn: int = required(reply, "txn_ids", "open_txns")[0]
        return txn

    def allocate_write_id(self, txn: int, database: str, table: str) -> int:
        """Return the write id of a transaction for a table, a new one the first time."""
        request = ttypes.AllocateTableWriteIdsRequest(dbName=database, tableName=table, txnIds=[txn])
        reply = self._call(lambda client: client.allocate_table_write_ids(request))
        write_id: int = required(reply, "txnToWriteIds", "allocate_table_write_ids")[0].writeId
        return write_id

    def lock_to_write(
        self, txn: int, database: str, table: str, *, agent: str, operation: Operation = "INSERT"
    ) -> LockState:
        """Request the lock of a statement, which tells the metastore that the transaction writes into the table.

        Like Hive's, an INSERT takes a shared one, and an UPDATE or DELETE the one that writers of both exclude.
        NB: without a known table, the metastore forgets an aborted transaction and then takes its write id for valid.
        """
        kind = "SHARED_READ" if operation == "INSERT" else "SHARED_WRITE"
        component = ttypes.LockComponent(
            type=getattr(ttypes.LockType, kind),
            level=ttypes.LockLevel.TABLE,
            dbname=database,
            tablename=table,
            operationType=getattr(ttypes.DataOperationType, operation),
            isTransactional=True,
        )
        request = ttypes.LockRequest(
            component=[component], txnid=txn, user=self._user, hostname=self._host, agentInfo=agent
        )
        return self._call(lambda client: lock_state_of(client.lock(request)))

    def start_write_ids(self, database: str, table: str, *, highest: int) -> None:
        """Make it so that a table has committed write ids up to that one; only for one that has none yet."""
        write_ids = f"{database}.{table}:{highest}:{2**63 - 1}::"
        request = ttypes.ReplTblWriteIdStateRequest(
            validWriteIdlist=write_ids, user=self._user, hostName=self._host, dbName=database, tableName=table
        )
        self._call(lambda client: client.repl_tbl_writeid_state(request))


def _partition(table: Table, name: str, values: list[str]) -> Any:
    descriptor = _descriptor(f"{table.location}/{name}", table.columns)
    return ttypes.Partition(values=values, dbName=table.database, tableName=table.name, sd=descriptor, parameters={})


def _descriptor(location: str, columns: Sequence[tuple[str, str]], formats: Formats = ORC) -> Any:
    return ttypes.StorageDescriptor(
        cols=_fields(columns),
        location=location,
        inputFormat=formats.input_format,
        outputFormat=formats.output_format,
        compressed=False,
        numBuckets=-1,
        serdeInfo=ttypes.SerDeInfo(serializationLib=formats.serde, parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def _fields(columns: Sequence[tuple[str, str]]) -> list[Any]:
    return [ttypes.FieldSchema(name, type_, "") for name, type_ in columns]
