"""What lies in a Hudi table: its timeline, its files, and the log blocks as Hudi's own readers find them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Row


class LogBlock(NamedTuple):
    """A block of a log file: its instant, the instants that were merged into it, where its content lies in the file.

    `target` is the instant that it rolls back, empty for a block that does not.
    """

    file: Path
    kind: str
    instant: str
    merged: frozenset[str]
    target: str
    position: int
    size: int


class Scan(NamedTuple):
    """What a reader of log files opened: blocks, records of all of them, and the rows that it made of these by id."""

    blocks: int
    records: int
    rows: dict[int, Row]


def timeline(location: Path) -> list[str]:
    """Return the file names of the active timeline, by time; a table of version 6 has them right under `.hoodie`."""
    folder = location / ".hoodie" / "timeline"
    found = (path for path in (folder if folder.is_dir() else folder.parent).iterdir() if path.is_file())
    return sorted(path.name for path in found if path.name[0].isdigit())


def actions(location: Path, instant: str) -> list[str]:
    """Return what the timeline has of an instant, without the times."""
    names = (name for name in timeline(location) if name.startswith(instant))
    return sorted(name.partition(".")[2] for name in names)


def log_files(folder: Path) -> list[Path]:
    """Return the log files below a folder in the order of their instants, without those of the metadata table."""
    found = (path for path in folder.rglob(".*.log.*") if path.suffix != ".crc")
    return sorted((path for path in found if ".hoodie" not in path.relative_to(folder).parts), key=_log_order)


def base_files(folder: Path) -> list[Path]:
    """Return the base files below a folder, by name."""
    return sorted(path for path in folder.rglob("*.parquet") if ".hoodie" not in path.relative_to(folder).parts)


def log_blocks(session: HudiSession, location: Path) -> list[LogBlock]:
    """Return every log block of a table, by file."""
    storage = meta_client(session, location).getStorage()
    return [block for path in log_files(location) for block in _blocks_of(session, storage, path)]


def merged_blocks(session: HudiSession, location: Path) -> list[LogBlock]:
    """Return the blocks that a log compaction made."""
    return [block for block in log_blocks(session, location) if block.merged]


def scan(session: HudiSession, location: Path, *, optimized: bool) -> Scan:
    """Read a table's log files, all of one file group, with Hudi's first or second (`optimized`) scanner.

    NB: Hudi 1.2.0 has the second only.
    """
    client = meta_client(session, location)
    builder = _scanner(session, client, location)
    if session.version.startswith("1.0."):
        builder.withOptimizedLogBlocksScan(optimized)
    found = builder.build()
    rows = _rows(session, found, _schema(session, client))
    opened = Scan(found.getTotalLogBlocks(), found.getTotalLogRecords(), rows)
    found.close()
    return opened


def opened_blocks(session: HudiSession, folder: Path) -> int:
    """Return how many blocks Hudi's second scanner opens of the log files in a folder of a table's only file group."""
    client = meta_client(session, folder.parent)
    last = client.getActiveTimeline().filterCompletedInstants().lastInstant().get().requestedTime()
    paths = session.jvm.java.util.ArrayList([str(path) for path in log_files(folder)])
    builder = session.jvm.org.apache.hudi.common.table.log.HoodieUnMergedLogRecordScanner.newBuilder()
    builder.withStorage(client.getStorage()).withBasePath(str(folder.parent)).withLatestInstantTime(last)
    builder.withLogFilePaths(paths).withBufferSize(1 << 20).withReverseReader(False).withTableMetaClient(client)
    if session.version.startswith("1.0."):
        builder.withOptimizedLogBlocksScan(True)
    found = builder.build()
    found.scan(True)
    return int(found.getCurrentInstantLogBlocks().size())


def opened_by_the_first_scanner(session: HudiSession, folder: Path) -> int:
    """Return how many blocks it opens of the log files in a partition of a metadata table, as `opened_blocks` does.

    NB: of Hudi 1.0 only; it reads the content of each block that it counts.
    """
    builder = _scanner(session, meta_client(session, folder.parent), folder)
    builder.withOptimizedLogBlocksScan(False)
    builder.withPartition(folder.name).withKeyFieldOverride("key")
    found = builder.build()
    blocks = int(found.getTotalLogBlocks())
    found.close()
    return blocks


def listed_and_indexed(session: HudiSession, location: Path, keys: range) -> tuple[set[str], set[int]]:
    """Return the files that the metadata table of an unpartitioned table lists, and which keys its record index has."""
    jvm, hudi = session.jvm, session.jvm.org.apache.hudi
    config = hudi.common.config.HoodieMetadataConfig.newBuilder().enable(True).build()
    context = hudi.client.common.HoodieSparkEngineContext(session.spark.sparkContext._jsc)
    storage = meta_client(session, location).getStorage()
    metadata = hudi.metadata.HoodieBackedTableMetadata(context, storage, config, str(location))
    files = metadata.getAllFilesInPartition(hudi.storage.StoragePath(str(location)))
    wanted = jvm.java.util.ArrayList([str(key) for key in keys])
    if session.version.startswith("1.0."):
        found = set(metadata.readRecordIndex(wanted))
    else:
        pairs = metadata.readRecordIndexLocationsWithKeys(hudi.common.data.HoodieListData.eager(wanted))
        found = {pair.getLeft() for pair in pairs.collectAsList()}
    metadata.close()
    return {str(file.getPath().getName()) for file in files}, {int(key) for key in found}


def meta_client(session: HudiSession, location: Path) -> Any:
    """Return Hudi's HoodieTableMetaClient of a table as it is now."""
    hudi = session.jvm.org.apache.hudi
    settings = session.spark.sparkContext._jsc.hadoopConfiguration()
    configuration = hudi.storage.hadoop.HadoopStorageConfiguration(settings)
    return hudi.common.table.HoodieTableMetaClient.builder().setConf(configuration).setBasePath(str(location)).build()


