"""Right before each change outside itself a process asks whether it may: one that lost its lease changes nothing."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import kubernetes
import pytest

from compaction_operator.api.config import Metastore
from compaction_operator.api.stores import S3Connection
from compaction_operator.controller.kube import client as kube_client
from compaction_operator.controller.kube.client import KubeError, connect
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.metastore import MetastoreClient
from compaction_operator.metastore.connection import ConnectionPool
from compaction_operator.storage import LocalStorage
from compaction_operator.storage.hdfs_client import HdfsClient
from compaction_operator.storage.s3 import Pace
from compaction_operator.storage.s3.client import make_client


class EndedError(SystemExit):
    """The process has ended."""


class Lease:
    """Permits so many changes, then ends the process."""

    def __init__(self, permits: int = 0) -> None:
        self.left = permits

    def require(self) -> None:
        if not self.left:
            raise EndedError
        self.left -= 1


CHANGES: dict[str, Callable[[LocalStorage, str], Any]] = {
    "write": lambda storage, at: storage.write(f"{at}/new", b"data"),
    "make_directory": lambda storage, at: storage.make_directory(f"{at}/new"),
    "rename": lambda storage, at: storage.rename(f"{at}/one", f"{at}/new"),
    "publish": lambda storage, at: storage.publish(f"{at}/one", f"{at}/new"),
    "delete_tree": lambda storage, at: storage.delete_tree(f"{at}/one"),
    "delete_tree of a file": lambda storage, at: storage.delete_tree(f"{at}/file"),
    "remove_if_empty": lambda storage, at: storage.remove_if_empty(f"{at}/empty"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_volume_stays_as_it_is(tmp_path: Path, change: str) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "bucket_00000").write_text("rows")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(EndedError):
        CHANGES[change](LocalStorage(permit=Lease().require), str(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("change", "changes"),
    [("write", 2), ("make_directory", 1), ("rename", 1), ("publish", 1), ("delete_tree", 2), ("remove_if_empty", 1)],
)
def test_each_change_is_asked_for(tmp_path: Path, change: str, changes: int) -> None:
    """A file is written under another name first; a directory is deleted after its file."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "bucket_00000").touch()
    (tmp_path / "empty").mkdir()
    lease = Lease(10)
    CHANGES[change](LocalStorage(permit=lease.require), str(tmp_path))
    assert 10 - lease.left == changes


@pytest.mark.parametrize("permits", range(5))
def test_a_deletion_asks_before_each_file(tmp_path: Path, permits: int) -> None:
    """A process may be stopped for an hour anywhere in a large tree."""
    for number in range(5):
        (tmp_path / "delta").mkdir(exist_ok=True)
        (tmp_path / "delta" / f"bucket_{number:05d}").touch()
    with pytest.raises(EndedError):
        LocalStorage(permit=Lease(permits).require).delete_tree(str(tmp_path / "delta"))
    assert len(list((tmp_path / "delta").iterdir())) == 5 - permits


def test_hdfs_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    client = HdfsClient("hdfs://nowhere", None, timeout=10.0, permit=Lease().require)
    monkeypatch.setattr(client, "_connected", lambda path: None)
    with pytest.raises(EndedError):
        client.change("/t", "delete", lambda hdfs: pytest.fail("it was called"))


def test_s3_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    settings = S3Connection(endpoint="https://127.0.0.1:1", region="eu-central-1", path_style=True)
    client = make_client(settings, Pace(attempts=1), permit=Lease().require)
    with pytest.raises(EndedError):
        client.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": "t/file"}]})


def test_a_metastore_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    class Open:
        def allow(self, deadline: Any) -> None:
            pass

    monkeypatch.setattr(ConnectionPool, "_open", lambda self, deadline: Open())
    monkeypatch.setattr(ConnectionPool, "_use", lambda self, connection, request: pytest.fail("it was called"))
    with pytest.raises(EndedError):
        MetastoreClient(Metastore(uris=("thrift://nowhere:9083",)), permit=Lease().require).unlock(7)


def test_the_api_server_is_asked_but_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look needs no permit: it is the watch of a standby, and the first load of a leader."""
    host = kubernetes.client.Configuration(host="http://127.0.0.1:1")
    host.retries = 0
    monkeypatch.setattr(kube_client, "configuration", lambda _: host)
    kube = connect(permit=Lease().require)
    with pytest.raises(KubeError, match="not reachable"):
        kube.list_all(ResourceKind.COMPACTION)
    raw = {"metadata": {"namespace": "n", "name": "x", "uid": "u", "resourceVersion": "1"}}
    changes: list[Callable[[], Any]] = [
        lambda: kube.replace_status(ResourceKind.CLEANUP, raw, {}),
        lambda: kube.create_job(raw),
        lambda: kube.create_compaction(raw),
        lambda: kube.create_event(raw),
        lambda: kube.delete_job("n", "x"),
        lambda: kube.delete_cleanup(raw),
    ]
    for change in changes:
        with pytest.raises(EndedError):
            change()


def test_the_api_server_gets_one_request_for_each_permit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hang up after it has done what was asked; a repetition could come much later."""
    asked: list[str] = []

    class HangsUp(BaseHTTPRequestHandler):
        def do_DELETE(self) -> None:
            asked.append(self.path)
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), HangsUp) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        host = kubernetes.client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(kube_client, "configuration", lambda _: host)
        with pytest.raises(KubeError):
            connect(permit=Lease(1).require).delete_job("ns", "job")
        server.shutdown()
    assert len(asked) == 1
