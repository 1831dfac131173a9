"""Two S3 servers that share no code, each with a bucket, and MinIO with one that keeps versions, too.

A test with the fixture `bucket` runs on each, unless it says itself on which.
NB: versitygw lists prefixes whose keys have nothing but older versions.
"""

import uuid
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from botocore import endpoint as botocore_endpoint
from botocore.retries.quota import RetryQuota
from sandbox.s3.proxy import MisbehavingProxy
from sandbox.s3.server import Kind, S3Server

from compaction_operator.storage.s3 import Pace, S3Storage
from compaction_operator.storage.s3.objects import Bucket

PLAIN, VERSIONED = "plain", "versioned"
PARAMETERS = ("kind", "bucket")
STORES = {"minio": ("minio", PLAIN), "minio-versioned": ("minio", VERSIONED), "versitygw": ("versitygw", PLAIN)}

QUICK = Pace(connect_seconds=1.0, read_seconds=1.0, attempts=3)
"""NB: more than the two that one fault needs: on a busy machine a call may take longer than a second."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    asked = {marker.args[0] for marker in metafunc.definition.iter_markers("parametrize")}
    if asked & {PARAMETERS, "kind"} or "kind" not in metafunc.fixturenames:
        return
    if "bucket" in metafunc.fixturenames:
        metafunc.parametrize(PARAMETERS, STORES.values(), scope="session", ids=STORES)
    else:
        metafunc.parametrize("kind", ["minio", "versitygw"], scope="session")


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
def running_proxy(server: S3Server) -> Iterator[MisbehavingProxy]:
    with MisbehavingProxy(server.endpoint) as running:
        yield running


@pytest.fixture
def proxy(running_proxy: MisbehavingProxy) -> Iterator[MisbehavingProxy]:
    """It behaves well at first."""
    running_proxy.behave()
    yield running_proxy
    running_proxy.behave()


@pytest.fixture(scope="session")
def impatient(server: S3Server, bucket: str, running_proxy: MisbehavingProxy) -> S3Storage:
    return storage_at(server, bucket, pace=QUICK, endpoint=running_proxy.endpoint)


@pytest.fixture
def behind_proxy(impatient: S3Storage, proxy: MisbehavingProxy, monkeypatch: pytest.MonkeyPatch) -> S3Storage:
    """A storage whose calls go through the proxy, and soon give up. The client neither waits nor loses patience."""
    monkeypatch.setattr(botocore_endpoint, "time", SimpleNamespace(sleep=lambda _seconds: None))
    monkeypatch.setattr(RetryQuota, "acquire", lambda _quota, _amount: True)
    return impatient


@pytest.fixture(scope="session")
def own_server(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that a test may stop. It is left running."""
    with S3Server(tmp_path_factory.mktemp(f"own-{kind}"), kind=kind) as running:
        storage_at(running, PLAIN).bucket.client.create_bucket(Bucket=PLAIN)
        yield running


@pytest.fixture
def own_storage(own_server: S3Server) -> S3Storage:
    return storage_at(own_server, PLAIN, pace=QUICK)


@pytest.fixture
def own_place(own_storage: S3Storage) -> str:
    """The URI of a directory with one file."""
    place = f"s3a://{PLAIN}/{uuid.uuid4().hex}"
    own_storage.write(f"{place}/file", b"content")
    return place
