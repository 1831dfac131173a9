"""What the folders of integration tests share."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from sandbox.hdfs.server import HdfsServer
from sandbox.s3.path import S3Path, make_bucket
from sandbox.s3.server import Kind, S3Server

from compaction_operator.api.stores import S3, STORES_VARIABLE, S3Connection, StoreSettings
from compaction_operator.storage import stores


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """A NameNode and a DataNode, started when the first test wants them."""
    with HdfsServer(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@dataclass(frozen=True)
class TestBucket:
    """A bucket, and the server that has it."""

    __test__ = False

    root: S3Path
    server: S3Server

    @property
    def name(self) -> str:
        """What S3 calls it."""
        return self.root.parts[1]


@pytest.fixture(scope="session")
def bucket_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], TestBucket]]:
    """Return the bucket of minio, minio-versioned, versitygw or versitygw-versioned; each is made the first time.

    From then on the product finds it, as in a driver: by the settings in this process's environment.
    """
    made: dict[str, TestBucket] = {}
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:

        def bucket(name: str) -> TestBucket:
            if name not in made:
                kind: Kind = "versitygw" if name.startswith("versitygw") else "minio"
                versioned = name.endswith("-versioned")
                server = S3Server(tmp_path_factory.mktemp(name), kind=kind, versions=versioned)
                root = make_bucket(stack.enter_context(server), f"lake-{name}", versioned=versioned)
                made[name] = TestBucket(root, server)
                tell_product({one.name: one.server.settings() for one in made.values()}, patch)
            return made[name]

        yield bucket


def tell_product(buckets: dict[str, S3Connection], patch: pytest.MonkeyPatch) -> None:
    settings = StoreSettings.model_validate_json(os.environ.get(STORES_VARIABLE, "{}"))
    with_buckets = settings.model_copy(update={"s3": S3(buckets=buckets)})
    patch.setenv(STORES_VARIABLE, with_buckets.model_dump_json(by_alias=True))
    stores._own_stores.cache_clear()
