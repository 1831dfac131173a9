"""HDFS that does not answer, or dies: errors in bounded time that name what is wrong, and never "not there"."""

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from compaction_operator.storage import AlreadyExistsError, NotFoundError, StorageError, join
from compaction_operator.storage.hdfs import HdfsStorage, connect
from compaction_operator.storage.hdfs_client import CALLS
from tests.integration.storage.hdfs_users import Hadoop, after_first_failure
from tests.integration.storage.rpc_proxy import Fault, RpcProxy

HASTE = 0.6
"""Time-out of calls that are not meant to succeed."""
CONTENT = b"rows" * 1000

OPERATIONS: dict[str, Callable[[HdfsStorage, str], object]] = {
    "list": lambda storage, place: storage.list(place),
    "list_partition": lambda storage, place: storage.list_partition(place),
    "read": lambda storage, place: storage.read(join(place, "file")),
    "write": lambda storage, place: storage.write(join(place, "new"), b""),
    "make_directory": lambda storage, place: storage.make_directory(join(place, "made")),
    "rename": lambda storage, place: storage.rename(join(place, "file"), join(place, "renamed")),
    "publish": lambda storage, place: storage.publish(join(place, "file"), join(place, "published")),
    "sync": lambda storage, place: storage.sync(place),
    "delete_tree": lambda storage, place: storage.delete_tree(join(place, "file")),
    "remove_if_empty": lambda storage, place: storage.remove_if_empty(place),
    "exists": lambda storage, place: storage.exists(join(place, "missing")),
    "reader": lambda storage, place: storage.reader(join(place, "file")),
    "writer": lambda storage, place: storage.writer(join(place, "new")),
}


@pytest.fixture
def hadoop(plain: Hadoop) -> Hadoop:
    return plain


@pytest.fixture
def paused(hadoop: Hadoop) -> Iterator[Callable[[str], None]]:
    """Pause NameNode or DataNode until the test's end."""
    roles: list[str] = []

    def pause(role: str) -> None:
        hadoop.server.pause(role)
        roles.append(role)

    yield pause
    for role in roles:
        hadoop.server.resume(role)


def _error_of(operation: str, storage: HdfsStorage, place: str) -> StorageError:
    with pytest.raises(StorageError) as raised:
        OPERATIONS[operation](storage, place)
    return raised.value


def test_no_operation_waits_for_a_namenode_that_hangs(
    hadoop: Hadoop, place: str, paused: Callable[[str], None]
) -> None:
    hadoop.storage.write(join(place, "file"), CONTENT)
    hasty = hadoop.connect(timeout=HASTE)
    hasty.list(place)
    paused("NameNode")
    with ThreadPoolExecutor(len(OPERATIONS)) as threads:
        errors = list(threads.map(lambda name: _error_of(name, hasty, place), OPERATIONS))
    for error in errors:
        assert place in str(error) and not isinstance(error, NotFoundError | AlreadyExistsError)
    hadoop.server.resume("NameNode")
    assert hadoop.storage.list(place)
    assert [entry.name for entry in hadoop.connect().list(place)] == ["file"]


def test_calls_that_hang_take_a_bounded_number_of_threads(
    hadoop: Hadoop, place: str, paused: Callable[[str], None]
) -> None:
    before = threading.active_count()
    hasty = hadoop.connect(timeout=HASTE)
    paused("NameNode")
    for _ in range(3):
        with ThreadPoolExecutor(CALLS) as threads:
            errors = list(threads.map(lambda _: _error_of("exists", hasty, place), range(CALLS)))
        assert threading.active_count() <= before + CALLS
    assert any(f"{CALLS} earlier calls have no answer yet" in str(error) for error in errors)
    hadoop.server.resume("NameNode")
    assert hadoop.connect().exists(place)