def _scanner(session: HudiSession, client: Any, folder: Path) -> Any:
    """Return the builder of what merges the log files below a folder."""
    last = client.getActiveTimeline().filterCompletedInstants().lastInstant().get().requestedTime()
    paths = session.jvm.java.util.ArrayList([str(path) for path in log_files(folder)])
    base = str(client.getBasePath())
    builder = session.jvm.org.apache.hudi.common.table.log.HoodieMergedLogRecordScanner.newBuilder()
    builder.withStorage(client.getStorage()).withBasePath(base).withLogFilePaths(paths)
    builder.withReaderSchema(_schema(session, client)).withLatestInstantTime(last).withBufferSize(1 << 20)
    builder.withMaxMemorySizeInBytes(1 << 24).withReverseReader(False).withTableMetaClient(client)
    builder.withSpillableMapBasePath(f"{base}/.hoodie/.temp")
    return builder


def _rows(session: HudiSession, scanner: Any, schema: Any) -> dict[int, Row]:
    properties = session.jvm.java.util.Properties()
    found = {}
    # NB: py4j does not iterate over a map that may spill.
    for record in session.jvm.java.util.ArrayList(scanner.getRecords().values()):
        data = record.toIndexedRecord(schema, properties).get().getData()
        found[data.get("id")] = Row(data.get("ts"), str(data.get("v")))
    return found


def _schema(session: HudiSession, client: Any) -> Any:
    resolver = session.jvm.org.apache.hudi.common.table.TableSchemaResolver(client)
    return resolver.getTableAvroSchema() if session.version.startswith("1.0.") else resolver.getTableSchema()


def _log_order(path: Path) -> tuple[str, int]:
    """`.<file id>_<instant>.log.<number>_<token>`, by instant and number."""
    head, _, tail = path.name.partition(".log.")
    return head.rpartition("_")[2], int(tail.partition("_")[0])


def _blocks_of(session: HudiSession, storage: Any, path: Path) -> Iterator[LogBlock]:
    hudi = session.jvm.org.apache.hudi
    file = hudi.common.model.HoodieLogFile(hudi.storage.StoragePath(str(path)))
    reader = hudi.common.table.log.HoodieLogFormat.newReader(storage, file, None)
    while reader.hasNext():
        block = reader.next()
        header = {str(key): value for key, value in dict(block.getLogBlockHeader()).items()}
        merged = frozenset(filter(None, header.get("COMPACTED_BLOCK_TIMES", "").split(",")))
        content = block.getBlockContentLocation().get()
        where, size = content.getContentPositionInLogFile(), content.getBlockSize()
        target = header.get("TARGET_INSTANT_TIME", "")
        yield LogBlock(path, str(block.getBlockType()), header["INSTANT_TIME"], merged, target, where, size)
    reader.close()
