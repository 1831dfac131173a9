"""HDFS that cannot be reached at all: errors that name the location and say nothing about what is there."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sandbox.hdfs.server import write_properties

from compaction_operator.api.stores import Hdfs
from compaction_operator.storage import NotFoundError, StorageError, hdfs_client
from compaction_operator.storage.hdfs import connect


@pytest.mark.parametrize(
    ("scheme", "authority", "reason"),
    [
        ("hdfs", "unknown", "No NameNode hosts found"),
        ("hdfs", "", r"No fs\.defaultFS setting found"),
        ("viewfs", "cluster", "No viewfs fallback mount found"),
        ("hdfs", "127.0.0.1:1", "Connection refused"),
        ("hdfs", "nowhere.invalid:8020", "lookup"),
    ],
)
def test_a_namenode_that_cannot_be_reached_is_named(scheme: str, authority: str, reason: str) -> None:
    path = f"{scheme}://{authority}/table"
    with pytest.raises(StorageError, match=f"{path}.*{reason}") as raised:
        connect(scheme, authority, None, timeout=2).exists(path)
    assert not isinstance(raised.value, NotFoundError)


def test_a_folder_without_hadoops_configuration_is_named(tmp_path: Path) -> None:
    """hdfs-native would go on without it: without Kerberos, and without the name services."""
    settings = Hdfs(config_map="hadoop", mount_path=str(tmp_path))
    with pytest.raises(StorageError, match=rf"{tmp_path} has neither core-site.xml nor hdfs-site.xml"):
        connect("hdfs", "127.0.0.1:1", settings).exists("hdfs://127.0.0.1:1/table")


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The options of each client that is made; none answers."""
    made: list[dict[str, str]] = []

    def client(_uri: str, options: dict[str, str], *_: object, **_kwargs: object) -> None:
        made.append(options)
        raise RuntimeError("unreachable")

    monkeypatch.setattr(hdfs_client, "Client", client)
    return made


OBSERVERS = "org.apache.hadoop.hdfs.server.namenode.ha.ObserverReadProxyProvider"


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("hdfs://nn1:8020", {"nn1", "warehouse", "archive"}),
        ("hdfs://other", {"other", "warehouse", "archive"}),
        ("hdfs://", {"warehouse", "archive"}),
        ("viewfs://all", {"all", "warehouse", "archive"}),
    ],
)
@pytest.mark.parametrize("found_by", ["settings", "HADOOP_CONF_DIR", "HADOOP_HOME"])
def test_no_listing_comes_from_an_observer(
    uri: str,
    names: set[str],
    found_by: str,
    options: list[dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An observer lags behind: a fence would miss the staging folder of another driver."""
    folder = tmp_path / "etc/hadoop"
    folder.mkdir(parents=True)
    write_properties(folder / "core-site.xml", {"dfs.ha.namenodes.warehouse": "nn1,nn2"})
    write_properties(folder / "hdfs-site.xml", {f"{hdfs_client.PROVIDER}.archive": OBSERVERS})
    settings = Hdfs(config_map="hadoop", mount_path=str(folder)) if found_by == "settings" else None
    if settings is None:
        monkeypatch.setenv(found_by, str(folder if found_by == "HADOOP_CONF_DIR" else tmp_path))
    with pytest.raises(StorageError, match="unreachable"):
        connect(*uri.split("://"), settings).exists(f"{uri}/table")
    providers = {key: value for key, value in options[0].items() if key.startswith(hdfs_client.PROVIDER)}
    assert providers == {f"{hdfs_client.PROVIDER}.{name}": hdfs_client.ACTIVE_ONLY for name in names}


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.Event]]:
    """The clients that are being made: each is ready when its event is set."""
    begun: list[threading.Event] = []

    class Slow:
        def __init__(self, *_: object, **_kwargs: object) -> None:
            begun.append(threading.Event())
            self._number = len(begun)
            begun[-1].wait()

        def get_file_info(self, name: str) -> int:
            return self._number

    monkeypatch.setattr(hdfs_client, "Client", Slow)
    yield begun
    for event in begun:
        event.set()


def test_a_client_that_takes_long_to_make_keeps_no_caller_beyond_the_time_out(slow: list[threading.Event]) -> None:
    """The making asks the name service, and reads files that may be on a volume."""
    storage = connect("hdfs", "nn1:8020", None, timeout=0.2)
    failed = threading.Event()

    def ask() -> None:
        with pytest.raises(StorageError, match="no answer for"):
            storage.exists("hdfs://nn1:8020/table")
        failed.set()

    threading.Thread(target=ask, daemon=True).start()
    assert failed.wait(30)


def test_of_clients_that_are_made_at_once_the_first_is_kept(slow: list[threading.Event]) -> None:
    client = hdfs_client.HdfsClient("hdfs://nn1:8020", None, timeout=0.2)

    def number() -> int:
        answer: int = client.ask("hdfs://nn1:8020/table", "look at", lambda hdfs: hdfs.get_file_info("/table"))
        return answer

    with pytest.raises(StorageError, match="no answer for"):
        number()
    earlier, answers = len(slow), []
    for event in slow:
        event.set()
    while not answers:
        with suppress(StorageError):
            answers.append(number())
    assert answers[0] <= earlier
