"""A server that refuses, hangs, dies or answers by halves: an error in bounded time, which means "not known"."""

import threading
from collections.abc import Callable
from itertools import product
from types import TracebackType
from typing import Self

import pytest
from sandbox.s3.proxy import Answer, Call, Forward, MisbehavingProxy, empty, half, instead, lost, refused
from sandbox.s3.server import S3Server

from compaction_operator.storage import AlreadyExistsError, NotFoundError, Storage, StorageError, join
from compaction_operator.storage.s3 import S3Storage
from compaction_operator.storage.s3.files import END_BYTES
from tests.integration.storage.s3.conftest import PARAMETERS, QUICK, STORES, storage_at

by_one_server = pytest.mark.parametrize(PARAMETERS, [STORES["minio"]], scope="session", ids=[""])
"""The proxy's faults are the same before each."""

ONCE = {
    "throttled": refused(429, "TooManyRequests"),
    "internal": refused(500, "InternalError"),
    "slow-down": refused(503, "SlowDown"),
    "lost": lost,
    "half": half,
}
"""What a client tries again."""

LASTING = {
    **ONCE,
    "forbidden": refused(403, "AccessDenied"),
    "key-unknown": refused(403, "InvalidAccessKeyId"),
    "expired": refused(400, "ExpiredToken"),
    "no-bucket": refused(404, "NoSuchBucket"),
    "nothing-there": refused(404, "PageNotFound"),
    "conflict": refused(409, "ConditionalRequestConflict"),
    "precondition": refused(412, "PreconditionFailed"),
    "full": refused(507, "XMinioStorageFull"),
    "redirected": refused(301, "PermanentRedirect"),
    "empty": empty,
    "instead": instead,
}

LARGE = b"content" * END_BYTES

OPERATIONS = ("list", "get", "head", "put", "delete", "begin", "copy_part", "list_parts", "complete", "abort")

Use = Callable[[S3Storage, str], object]


def publish(storage: S3Storage, place: str) -> None:
    uploads = storage.uploads.begin(place, {"new": join(place, "file")})
    storage.uploads.complete(place, uploads)


USES: dict[str, Use] = {
    "list": lambda storage, place: storage.list(place),
    "list_partition": lambda storage, place: storage.list_partition(place),
    "read": lambda storage, place: storage.read(join(place, "file")),
    "read_range": lambda storage, place: storage.reader(join(place, "file")).read(1, 3),
    "write": lambda storage, place: storage.write(join(place, "new"), b"content"),
    "exists": lambda storage, place: storage.exists(join(place, "file")),
    "sync": lambda storage, place: storage.sync(join(place, "file")),
    "delete_tree": lambda storage, place: storage.delete_tree(join(place, "file")),
    "publish": publish,
}


@pytest.fixture
def filled(storage: Storage, place: str) -> str:
    storage.write(join(place, "file"), b"content")
    return place


@by_one_server
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("fault", ONCE)
def test_what_passes_is_not_noticed(
    behind_proxy: S3Storage, proxy: MisbehavingProxy, filled: str, use: str, fault: str
):
    """Each call fails once. The answer is that of a good day."""
    proxy.misbehave(1, **dict.fromkeys(OPERATIONS, ONCE[fault]))
    USES[use](behind_proxy, filled)
    assert behind_proxy.exists(join(filled, "new")) == (use in {"write", "publish"})
    assert behind_proxy.exists(join(filled, "file")) == (use != "delete_tree")


@by_one_server
@pytest.mark.parametrize(("use", "fault"), [pair for pair in product(USES, LASTING) if pair != ("write", "half")])
def test_what_lasts_is_an_error_that_names_the_place(
    behind_proxy: S3Storage, proxy: MisbehavingProxy, filled: str, use: str, fault: str
):
    """NotFoundError would let a table count as dropped, and AlreadyExistsError a name as taken.

    NB: the answer to a PUT has no body, so there is no half of it.
    """
    proxy.behave(**dict.fromkeys(OPERATIONS, LASTING[fault]))
    with pytest.raises(StorageError, match=filled.rpartition("/")[2]) as raised:
        USES[use](behind_proxy, filled)
    assert not isinstance(raised.value, NotFoundError | AlreadyExistsError)