def test_a_namenode_that_hangs_for_a_moment_is_asked_again(
    hadoop: Hadoop, place: str, paused: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = hadoop.connect(timeout=6)
    storage.list(place)
    after_first_failure(monkeypatch, lambda: hadoop.server.resume("NameNode"))
    paused("NameNode")
    assert storage.list(place) == []


def test_a_namenode_that_died_is_waited_for_by_reads_and_by_changes_that_it_refused(
    hadoop: Hadoop, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change whose fate is not known fails at once. It did not happen, and succeeds when it is made again."""
    storage = hadoop.connect(timeout=120)
    storage.make_directory(join(place, "staged"))
    hadoop.server.kill("NameNode")
    with pytest.raises(StorageError) as raised:
        storage._move(join(place, "staged"), join(place, "base_1"))
    assert not isinstance(raised.value, NotFoundError)
    after_first_failure(monkeypatch, hadoop.server.start)
    assert [entry.name for entry in storage.list(place)] == ["staged"]
    storage.publish(join(place, "staged"), join(place, "base_1"))
    assert [entry.name for entry in storage.list(place)] == ["base_1"]


def test_a_change_waits_for_the_end_of_safe_mode(hadoop: Hadoop, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hadoop.storage.make_directory(join(place, "staged"))
    hadoop.server.admin("-safemode", "enter")
    with pytest.raises(StorageError, match=r"SafeModeException: .*safe mode"):
        hadoop.connect(timeout=0.1).rename(join(place, "staged"), join(place, "base_1"))
    after_first_failure(monkeypatch, lambda: hadoop.server.admin("-safemode", "leave"))
    hadoop.storage.rename(join(place, "staged"), join(place, "base_1"))
    assert [entry.name for entry in hadoop.storage.list(place)] == ["base_1"]


def test_a_datanode_that_hangs_fails_reads_and_writes(
    hadoop: Hadoop, place: str, paused: Callable[[str], None]
) -> None:
    """What was not written whole cannot be completed."""
    hadoop.storage.write(join(place, "file"), CONTENT)
    hasty = hadoop.connect(timeout=HASTE)
    reader, writer = hasty.reader(join(place, "file")), hasty.writer(join(place, "new"))
    paused("DataNode")
    with pytest.raises(StorageError, match=rf"cannot read {place}/file"):
        reader.read(0, 10)
    with pytest.raises(StorageError, match=rf"{place}/new"):
        writer.write(CONTENT)
        writer.close()
    with pytest.raises(StorageError, match="an earlier write failed"):
        writer.close()
    hadoop.server.resume("DataNode")
    assert hadoop.connect().read(join(place, "file")) == CONTENT
    assert reader.read(4, 4) == b"rows"


def test_a_datanode_that_died_is_waited_for(hadoop: Hadoop, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hadoop.storage.write(join(place, "file"), CONTENT)
    reader = hadoop.connect(timeout=120).reader(join(place, "file"))
    hadoop.server.kill("DataNode")
    hasty = hadoop.connect(timeout=HASTE)
    with pytest.raises(StorageError, match=rf"{place}/file") as raised:
        hasty.read(join(place, "file"))
    assert not isinstance(raised.value, NotFoundError)
    after_first_failure(monkeypatch, hadoop.server.start)
    assert reader.read(0, len(CONTENT)) == CONTENT


@pytest.fixture
def proxy(hadoop: Hadoop) -> Iterator[RpcProxy]:
    with RpcProxy(hadoop.server.uri) as proxy:
        yield proxy


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.HALF])
def test_a_lost_answer_to_a_rename_is_an_error_whose_outcome_is_not_known(
    hadoop: Hadoop, place: str, proxy: RpcProxy, fault: Fault
) -> None:
    hadoop.storage.make_directory(join(place, "staged"))
    there = place.replace(hadoop.server.uri, f"hdfs://{proxy.authority}")
    proxy.spoil("rename2", fault)
    with pytest.raises(StorageError, match="cannot rename to") as raised:
        connect("hdfs", proxy.authority, None).publish(join(there, "staged"), join(there, "base_1"))
    assert not isinstance(raised.value, NotFoundError | AlreadyExistsError)
    assert [entry.name for entry in hadoop.storage.list(place)] == ["base_1"]


def test_a_rename_without_an_answer_is_an_error_whose_outcome_is_not_known(
    hadoop: Hadoop, place: str, proxy: RpcProxy
) -> None:
    hadoop.storage.make_directory(join(place, "staged"))
    there = place.replace(hadoop.server.uri, f"hdfs://{proxy.authority}")
    storage = connect("hdfs", proxy.authority, None, timeout=HASTE)
    proxy.spoil("rename2", Fault.HANG)
    with pytest.raises(StorageError, match=r"cannot rename to .*no answer for") as raised:
        storage.publish(join(there, "staged"), join(there, "base_1"))
    assert not isinstance(raised.value, NotFoundError | AlreadyExistsError)
    assert [entry.name for entry in storage.list(there)] == ["base_1"]


@pytest.mark.parametrize("method", ["create", "rename2"])
def test_a_lost_answer_to_a_write_is_never_taken_for_a_file_of_another(
    hadoop: Hadoop, place: str, proxy: RpcProxy, method: str
) -> None:
    """The journal of an attempt: AlreadyExistsError would mean that another has written it."""
    there = place.replace(hadoop.server.uri, f"hdfs://{proxy.authority}")
    proxy.spoil(method, Fault.LOST)
    with pytest.raises(StorageError) as raised:
        connect("hdfs", proxy.authority, None).write(join(there, "intent"), b"content")
    assert not isinstance(raised.value, NotFoundError | AlreadyExistsError)
    assert hadoop.storage.list(place) == [] or hadoop.storage.read(join(place, "intent")) == b"content"


def test_a_file_that_was_not_written_whole_is_never_completed(hadoop: Hadoop, place: str, proxy: RpcProxy) -> None:
    """Not even by the library, when its writer is garbage: that waits for the NameNode without a time-out."""
    there = place.replace(hadoop.server.uri, f"hdfs://{proxy.authority}")
    writer = connect("hdfs", proxy.authority, None).writer(join(there, "new"))
    proxy.spoil("addBlock", Fault.LOST)
    with pytest.raises(StorageError, match=rf"cannot write {there}/new"):
        writer.write(CONTENT)
    proxy.spoil("complete", Fault.LOST)
    del writer
    gc.collect()
    assert proxy.armed


@pytest.mark.parametrize("fault", list(Fault))
def test_a_lost_answer_to_a_look_is_asked_again(hadoop: Hadoop, place: str, proxy: RpcProxy, fault: Fault) -> None:
    there = place.replace(hadoop.server.uri, f"hdfs://{proxy.authority}")
    proxy.spoil("getFileInfo", fault)
    assert connect("hdfs", proxy.authority, None, timeout=6).exists(there)
