"""Two S3 servers that share no code, each with a bucket, and MinIO with one that keeps versions, too.

A test with the fixture `bucket` runs on each, unless it is parametrized with ONLY_MINIO.
NB: versitygw lists prefixes whose keys have nothing but older versions.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox.s3.proxy import MisbehavingProxy
from sandbox.s3.server import Kind, S3Server

from compaction_operator.storage.s3 import Pace, S3Storage
from compaction_operator.storage.s3.objects import Bucket

PLAIN, VERSIONED = "plain", "versioned"
PARAMETERS = ("kind", "bucket")
STORES = {"minio": ("minio", PLAIN), "minio-versioned": ("minio", VERSIONED), "versitygw": ("versitygw", PLAIN)}

QUICK = Pace(connect_seconds=1.0, read_seconds=1.0, attempts=2)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    asked = (marker.args[0] for marker in metafunc.definition.iter_markers("parametrize"))
    if "kind" in metafunc.fixturenames and PARAMETERS not in asked:
        metafunc.parametrize(PARAMETERS, STORES.values(), scope="session", ids=STORES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.s3)


@pytest.fixture(scope="session")
def server(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp(kind), kind=kind) as running:
        client = storage_at(running, PLAIN).bucket.client
        client.create_bucket(Bucket=PLAIN)
        if kind == "minio":
            client.create_bucket(Bucket=VERSIONED)
            client.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
        yield running


def storage_at(server: S3Server, bucket: str, *, pace: Pace | None = None, endpoint: str | None = None) -> S3Storage:
    """A storage of its own; `endpoint` is that of a proxy before the server."""
    return S3Storage(Bucket(bucket, server.settings(endpoint=endpoint), pace or Pace()))


@pytest.fixture(scope="session")
def storage(server: S3Server, bucket: str) -> S3Storage:
    return storage_at(server, bucket)


@pytest.fixture
def place(storage: S3Storage) -> str:
    """The URI of an empty directory, with a marker as Hadoop makes it."""
    name = uuid.uuid4().hex
    storage.bucket.create(f"{name}/", b"")
    return f"s3a://{storage.bucket.name}/{name}"


@pytest.fixture(scope="session")
def proxy(server: S3Server) -> Iterator[MisbehavingProxy]:
    with MisbehavingProxy(server.endpoint) as running:
        yield running


@pytest.fixture(scope="session")
def shared_behind_proxy(server: S3Server, bucket: str, proxy: MisbehavingProxy) -> S3Storage:
    return storage_at(server, bucket, pace=QUICK, endpoint=proxy.endpoint)


@pytest.fixture
def behind_proxy(shared_behind_proxy: S3Storage, proxy: MisbehavingProxy) -> Iterator[S3Storage]:
    """A storage whose calls go through the proxy, which behaves well at first."""
    proxy.behave()
    yield shared_behind_proxy
    proxy.behave()