@by_one_server
def test_a_condition_that_fails_for_no_reason_says_nothing_of_the_name(
    behind_proxy: S3Storage, proxy: MisbehavingProxy, place: str
):
    proxy.behave(put=refused(412, "PreconditionFailed"))
    with pytest.raises(StorageError, match="PreconditionFailed") as raised:
        behind_proxy.write(join(place, "new"), b"content")
    assert not isinstance(raised.value, AlreadyExistsError)


def test_a_write_whose_answer_was_lost_knows_its_own_object(
    behind_proxy: S3Storage, proxy: MisbehavingProxy, place: str
):
    """Not by the content: another writer's may be the same, and only one may believe that it was first."""
    proxy.misbehave(1, put=lost)
    behind_proxy.write(join(place, "file"), b"content")
    assert proxy.calls["put"] == 2
    with pytest.raises(AlreadyExistsError):
        behind_proxy.write(join(place, "file"), b"content")


def test_an_object_that_is_replaced_while_it_is_read_is_an_error(storage: S3Storage, filled: str):
    """The end came when it was opened: what is before it is read later."""
    storage.write(join(filled, "large"), LARGE)
    reader = storage.reader(join(filled, "large"))
    assert reader.read(0, 4) == b"cont"
    storage.delete_tree(join(filled, "large"))
    with pytest.raises(NotFoundError):
        reader.read(0, 4)
    storage.write(join(filled, "large"), LARGE.upper())
    with pytest.raises(StorageError, match="replaced"):
        reader.read(0, 4)


@by_one_server
def test_a_range_of_another_length_is_an_error(behind_proxy: S3Storage, proxy: MisbehavingProxy, filled: str) -> None:
    """A gateway that keeps to no range, or to another."""

    def shorter(_call: Call, forward: Forward) -> Answer:
        whole = forward()
        return Answer(whole.status, whole.headers, whole.body[:-1])

    behind_proxy.write(join(filled, "large"), LARGE)
    reader = behind_proxy.reader(join(filled, "large"))
    proxy.behave(get=shorter)
    with pytest.raises(StorageError, match="3 bytes came instead of 4"):
        reader.read(0, 4)
    with pytest.raises(StorageError, match=f"{END_BYTES - 1} bytes came of the last {END_BYTES} of {len(LARGE)}"):
        behind_proxy.reader(join(filled, "large"))


@by_one_server
def test_a_listing_that_ends_too_early_is_an_error(behind_proxy: S3Storage, proxy: MisbehavingProxy, filled: str):
    """One that says that there is more, but not where."""

    def cut_off(_call: Call, forward: Forward) -> Answer:
        whole = forward()
        body = whole.body.replace(b"<IsTruncated>false<", b"<IsTruncated>true<")
        return Answer(whole.status, whole.headers, body)

    proxy.behave(list=cut_off)
    for listing in (behind_proxy.list, behind_proxy.list_partition, behind_proxy.delete_tree):
        with pytest.raises(StorageError, match="NextContinuationToken"):
            listing(filled)


@pytest.mark.parametrize("kind", ["minio"], scope="session", ids=[""])
@pytest.mark.parametrize("use", USES)
def test_a_server_that_hangs_is_an_error_in_time(
    own_server: S3Server, own_storage: S3Storage, own_place: str, use: str
):
    own_server.pause()
    try:
        with pytest.raises(StorageError, match=own_place.rpartition("/")[2]) as raised:
            USES[use](own_storage, own_place)
        assert not isinstance(raised.value, NotFoundError | AlreadyExistsError)
    finally:
        own_server.resume()
    assert own_storage.exists(own_place)


class StoppedServer:
    """A server that is killed, or hangs, when a call comes to it by `proxy`; a context manager until it is back."""

    def __init__(self, server: S3Server, stop: Callable[[S3Server], None]) -> None:
        self.proxy = MisbehavingProxy(server.endpoint)
        self._server = server
        self._stop = stop
        self._lock, self._stopped, self._back = threading.Lock(), threading.Event(), threading.Event()

    def at(self, step: str) -> None:
        """Stop it at the next call of this operation; from then on the operation has no answer."""
        self.proxy.behave(**{step: self._stop_once})

    def come_back(self) -> None:
        """End what has stopped it."""
        self._server.resume() if self._stop is S3Server.pause else self._server.start()
        self._back.set()

    def _stop_once(self, _call: Call, forward: Forward) -> Answer | None:
        with self._lock:
            if not self._stopped.is_set():
                self._stop(self._server)
                self._stopped.set()
        return forward() if self._back.is_set() else None

    def __enter__(self) -> Self:
        self.proxy.__enter__()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.proxy.__exit__(type_, error, traceback)
        if self._stopped.is_set() and not self._back.is_set():
            self.come_back()


