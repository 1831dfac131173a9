"""Where a plane's tables lie, unless on this machine's disk: in a store of its own, which can be killed and paused."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sandbox.harness.places import Place, StorageKind
from sandbox.hdfs.path import HdfsPath
from sandbox.hdfs.server import HdfsServer
from sandbox.s3.path import S3Path, make_bucket
from sandbox.s3.server import S3Server


@dataclass(frozen=True)
class Store:
    """A store that is not started yet, and what others must know of it.

    `hadoop` are Hadoop's properties by which Hive reaches it, `values` the chart's `stores`. A metastore is made with
    `metastore`, too: more arguments of `MetastoreServer`. `kill` ends it at once, if
    it runs; `start` brings it back with its data. `pause` makes it hang, `resume` ends that.
    """

    warehouse: Place
    hadoop: Mapping[str, str]
    values: Mapping[str, Any]
    start: Callable[[], None]
    kill: Callable[[], None]
    pause: Callable[[], None]
    resume: Callable[[], None]
    metastore: Mapping[str, Any] = field(default_factory=dict)


def hdfs_store(folder: Path) -> Store:
    """Return a NameNode and a DataNode; the first is what hangs."""
    server = HdfsServer(folder)
    return Store(
        warehouse=HdfsPath(server.uri) / "warehouse",
        hadoop={},
        # A process here finds the files where they lie.
        values={"hdfs": {"configMap": "hadoop-conf", "mountPath": str(server.configuration)}},
        start=server.start,
        kill=server.stop,
        pause=partial(server.pause, "NameNode"),
        resume=partial(server.resume, "NameNode"),
    )


def s3_store(folder: Path) -> Store:
    """Return MinIO with a bucket. NB: of such stores in one process, each has a bucket of another name."""
    server, bucket = S3Server(folder), f"plane-{uuid.uuid4().hex[:8]}"
    made: list[str] = []

    def start() -> None:
        server.start()
        if bucket not in made:
            made.append(make_bucket(server, bucket).parts[1])

    return Store(
        warehouse=S3Path(f"s3a://{bucket}/warehouse"),
        hadoop=server.hadoop(bucket),
        values={"s3": server.settings().to_json()},
        start=start,
        kill=server.stop,
        pause=server.pause,
        resume=server.resume,
    )


STORES: Mapping[StorageKind, Callable[[Path], Store]] = {"hdfs": hdfs_store, "s3": s3_store}
