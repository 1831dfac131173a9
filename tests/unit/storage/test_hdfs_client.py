"""HDFS that cannot be reached at all: errors that name the location and say nothing about what is there."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sandbox.hdfs.server import write_properties

from compaction_operator.api.stores import Hdfs, KerberosLogin
from compaction_operator.storage import NotFoundError, StorageError, hdfs_client
from compaction_operator.storage.hdfs import HdfsReader, HdfsWriter, connect


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


@pytest.fixture(params=["settings", "HADOOP_CONF_DIR", "HADOOP_HOME"])
def settings(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hdfs | None:
    """A configuration with two name services, found by the settings or by the environment."""
    folder = tmp_path / "etc/hadoop"
    folder.mkdir(parents=True)
    write_properties(folder / "core-site.xml", {"dfs.ha.namenodes.warehouse": "nn1,nn2"})
    write_properties(folder / "hdfs-site.xml", {f"{hdfs_client.PROVIDER}.archive": OBSERVERS})
    if request.param == "settings":
        return Hdfs(config_map="hadoop", mount_path=str(folder))
    monkeypatch.setenv(request.param, str(tmp_path if request.param == "HADOOP_HOME" else folder))
    return None


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("hdfs://nn1:8020", {"nn1", "warehouse", "archive"}),
        ("hdfs://other", {"other", "warehouse", "archive"}),
        ("hdfs://", {"warehouse", "archive"}),
        ("viewfs://all", {"all", "warehouse", "archive"}),
    ],
)
def test_no_listing_comes_from_an_observer(
    uri: str, names: set[str], options: list[dict[str, str]], settings: Hdfs | None
) -> None:
    """An observer lags behind: a fence would miss the staging folder of another driver."""
    scheme, _, authority = uri.partition("://")
    with pytest.raises(StorageError, match="unreachable"):
        connect(scheme, authority, settings).exists(f"{uri}/table")
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
    earlier, answers = len(slow), list[int]()
    for event in slow:
        event.set()
    while not answers:
        with suppress(StorageError):
            answers.append(number())
    assert answers[0] <= earlier


def _raised(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> StorageError:
    """Return the error of a change for which hdfs-native raises `error`."""
    monkeypatch.setattr(hdfs_client, "Client", lambda *_, **_kwargs: None)
    client = hdfs_client.HdfsClient("hdfs://nn1:8020", None, timeout=0.1)

    def fail(_: object) -> None:
        raise error

    with pytest.raises(StorageError) as raised:
        client.change("hdfs://nn1:8020/table", "change", fail)
    return raised.value


def _answered(name: str, message: str) -> RuntimeError:
    return RuntimeError(f'RPCError("{name}", "{message}\\n\\tat org.apache.hadoop.Some.method(Some.java:1)")')


@pytest.mark.parametrize(
    "error",
    [
        _answered("java.io.IOException", "File /f could only be written to 0 of the 1 minReplication nodes."),
        _answered("org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException", "Not replicated yet: /f"),
        _answered("org.apache.hadoop.hdfs.server.federation.router.NoNamenodesAvailableException", "No namenodes"),
        _answered("java.net.ConnectException", "Call From router to nn1:8020 failed on connection exception"),
        _answered("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot create file"),
        _answered("org.apache.hadoop.security.token.SecretManager$InvalidToken", "token is expired"),
        RuntimeError('OperationFailed("Failed to complete file in time")'),
        RuntimeError('DataTransferError("Failed to read block")'),
        RuntimeError('GSSAPIError(GssMajorCodes(851968), 0, "Clock skew too great")'),
        RuntimeError('GSSAPIError(GssMajorCodes(851968), 0, "Preauthentication failed")'),
        ConnectionRefusedError("Connection refused"),
    ],
    ids=str,
)
def test_a_fault_that_may_pass_is_said_to(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _raised(error, monkeypatch).passing


@pytest.mark.parametrize(
    "error",
    [
        _answered("org.apache.hadoop.security.AccessControlException", "Permission denied: user=alice"),
        _answered("org.apache.hadoop.hdfs.protocol.SnapshotAccessControlException", "Modification on a snapshot"),
        _answered("org.apache.hadoop.security.authorize.AuthorizationException", "User a is not allowed"),
        _answered("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota is exceeded"),
        _answered("org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", "The NameSpace quota is exceeded"),
        _answered("org.apache.hadoop.hdfs.protocol.QuotaByStorageTypeExceededException", "Quota by storage type"),
        _answered("org.apache.hadoop.fs.ParentNotDirectoryException", "/f is not a directory"),
        _answered("org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", "/d is non empty"),
        _answered("org.apache.hadoop.fs.InvalidPathException", "Invalid path name"),
        _answered("org.apache.hadoop.hdfs.protocol.UnresolvedPathException", "/link"),
        _answered("org.apache.hadoop.hdfs.protocol.SnapshotException", "The directory cannot be deleted"),
        _answered("org.apache.hadoop.hdfs.protocol.FSLimitException$MaxDirectoryItemsExceededException", "limit"),
        _answered("java.lang.UnsupportedOperationException", "Symlinks not supported"),
        _answered("org.apache.hadoop.ipc.RpcNoSuchMethodException", "Unknown method"),
        _answered("java.io.IOException", "/a can't be moved from an encryption zone."),
        RuntimeError('InvalidArgument("No NameNode hosts found")'),
        RuntimeError("ChecksumError"),
        FileNotFoundError("Path is not a file: /d"),
        IsADirectoryError("/d"),
        NotImplementedError("a feature"),
        TypeError("of a program"),
    ],
    ids=str,
)
def test_a_fault_that_lasts_is_not_said_to_pass(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _raised(error, monkeypatch).passing


def test_what_the_account_may_not_do_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = _answered("org.apache.hadoop.security.AccessControlException", "Permission denied: user=alice")
    assert _raised(denied, monkeypatch).denied
    snapshot = _answered("org.apache.hadoop.hdfs.protocol.SnapshotAccessControlException", "Modification on a snapshot")
    assert not _raised(snapshot, monkeypatch).denied


def test_a_configuration_or_keytab_that_is_being_replaced_may_be_there_later(tmp_path: Path) -> None:
    login = KerberosLogin(client_principal="alice", keytab=str(tmp_path / "keytab"))
    settings = Hdfs(config_map="hadoop", mount_path=str(tmp_path), kerberos=login)
    for missing in ("neither core-site.xml", "the keytab cannot be read"):
        with pytest.raises(StorageError, match=missing) as raised:
            connect("hdfs", "127.0.0.1:1", settings).exists("hdfs://127.0.0.1:1/table")
        assert raised.value.passing
        write_properties(tmp_path / "core-site.xml", {})


@pytest.mark.parametrize("operation", ["write", "close"])
def test_a_refused_piece_is_not_written_again(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """hdfs-native may have taken a part of it, and the NameNode refused the next block."""
    monkeypatch.setattr(hdfs_client, "Client", lambda *_, **_kwargs: None)
    pieces: list[bytes] = []

    class Refusing:
        def write(self, piece: bytes = b"") -> None:
            pieces.append(piece)
            raise _answered("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot add block")

        close = write

    client = hdfs_client.HdfsClient("hdfs://nn1:8020", None, timeout=10)
    writer = HdfsWriter(client, "hdfs://nn1:8020/f", Refusing())
    with pytest.raises(StorageError, match="SafeModeException") as raised:
        writer.write(b"rows") if operation == "write" else writer.close()
    assert raised.value.passing
    assert len(pieces) == 1


def test_a_range_of_another_length_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that ends too early looks like its end."""

    class Short:
        def read(self, _name: str) -> "Short":
            return self

        def __len__(self) -> int:
            return 10

        def read_range_stream(self, _offset: int, _length: int) -> Iterator[bytes]:
            return iter([b"r", b"o"])

    monkeypatch.setattr(hdfs_client, "Client", lambda *_, **_kwargs: Short())
    reader = HdfsReader(hdfs_client.HdfsClient("hdfs://nn1:8020", None, timeout=10), "hdfs://nn1:8020/f")
    with pytest.raises(StorageError, match="2 bytes of hdfs://nn1:8020/f came instead of 4") as raised:
        reader.read(0, 4)
    assert raised.value.passing