by_own_server = pytest.mark.parametrize("kind", ["minio"], scope="session", ids=[""])
each_stop = pytest.mark.parametrize("stop", [S3Server.kill, S3Server.pause])


@by_own_server
@each_stop
@pytest.mark.parametrize("step", ["begin", "copy_part", "list_parts", "complete", "head"])
def test_a_publication_goes_on_when_the_server_is_back(
    own_server: S3Server, own_storage: S3Storage, own_place: str, step: str, stop: Callable[[S3Server], None]
):
    """Killed or hung right at a step: nothing is there too early, and in the end all is."""
    names = {f"base_1_v7/bucket_{number:05}": join(own_place, "file") for number in range(3)}
    target = join(own_place, "base_1_v7")
    with StoppedServer(own_server, stop) as stopped:
        driver = storage_at(own_server, own_storage.bucket.name, pace=QUICK, endpoint=stopped.proxy.endpoint)
        uploads = () if step in {"begin", "copy_part"} else driver.uploads.begin(own_place, names)
        stopped.at(step)
        with pytest.raises(StorageError):
            driver.uploads.complete(own_place, uploads or driver.uploads.begin(own_place, names))
        stopped.come_back()
        if not uploads:
            assert not driver.exists(target)
            uploads = driver.uploads.begin(own_place, names)
        driver.uploads.complete(own_place, uploads)
    assert len(own_storage.list(target)) == len(names)


@by_own_server
@each_stop
@pytest.mark.parametrize("step", ["abort", "list_parts"])
def test_a_revocation_goes_on_when_the_server_is_back(
    own_server: S3Server, own_storage: S3Storage, own_place: str, step: str, stop: Callable[[S3Server], None]
):
    """Until it has succeeded it is an error, and after that nothing can be completed."""
    names = {f"base_1_v7/bucket_{number:05}": join(own_place, "file") for number in range(3)}
    with StoppedServer(own_server, stop) as stopped:
        controller = storage_at(own_server, own_storage.bucket.name, pace=QUICK, endpoint=stopped.proxy.endpoint)
        uploads = own_storage.uploads.begin(own_place, names)
        stopped.at(step)
        with pytest.raises(StorageError):
            controller.uploads.abort(own_place, uploads)
        stopped.come_back()
        controller.uploads.abort(own_place, uploads)
    with pytest.raises(NotFoundError, match="aborted"):
        own_storage.uploads.complete(own_place, uploads)
    assert not own_storage.exists(join(own_place, "base_1_v7"))


@by_own_server
@each_stop
@pytest.mark.parametrize("step", ["list", "delete"])
def test_a_deletion_goes_on_when_the_server_is_back(
    own_server: S3Server, own_storage: S3Storage, own_place: str, step: str, stop: Callable[[S3Server], None]
):
    """Nothing else is deleted, not even what has a longer name."""
    for name in ("delta_1_1", "delta_1_10"):
        for number in range(3):
            own_storage.write(join(own_place, name, f"bucket_{number:05}"), b"rows")
    with StoppedServer(own_server, stop) as stopped:
        controller = storage_at(own_server, own_storage.bucket.name, pace=QUICK, endpoint=stopped.proxy.endpoint)
        stopped.at(step)
        with pytest.raises(StorageError):
            controller.delete_tree(join(own_place, "delta_1_1"))
        stopped.come_back()
        # NB: the call that hung has reached no server.
        assert controller.delete_tree(join(own_place, "delta_1_1")) == 12
    assert [entry.name for entry in own_storage.list(own_place)] == ["delta_1_10", "file"]
    assert len(own_storage.list(join(own_place, "delta_1_10"))) == 3
