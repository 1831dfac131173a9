"""Two S3 servers that share no code, each with a bucket, and MinIO with one that keeps versions, too.

NB: versitygw lists prefixes whose keys have nothing but older versions.
"""

import uuid
from collections.abc import Iterator

import pytest
from sandbox.s3.server import Kind, S3Server

from compaction_operator.storage.s3 import Pace, S3Storage
from compaction_operator.storage.s3.objects import Bucket

PLAIN, VERSIONED = "plain", "versioned"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test its servers and buckets, unless it says which it wants."""
    stores = [("minio", PLAIN), ("minio", VERSIONED), ("versitygw", PLAIN)]
    asked = metafunc.definition.get_closest_marker("parametrize")
    if "bucket" in metafunc.fixturenames and not (asked and asked.args[0] == ("kind", "bucket")):
        metafunc.parametrize(("kind", "bucket"), stores, scope="session", ids=["minio", "minio-versioned", "versitygw"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(__file__.rpartition("/")[0]):
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
